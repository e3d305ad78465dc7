//! The binary `bench-transom`: `transom` and one more processor, `copy`, which passes bytes through. Only the bench has a use for it.

use transom_sdk::{Context, Failure, OutputId, Processor, Record, Setup, SetupError};

/// Writes each record's value to the default output as it came.
#[derive(Debug)]
struct PassThrough;

impl PassThrough {
    fn new(_setup: &Setup<'_>) -> Result<Self, SetupError> {
        Ok(Self)
    }
}

impl Processor for PassThrough {
    fn process(&mut self, record: &Record<'_>, context: &mut Context<'_>) -> Result<(), Failure> {
        let output = context.emit(OutputId::DEFAULT);
        match record.value() {
            Some(value) => output.bytes(value),
            None => output.tombstone(),
        }
    }
}

fn main() -> std::process::ExitCode {
    let mut registry = transom_processors::registry();
    registry.processor("copy", PassThrough::new);
    transom_service::run(registry)
}
