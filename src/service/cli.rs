//! The command line: verbs people already type. Data on stdout, everything else on stderr.

use crate::exit::{Code, Failed};
use crate::logging::{self, LogFormat};
use crate::{config, generate_command, run_command, topics_command};
use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use transom_kafka::Planted;
use transom_sdk::Registry;

const AFTER_HELP: &str = "Exit codes: 0 done or drained, 1 the answer is no, 2 usage, 65 data stopped it, 69 a service is unreachable, \
70 our bug, 75 try again, 77 permission, 78 configuration.";

/// Exactly-once stream processing on Kafka: one pipeline, one process or many.
#[derive(Debug, Parser)]
#[command(version, after_help = AFTER_HELP, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    log: LogOptions,
}

#[derive(Args, Debug)]
struct LogOptions {
    /// How log lines look.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, env = "TRANSOM_LOG_FORMAT")]
    log_format: LogFormat,
    /// Log level or filter, such as "info" or "info,librdkafka=debug".
    #[arg(long, global = true, default_value = "info", env = "TRANSOM_LOG")]
    log_level: String,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a pipeline until it is asked to stop (SIGTERM drains, a second one aborts).
    Run(RunOptions),
    /// Check a pipeline file and report every mistake at once.
    Validate {
        /// The pipeline's YAML file.
        pipeline: PathBuf,
        /// Print the resolved pipeline as JSON, secrets redacted.
        #[arg(long)]
        print: bool,
    },
    /// List the registered processors.
    Processors,
    /// Work on a pipeline's topics.
    #[command(subcommand)]
    Topics(TopicsCommand),
    /// Generate test input.
    #[command(subcommand)]
    Gen(GenCommand),
}

/// What `run` takes.
#[derive(Args, Debug)]
pub(crate) struct RunOptions {
    /// The pipeline's YAML file.
    pub(crate) pipeline: PathBuf,
    /// This instance's stable name: static group membership. Without it, and without TRANSOM_INSTANCE, the host name is
    /// used and membership is dynamic.
    #[arg(long, value_name = "NAME")]
    pub(crate) instance: Option<String>,
    /// Where /livez, /readyz, /status and /metrics listen; port 0 picks a free one. Above http.listen of the file.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
}

#[derive(Debug, Subcommand)]
enum TopicsCommand {
    /// Create the input, output and dead-letter topics that are missing, with partitions and replication of the file.
    Create {
        /// The pipeline's YAML file.
        pipeline: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
enum GenCommand {
    /// Send seeded orders, with poison records and duplicates among them, to a topic or to stdout.
    Orders(GenOrdersOptions),
}

/// What `gen orders` takes.
#[derive(Args, Debug)]
pub(crate) struct GenOrdersOptions {
    /// The pipeline whose input topic and connection are used; without it the values go to stdout, one a line.
    #[arg(long, value_name = "PIPELINE.yaml")]
    pub(crate) pipeline: Option<PathBuf>,
    /// Another topic than the pipeline's first input.
    #[arg(long, requires = "pipeline")]
    pub(crate) topic: Option<String>,
    /// How many records.
    #[arg(long, default_value_t = 1000)]
    pub(crate) count: u64,
    /// The same seed gives the same bytes, on every machine.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Records a second; 0 is as fast as it can.
    #[arg(long, default_value_t = 0)]
    pub(crate) rate: u64,
    /// Share of records that no transform can process, 0 to 1.
    #[arg(long, default_value_t = 0.02)]
    pub(crate) poison_share: f64,
    /// Share of records that repeat a recent one, 0 to 1.
    #[arg(long, default_value_t = 0.05)]
    pub(crate) duplicate_share: f64,
    /// How many customers; the customer is the record's key.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) customers: u64,
}

/// Runs the command line.
pub(crate) fn run(registry: &Registry, planted: Planted) -> ExitCode {
    let cli = Cli::parse();
    logging::start(cli.log.log_format, &cli.log.log_level);
    let done = match cli.command {
        Command::Run(options) => run_command::run(registry, &options, planted),
        Command::Validate { pipeline, print } => validate(registry, &pipeline, print),
        Command::Processors => {
            for name in registry.names() {
                println!("{name}");
            }
            Ok(Code::Done)
        }
        Command::Topics(TopicsCommand::Create { pipeline }) => topics_command::create(registry, &pipeline),
        Command::Gen(GenCommand::Orders(options)) => generate_command::orders(registry, &options),
    };
    match done {
        Ok(code) => code.into(),
        Err(failed) => failed.report(),
    }
}

/// Loads a pipeline file; all its mistakes become one failure.
pub(crate) fn load(registry: &Registry, path: &Path) -> Result<config::Plan, Failed> {
    let environment = |name: &str| std::env::var(name).ok();
    config::load(path, &registry.names(), &environment).map_err(|problems| Failed::new(Code::Configuration, problems.to_string(), ""))
}

fn validate(registry: &Registry, path: &Path, print: bool) -> Result<Code, Failed> {
    let plan = load(registry, path)?;
    run_command::check_processor(registry, &plan)?;
    if print {
        println!("{:#}", plan.redacted_summary());
    } else {
        println!("{}: valid", path.display());
    }
    Ok(Code::Done)
}
