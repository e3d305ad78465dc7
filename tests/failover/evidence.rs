//! The logs of all instances, kept beyond the run.

use std::path::{Path, PathBuf};

use transom_harness::scenario::Scenario;

/// Keeps the logs when it is dropped, however the run ended.
pub struct Logs {
    from: PathBuf,
    to: PathBuf,
}

/// Returns the folder of results and logs.
pub fn results() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).join("target/failover")
}

impl Logs {
    pub fn of(t: &Scenario, name: &str) -> Self {
        Self { from: t.directory().to_owned(), to: results().join("logs").join(name) }
    }

    fn keep(&self) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.to)?;
        for entry in std::fs::read_dir(&self.from)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "log" || extension == "yaml") {
                std::fs::copy(&path, self.to.join(path.file_name().unwrap_or_default()))?;
            }
        }
        Ok(())
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        if let Err(error) = self.keep() {
            eprintln!("failover: the logs are not kept in {}: {error}", self.to.display());
        }
    }
}
