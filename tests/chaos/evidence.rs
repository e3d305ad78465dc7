//! What is kept of an episode that failed.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use transom_harness::scenario::Scenario;
use transom_harness::wire::{OffsetsAsked, ReadRecord};

use crate::stage::Stage;

/// What happened when.
pub struct Ledger {
    begun: Instant,
    text: String,
}

impl Ledger {
    pub fn open(seed: u64) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let day = Duration::from_secs(since.as_secs() % 86_400);
        let (hour, minute, second) = (day.as_secs() / 3_600, day.as_secs() / 60 % 60, day.as_secs() % 60);
        let text = format!("seed {seed}, begun at {hour:02}:{minute:02}:{second:02}.{:03} UTC\n", since.subsec_millis());
        Self { begun: Instant::now(), text }
    }

    pub fn note(&mut self, line: String) {
        let _ = writeln!(self.text, "{:7.3} s  {line}", self.begun.elapsed().as_secs_f64());
    }
}

/// Keeps the files and logs of instances and brokers, the ledger, the topics and the committed offsets; returns where.
pub fn keep(t: &Scenario, stage: &Stage, ledger: &Ledger, words: &str, directory: &Path) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(directory)?;
    for entry in fs::read_dir(t.directory())? {
        let path = entry?.path();
        if let Some(name) = path.file_name() {
            fs::copy(&path, directory.join(name))?;
        }
    }
    fs::write(directory.join("ledger.txt"), format!("{}\n{words}\n", ledger.text))?;
    for (number, log) in stage.logs().into_iter().enumerate() {
        fs::write(directory.join(format!("broker-{number}.log")), log)?;
    }
    // The broker may be what has failed; the rest of the evidence is worth having all the same.
    if let Err(error) = keep_topics(t, directory) {
        fs::write(directory.join("topics-unread.txt"), format!("{error:#}\n"))?;
    }
    Ok(directory.to_owned())
}

fn keep_topics(t: &Scenario, directory: &Path) -> anyhow::Result<()> {
    let topics = t.client().topics()?;
    for (topic, name) in ["in", "in_b", "out", "dlq"].map(|topic| (topic, t.full(topic))) {
        if !topics.contains_key(&name) {
            continue;
        }
        fs::write(directory.join(format!("{topic}-committed.tsv")), table(&t.client().read_committed(&name)?))?;
        fs::write(directory.join(format!("{topic}-all.tsv")), table(&t.client().read_uncommitted(&name)?))?;
    }
    let offsets = t.client().committed_offsets(t.pipeline(), OffsetsAsked::EvenIfPending)?;
    fs::write(directory.join("committed-offsets.txt"), format!("{offsets:#?}\n"))?;
    let open = t.client().open_transactions()?;
    fs::write(directory.join("open-transactions.txt"), format!("{open:#?}\n"))?;
    Ok(())
}

fn table(records: &[ReadRecord]) -> String {
    let mut text = "partition\toffset\tproducer\tepoch\tkey\tvalue\n".to_owned();
    for record in records {
        let bytes = |bytes: &Option<Vec<u8>>| bytes.as_deref().map_or_else(|| "null".into(), |bytes| String::from_utf8_lossy(bytes).into_owned());
        let ReadRecord { partition, offset, producer_id, producer_epoch, .. } = record;
        let _ = writeln!(text, "{partition}\t{offset}\t{producer_id}\t{producer_epoch}\t{}\t{}", bytes(&record.key), bytes(&record.value));
    }
    text
}
