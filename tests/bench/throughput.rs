//! `bench throughput`: how much CPU a record costs and how many pass in a second, against the peers.

use anyhow::Result;

use crate::contest::{self, Row, Workload};
use crate::contestant::{FRANZ_GO, OURS, OURS_AT_LEAST_ONCE, RAW_LOOP, STREAMS, Work};
use crate::ground::{self, Ground};
use crate::ratio::{CPU, Limit, Measure, RATE, RSS, Spread, print_figure, ratio, spread};
use crate::{Extent, save};

const PARTITIONS: i32 = 4;

/// Runs all workloads; returns whether every output was right.
///
/// # Errors
/// If the broker fails, or the results cannot be written.
pub fn run(ground: &Ground, extent: Extent) -> Result<bool> {
    let rounds = extent.choose(3, 5);
    let mut rows = Vec::new();
    for workload in workloads(extent) {
        rows.extend(contest::run(ground, &workload, rounds)?);
    }
    save("bench.json", &rows)?;
    print_table(&rows);
    print_figures(&rows);
    let void = rows.iter().filter(|row| !row.exact).count();
    if void > 0 {
        println!("\n{void} of {} runs are VOID: their output was not exactly what it should be; logs: {}", rows.len(), ground::logs().display());
    }
    Ok(void == 0)
}

fn workloads(extent: Extent) -> Vec<Workload> {
    let workload = |name: &str, work, records, record_bytes_min, contestants| Workload {
        name: name.to_owned(),
        work,
        records,
        record_bytes_min,
        partitions: PARTITIONS,
        contestants,
    };
    // A JVM takes seconds to start and to warm up: in a quick run it takes part only where a figure needs it.
    let mut copy = vec![RAW_LOOP, OURS, FRANZ_GO];
    let mut clean_1k = copy.clone();
    if let Extent::Full = extent {
        copy.extend([STREAMS, OURS_AT_LEAST_ONCE]);
        clean_1k.push(STREAMS);
    }
    let clean = vec![RAW_LOOP, OURS, OURS_AT_LEAST_ONCE, FRANZ_GO, STREAMS];
    vec![
        workload("copy", Work::Copy, extent.choose(1_000_000, 3_000_000), 0, copy),
        workload("clean", Work::Clean, extent.choose(1_000_000, 3_000_000), 0, clean),
        workload("clean-1k", Work::Clean, extent.choose(200_000, 1_000_000), 1_000, clean_1k),
    ]
}

/// Prints one line a workload and contestant, in the order of their first appearance.
pub fn print_table(rows: &[Row]) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    println!(
        "\n{:<14} {:<22} {:>26} {:>20} {:>6} {:>13} {:>19} {:>19}  exact",
        "workload", "peer", "records/s", "CPU s per 1 M", "RSS MB", "broker s/1 M", "CPU / transom's", "rate / transom's"
    );
    for row in rows {
        let place = (row.workload.as_str(), row.peer.as_str());
        if seen.contains(&place) {
            continue;
        }
        seen.push(place);
        let (workload, peer) = place;
        let show = |spread: Option<Spread>| spread.map_or_else(|| "–".to_owned(), |spread| spread.to_string());
        let own = |measure: Measure| show(spread(rows, workload, peer, measure));
        let against = |measure: Measure| if peer == OURS.name { String::new() } else { show(ratio(rows, place, (workload, OURS.name), measure)) };
        let broker = spread(rows, workload, peer, |row| row.broker_cpu_s_per_million.unwrap_or(f64::NAN));
        let runs = rows.iter().filter(|other| other.workload == workload && other.peer == peer);
        let (count, exact) = runs.fold((0, 0), |(count, exact), row| (count + 1, exact + usize::from(row.exact)));
        println!(
            "{workload:<14} {peer:<22} {:>26} {:>20} {:>6} {:>13} {:>19} {:>19}  {exact}/{count}",
            own(RATE),
            own(CPU),
            spread(rows, workload, peer, RSS).map_or(0.0, |spread| spread.max).round(),
            broker.map_or_else(String::new, |spread| format!("{:.2}", spread.median)),
            against(CPU),
            against(RATE),
        );
    }
}

fn print_figures(rows: &[Row]) {
    println!();
    let ours = |workload| (workload, OURS.name);
    let figure = |what: &str, spread: Option<Spread>, limit| {
        print_figure(what, spread.map(|spread| spread.median), &spread.map(|spread| spread.to_string()).unwrap_or_default(), limit);
    };
    for workload in ["copy", "clean"] {
        let against = (workload, RAW_LOOP.name);
        figure(&format!("{workload}: CPU, transom / rawloop"), ratio(rows, ours(workload), against, CPU), Limit::AtMost(1.20));
    }
    let streams = ("clean", STREAMS.name);
    figure("clean: CPU, Kafka Streams / transom", ratio(rows, streams, ours("clean"), CPU), Limit::AtLeast(4.0));
    figure("clean: records/s, transom / Kafka Streams", ratio(rows, ours("clean"), streams, RATE), Limit::AtLeast(3.0));
    figure("clean: records/s, transom / franz-go", ratio(rows, ours("clean"), ("clean", FRANZ_GO.name), RATE), Limit::AtLeast(3.0));
    let weaker = ("clean", OURS_AT_LEAST_ONCE.name);
    figure("clean: CPU, exactly once / at least once", ratio(rows, ours("clean"), weaker, CPU), Limit::AtMost(1.08));
}
