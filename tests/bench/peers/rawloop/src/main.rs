#![allow(clippy::all, reason = "a peer program, kept as close to its origin as fairness allows")]
//! `rawloop gen`: fills the input topic. `rawloop run`: the bare transactional consume-transform-produce loop on librdkafka,
//! the limit that a runtime on the same client can approach. No bookkeeping, no recovery: never use it for data.
use rdkafka::bindings as sys;
use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::time::{Duration, Instant};

#[derive(Deserialize)]
struct Order<'a> {
    order_id: u64,
    #[serde(borrow)]
    customer_id: Cow<'a, str>,
    #[serde(borrow)]
    amount: Cow<'a, str>,
    #[serde(borrow)]
    currency: Cow<'a, str>,
    #[serde(borrow)]
    event_time: Cow<'a, str>,
}

#[derive(Serialize)]
struct CleanOrder<'a> {
    order_id: u64,
    customer_id: &'a str,
    amount_cents: i64,
    currency: &'a str,
    event_time: &'a str,
}

fn cents(amount: &str) -> Option<i64> {
    let (whole, part) = amount.split_once('.')?;
    Some(whole.parse::<i64>().ok()? * 100 + part.parse::<i64>().ok()?)
}

fn clean(payload: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let o: Order = serde_json::from_slice(payload).ok()?;
    let c = CleanOrder {
        order_id: o.order_id,
        customer_id: &o.customer_id,
        amount_cents: cents(&o.amount)?,
        currency: &o.currency,
        event_time: &o.event_time,
    };
    out.clear();
    serde_json::to_writer(out, &c).ok()
}

/// Event time advances 1 ms a record; 1 in 50 amounts is "N/A"; 1 in 20 records repeats the id of the one 7 before it.
/// An order has one item, or as many as make it `bytes_min` long.
fn gen(bootstrap: &str, topic: &str, n: u64, bytes_min: usize) {
    let p: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("linger.ms", "20")
        .set("batch.size", "1000000")
        .set("queue.buffering.max.messages", "1000000")
        .set("compression.type", "lz4")
        .set("partitioner", "murmur2_random")
        .create()
        .unwrap();
    for i in 0..n {
        let id = if i % 20 == 19 { i - 7 } else { i };
        let customer = id.wrapping_mul(2_654_435_761) % 100_000;
        let amount = if id % 50 == 3 { "N/A".to_string() } else { format!("{}.{:02}", id * 7 % 500, id % 100) };
        let s = i / 1000;
        let mut value = format!(
            r#"{{"order_id":{id},"customer_id":"C-{customer:05}","amount":"{amount}","currency":"EUR","event_time":"2026-01-22T{:02}:{:02}:{:02}.{:03}Z","status":"new","channel":"web","items":[{{"sku":"SKU-{:04}","qty":{}}}]}}"#,
            s / 3600 % 24,
            s / 60 % 60,
            s % 60,
            i % 1000,
            id % 9973,
            id % 5 + 1
        );
        let mut sku = id;
        while value.len() < bytes_min {
            sku = sku.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            value.truncate(value.len() - 2);
            value.push_str(&format!(r#",{{"sku":"SKU-{:04}","qty":{}}}]}}"#, (sku >> 33) % 9973, (sku >> 50) % 5 + 1));
        }
        let key = format!("C-{customer:05}");
        while p.send(BaseRecord::to(topic).payload(&value).key(&key)).is_err() {
            p.poll(Duration::from_millis(10));
        }
        if i % 1000 == 0 {
            p.poll(Duration::ZERO);
        }
    }
    p.flush(Duration::from_secs(60)).unwrap();
}

unsafe fn check(e: *mut sys::rd_kafka_error_t) {
    if !e.is_null() {
        panic!("{:?}", CStr::from_ptr(sys::rd_kafka_error_string(e)));
    }
}

unsafe fn consumer(bootstrap: &str, group: &str, topic: &CStr) -> *mut sys::rd_kafka_t {
    let conf = sys::rd_kafka_conf_new();
    let mut err = [0 as libc::c_char; 512];
    for (k, v) in [
        ("bootstrap.servers", bootstrap),
        ("group.id", group),
        ("enable.auto.commit", "false"),
        ("auto.offset.reset", "earliest"),
        ("isolation.level", "read_committed"),
        ("queued.max.messages.kbytes", "65536"),
        ("fetch.queue.backoff.ms", "5"),
        ("fetch.wait.max.ms", "50"),
        // As everybody here: what arrives is checked.
        ("check.crcs", "true"),
    ] {
        let (k, v) = (CString::new(k).unwrap(), CString::new(v).unwrap());
        assert_eq!(sys::rd_kafka_conf_set(conf, k.as_ptr(), v.as_ptr(), err.as_mut_ptr(), err.len()) as i32, 0);
    }
    let rk = sys::rd_kafka_new(sys::rd_kafka_type_t::RD_KAFKA_CONSUMER, conf, err.as_mut_ptr(), err.len());
    assert!(!rk.is_null());
    sys::rd_kafka_poll_set_consumer(rk);
    let list = sys::rd_kafka_topic_partition_list_new(1);
    sys::rd_kafka_topic_partition_list_add(list, topic.as_ptr(), -1);
    sys::rd_kafka_subscribe(rk, list);
    rk
}

fn run(bootstrap: &str, input: &str, output: &str, n: u64, workload: &str, commit_ms: u64, group: &str) {
    let p: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("transactional.id", format!("{group}-0"))
        .set("linger.ms", "2")
        .set("retry.backoff.ms", "5")
        .set("compression.type", "lz4")
        .set("batch.size", "1000000")
        .set("queue.buffering.max.messages", "1000000")
        .set("partitioner", "murmur2_random")
        .set("delivery.report.only.error", "true")
        .create()
        .unwrap();
    p.init_transactions(Duration::from_secs(30)).unwrap();
    let (input, out_name, dlq_name) = (CString::new(input).unwrap(), CString::new(output).unwrap(), CString::new(format!("{output}_dlq")).unwrap());
    let start = Instant::now();
    let (mut done, mut first, mut txns) = (0u64, None, 0u64);
    unsafe {
        let c = consumer(bootstrap, group, &input);
        let prk = p.client().native_ptr();
        let queue = sys::rd_kafka_queue_get_consumer(c);
        let (out_topic, dlq_topic) = (
            sys::rd_kafka_topic_new(prk, out_name.as_ptr(), std::ptr::null_mut()),
            sys::rd_kafka_topic_new(prk, dlq_name.as_ptr(), std::ptr::null_mut()),
        );
        let mut batch: Vec<*mut sys::rd_kafka_message_t> = vec![std::ptr::null_mut(); 10_000];
        let mut value = Vec::with_capacity(512);
        let mut offsets = std::collections::HashMap::new();
        let mut begun: Option<Instant> = None;
        while done < n {
            let got = sys::rd_kafka_consume_batch_queue(queue, 5, batch.as_mut_ptr(), batch.len());
            for &raw in &batch[..got.max(0) as usize] {
                let m = &*raw;
                if m.err == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                    first.get_or_insert_with(Instant::now);
                    if begun.is_none() {
                        p.begin_transaction().unwrap();
                        begun = Some(Instant::now());
                    }
                    let payload = std::slice::from_raw_parts(m.payload as *const u8, m.len);
                    let (topic, bytes): (_, &[u8]) = match workload {
                        "copy" => (out_topic, payload),
                        _ => match clean(payload, &mut value) {
                            Some(()) => (out_topic, &value),
                            None => (dlq_topic, payload),
                        },
                    };
                    while sys::rd_kafka_produce(
                        topic,
                        -1,
                        sys::RD_KAFKA_MSG_F_COPY as i32,
                        bytes.as_ptr() as *mut _,
                        bytes.len(),
                        m.key,
                        m.key_len,
                        std::ptr::null_mut(),
                    ) != 0
                    {
                        sys::rd_kafka_poll(prk, 5);
                    }
                    offsets.insert(m.partition, m.offset + 1);
                    done += 1;
                }
                sys::rd_kafka_message_destroy(raw);
            }
            sys::rd_kafka_poll(prk, 0);
            if begun.is_some_and(|b| b.elapsed() >= Duration::from_millis(commit_ms) || done >= n) {
                let list = sys::rd_kafka_topic_partition_list_new(offsets.len() as i32);
                for (partition, position) in offsets.drain() {
                    (*sys::rd_kafka_topic_partition_list_add(list, input.as_ptr(), partition)).offset = position;
                }
                let group_metadata = sys::rd_kafka_consumer_group_metadata(c);
                check(sys::rd_kafka_send_offsets_to_transaction(prk, list, group_metadata, 10_000));
                sys::rd_kafka_topic_partition_list_destroy(list);
                sys::rd_kafka_consumer_group_metadata_destroy(group_metadata);
                check(sys::rd_kafka_commit_transaction(prk, 30_000));
                begun = None;
                txns += 1;
            }
        }
        let mut ru: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut ru);
        let cpu = (ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) as f64 + (ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) as f64 / 1e6;
        let first = first.unwrap();
        let wall = first.elapsed().as_secs_f64();
        println!(
            r#"{{"peer":"rawloop","workload":"{workload}","commit_ms":{commit_ms},"records":{done},"join_s":{:.2},"wall_s":{wall:.2},"records_per_s":{:.0},"cpu_s":{cpu:.2},"cpu_s_per_million":{:.2},"rss_mb":{},"transactions":{txns}}}"#,
            first.duration_since(start).as_secs_f64(),
            done as f64 / wall,
            cpu * 1e6 / done as f64,
            ru.ru_maxrss / 1024
        );
    }
    std::process::exit(0);
}

fn main() {
    let a: Vec<String> = std::env::args().collect();
    match a.get(1).map(String::as_str) {
        Some("gen") => gen(&a[2], &a[3], a[4].parse().unwrap(), a.get(5).map_or(0, |bytes| bytes.parse().unwrap())),
        Some("run") => run(&a[2], &a[3], &a[4], a[5].parse().unwrap(), &a[6], a[7].parse().unwrap(), &a[8]),
        _ => eprintln!("rawloop gen BOOTSTRAP TOPIC N [BYTES_MIN] | rawloop run BOOTSTRAP INPUT OUTPUT N copy|clean COMMIT_MS GROUP"),
    }
}
