//! What a pipeline is, resolved: `service` makes it from the YAML file.

use std::time::Duration;
use transom_engine::Limits;
use transom_sdk::Routes;

/// The step's settings.
#[derive(Clone, Debug)]
pub struct StepOptions {
    /// The step's id, for dead letters.
    pub id: String,
    /// Attempts at a transient failure, 1 or more.
    pub attempts: u32,
    /// Pause before the second attempt, doubled for each further one.
    pub backoff: Duration,
}

/// Where dead letters go.
#[derive(Clone, Debug)]
pub struct DeadLetterOptions {
    /// Topic.
    pub topic: String,
    /// Its partition count, 1 or more: source partition modulo this.
    pub partitions: i32,
}

/// Everything a worker needs to know of its pipeline.
#[derive(Clone, Debug)]
pub struct PipelineOptions {
    /// The pipeline's name.
    pub pipeline: String,
    /// The instance's name.
    pub instance: String,
    /// Workers in this process, 1 or more.
    pub workers: u16,
    /// Input topics, by `TopicId`.
    pub inputs: Vec<String>,
    /// The named outputs.
    pub routes: Routes,
    /// Dead letters, if the pipeline sets bad records aside.
    pub dead_letters: Option<DeadLetterOptions>,
    /// The step.
    pub step: StepOptions,
    /// The engine's limits.
    pub limits: Limits,
    /// How long the first initialisation may take before the process gives up.
    pub start_budget: Duration,
    /// How long a coordinator may leave a call unsettled before the process gives up.
    pub blocked_budget: Duration,
}
