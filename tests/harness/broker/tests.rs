//! Every test runs once per backend. A backend that does not work on this machine is not skipped in silence: `every_backend`
//! says so, and fails when none is left.

#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]
#![allow(clippy::wildcard_imports, reason = "these are the parent's own tests")]

use super::*;
use crate::wire::{Client, NewRecord};

/// Runs `check` on each backend that works here.
fn every_backend(check: impl Fn(Backend)) {
    let mut checked = 0;
    for backend in [Backend::Docker, Backend::Java] {
        match probe(backend) {
            Probe::Ready(versions) => {
                eprintln!("on {backend}: {versions}");
                check(backend);
                checked += 1;
            }
            Probe::Missing(reason) => eprintln!("NOT CHECKED on {backend}: {reason}"),
        }
    }
    assert!(checked > 0, "no backend works on this machine");
}

fn start(backend: Backend, security: Security) -> Cluster {
    let options = ClusterOptions { backend: Some(backend), security, ..ClusterOptions::default() };
    Cluster::start(options).unwrap()
}

/// Creates a topic by a hand-written CreateTopics request (version 2) and returns the answer's error code.
fn create_topic(port: u16, name: &str) -> i16 {
    let mut body = vec![0, 19, 0, 2, 0, 0, 0, 7, 0xff, 0xff, 0, 0, 0, 1];
    body.extend(u16::try_from(name.len()).unwrap().to_be_bytes());
    body.extend(name.as_bytes());
    // One partition, one replica, no assignments, no configuration; 10 s; not only validated.
    body.extend([0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x27, 0x10, 0]);
    let mut stream = connect(port).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(&u32::try_from(body.len()).unwrap().to_be_bytes()).unwrap();
    stream.write_all(&body).unwrap();
    // Size, correlation id, throttle time, one topic: its name, its error code.
    let mut answer = vec![0; 4 + 4 + 4 + 4 + 2 + name.len() + 2];
    stream.read_exact(&mut answer).unwrap();
    let code = answer.split_off(answer.len() - 2);
    i16::from_be_bytes([code[0], code[1]])
}

const CREATED: i16 = 0;
const ALREADY_EXISTS: i16 = 36;

// Goal: a test may take a broker down and bring it back. Method: what was written before a stop and before a kill is there after.
#[test]
fn a_restarted_broker_keeps_its_address_and_its_data() {
    every_backend(|backend| {
        let began = Instant::now();
        // After a kill the controller waits for the old session to end: 9 s by default.
        let properties =
            vec![("broker.session.timeout.ms".to_owned(), "6000".to_owned()), ("broker.heartbeat.interval.ms".to_owned(), "500".to_owned())];
        let options = ClusterOptions { backend: Some(backend), properties, ..ClusterOptions::default() };
        let mut cluster = Cluster::start(options).unwrap();
        eprintln!("{} ready after {:?}", cluster.description(), began.elapsed());
        let bootstrap = cluster.bootstrap().to_owned();
        let port = cluster.ports.plaintext;
        assert_eq!(create_topic(port, "kept"), CREATED);

        let began = Instant::now();
        cluster.stop().unwrap();
        eprintln!("stopped after {:?}", began.elapsed());
        assert!(count_brokers(port).is_err());

        let began = Instant::now();
        cluster.restart().unwrap();
        eprintln!("restarted after {:?}", began.elapsed());
        assert_eq!(create_topic(port, "kept"), ALREADY_EXISTS);

        cluster.kill().unwrap();
        assert!(count_brokers(port).is_err());

        let began = Instant::now();
        cluster.restart().unwrap();
        eprintln!("restarted from a kill after {:?}", began.elapsed());
        assert_eq!(create_topic(port, "kept"), ALREADY_EXISTS);
        assert_eq!(cluster.bootstrap(), bootstrap);
        // It answers a little before it says so.
        let until = Instant::now() + READY_DEADLINE;
        while !cluster.log_tail().contains("Kafka Server started") {
            assert!(Instant::now() < until, "{}", cluster.log_tail());
            std::thread::sleep(POLL_INTERVAL);
        }
    });
}

// Goal: one of three may die and come back, and nothing stands still for it. Method: kill it, write to every partition, read it all after.
#[test]
fn one_of_three_brokers_may_die_and_come_back() {
    every_backend(|backend| {
        let options = ClusterOptions { backend: Some(backend), ..ClusterOptions::default() };
        let mut three = Replicated::start(&options, None).unwrap();
        let client = Client::connect(&three.bootstrap()).unwrap();
        client.create_topic("kept", 3, &[]).unwrap();
        three.awaits_all_in_sync(READY_DEADLINE).unwrap();

        three.node(1).kill().unwrap();
        for partition in 0..3 {
            client.produce("kept", partition, &[NewRecord::keyless("while it was away")]).unwrap();
        }
        let error = three.awaits_all_in_sync(Duration::ZERO).unwrap_err();
        eprintln!("{backend}: {error:#}");

        three.node(1).restart().unwrap();
        three.awaits_all_in_sync(READY_DEADLINE).unwrap();
        assert_eq!(client.read_committed("kept").unwrap().len(), 3);
    });
}

// Goal: a frozen broker looks like a network that swallows everything. Method: its port takes connections, nothing is answered.
#[test]
fn a_frozen_broker_answers_nothing_until_it_thaws() {
    every_backend(|backend| {
        let mut cluster = start(backend, Security::Plaintext);
        cluster.freeze().unwrap();
        assert!(connect(cluster.ports.plaintext).is_ok());
        assert!(count_brokers(cluster.ports.plaintext).is_err());
        cluster.thaw().unwrap();
        cluster.wait_until_ready().unwrap();
    });
}

// Goal: tests on several threads get one broker. Method: ask for it from four at once, then see that it answers.
#[test]
fn the_shared_broker_is_one_for_all_threads() {
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(|| Cluster::shared().bootstrap().to_owned())).collect();
    let addresses: std::collections::BTreeSet<String> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(addresses.len(), 1, "{addresses:?}");
    let first = Cluster::shared().bootstrap().split(',').next().unwrap();
    assert!(TcpStream::connect(first).is_ok(), "nothing listens at {first}");
}

// Goal: the secure listener is there beside the plain one, with what a client needs. Method: open both, read the authorities.
#[test]
fn a_secure_cluster_opens_both_listeners() {
    every_backend(|backend| {
        let cluster = start(backend, Security::SaslSsl);
        assert_eq!(create_topic(cluster.ports.plaintext, "plain"), CREATED);
        let secure = cluster.secure().unwrap();
        assert_eq!(secure.bootstrap, format!("localhost:{}", cluster.ports.secure));
        // A TLS listener answers a plain request by closing the connection.
        assert!(count_brokers(cluster.ports.secure).is_err());
        let right = std::fs::read_to_string(&secure.ca_pem).unwrap();
        let wrong = std::fs::read_to_string(&secure.wrong_ca_pem).unwrap();
        assert!(right.starts_with("-----BEGIN CERTIFICATE-----"), "{right}");
        assert_ne!(right, wrong);
    });
}

// Goal: nothing is left behind. Method: after the drop neither port, directory nor container is there.
#[test]
fn a_dropped_cluster_leaves_nothing_behind() {
    every_backend(|backend| {
        let cluster = start(backend, Security::SaslSsl);
        let port = cluster.ports.plaintext;
        let directory = cluster.secure().unwrap().ca_pem.parent().unwrap().to_owned();
        let name = directory.file_name().unwrap().to_str().unwrap().to_owned();
        drop(cluster);
        assert!(connect(port).is_err());
        assert!(!directory.exists());
        if backend == Backend::Docker {
            let filter = format!("name={name}");
            assert_eq!(output_of(Command::new("docker").args(["ps", "-aq", "--filter", &filter])).unwrap(), "");
        }
    });
}

// Goal: a broker does not outlive a test program that is killed. Method: close the guard's pipe, which is all a death does to it.
#[test]
fn a_guard_kills_the_broker_and_removes_its_data() {
    let directory = tempfile::tempdir().unwrap().keep();
    let mut broker = Command::new("sleep").arg("600").spawn().unwrap();
    let mut guard = Guard::start(&directory, "unused", Backend::Java).unwrap();
    guard.watch(Some(broker.id())).unwrap();
    let pipe = guard.shell.stdin.take();
    drop(pipe);
    let status = broker.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    drop(guard);
    assert!(!directory.exists());
}

// Goal: a broker that cannot start fails its test at once and says why. Method: a property that Kafka refuses.
#[test]
fn a_broker_that_cannot_start_says_its_last_words() {
    every_backend(|backend| {
        let options = ClusterOptions {
            backend: Some(backend),
            properties: vec![("log.retention.hours".to_owned(), "never".to_owned())],
            ..ClusterOptions::default()
        };
        let error = format!("{:#}", Cluster::start(options).unwrap_err());
        assert!(error.contains("log.retention.hours"), "{error}");
    });
}

#[test]
fn a_missing_backend_is_answered_with_what_to_install() {
    let error = NoBackend { findings: vec![(Backend::Docker, "no daemon answers".to_owned()), (Backend::Java, "no java".to_owned())] };
    let text = error.to_string();
    for part in ["Docker: no daemon answers", "Java: no java", "docker.io", "openjdk-17", "maven", BOOTSTRAP_VARIABLE] {
        assert!(text.contains(part), "{part} is missing in: {text}");
    }
}

#[test]
fn a_callers_property_wins_over_the_default() {
    let ports = Ports { plaintext: 1, secure: 2, controller: 3, proxied: 4, proxy: None };
    let overrides = [("offsets.topic.num.partitions".to_owned(), "50".to_owned())];
    let properties = broker_properties(&overrides, Backend::Java, ports, None, Path::new("/nowhere"));
    assert_eq!(properties["offsets.topic.num.partitions"], "50");
    assert_eq!(properties["auto.create.topics.enable"], "false");
    assert_eq!(properties["advertised.listeners"], "PLAINTEXT://127.0.0.1:1");
}

// Goal: the broker can come back to its port. Method: ports stay out of the range that the kernel gives to other connections.
#[test]
fn chosen_ports_differ_and_are_not_given_to_outgoing_connections() {
    let ports = Ports::choose().unwrap();
    let chosen = std::collections::BTreeSet::from([ports.plaintext, ports.secure, ports.controller]);
    assert_eq!(chosen.len(), 3);
    assert!(chosen.iter().all(|port| Ports::RANGE.contains(port)), "{chosen:?}");
}
