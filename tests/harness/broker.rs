//! Real Kafka brokers for tests, the demo and the benchmarks: one KRaft node in a container or in a Java process of its own.
//!
//! Owns the life of a broker: start, readiness, stop, restart under the same address with its data, freeze, removal. Never
//! speaks for the product and never makes topics; that is the test's business.
//!
//! No broker outlives its owner. A guard (a small shell) waits on a pipe that only this process holds; however this process
//! ends, SIGKILL included, the pipe closes and the guard kills the broker and removes its data. Rejected: `PR_SET_PDEATHSIG`,
//! which fires when the *thread* that spawned the broker ends, and test threads end long before the shared broker may; and an
//! exit hook, which a SIGKILL skips.
//!
//! A lone broker is no fair judge of broker crashes: killed hard it can leave transactions hanging with a correct client.

mod certificates;
mod docker;
mod java;
mod properties;
mod replicated;

use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use properties::{Ports, broker_properties};

pub use replicated::Replicated;

/// Names the brokers to use instead of starting one.
pub const BOOTSTRAP_VARIABLE: &str = "KAFKA_BOOTSTRAP_SERVERS";

/// The Kafka release under test. Keep it equal to `kafka/pom.xml` and `image/build.sh`.
pub const KAFKA_VERSION: &str = "4.4.0";

/// The user of the secure listener.
const SASL_USER: &str = "transom";
/// Its password: long enough to be searched for in logs, which must never hold it.
const SASL_PASSWORD: &str = "transom-test-secret";

/// A start takes 3 to 8 s; a machine busy with compilers may need ten times as long.
const READY_DEADLINE: Duration = Duration::from_secs(120);
/// A controlled shutdown takes about 1 s; past this the broker hangs and the test should say so.
const STOP_DEADLINE: Duration = Duration::from_secs(30);
/// Short against a start, long enough not to take the processor from it.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Lines of broker log that go into an error: a Java stack trace and what came before it.
const LOG_TAIL_LINES: usize = 60;

/// What runs the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A container of the image `apache/kafka`, by Testcontainers.
    Docker,
    /// A Java process, with the broker's jars fetched by Maven.
    Java,
}

impl fmt::Display for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Backend::Docker => "Docker",
            Backend::Java => "Java",
        })
    }
}

/// Which listeners the broker opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// One listener without encryption or authentication.
    #[default]
    Plaintext,
    /// A second listener beside it: TLS with a certificate of a private authority, SASL with mechanism PLAIN.
    SaslSsl,
}

/// How to start a [`Cluster`].
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// Broker properties that override the defaults, values written as in a `server.properties` file.
    pub properties: Vec<(String, String)>,
    /// Which listeners to open.
    pub security: Security,
    /// `None` takes Docker where it works, else Java.
    pub backend: Option<Backend>,
    /// Opens one more listener without encryption, whose clients are told to come back to this local port: a proxy's.
    pub proxied_as: Option<u16>,
}

/// What a client needs to reach the secure listener.
#[derive(Clone, Debug)]
pub struct SecureListener {
    /// `host:port` of the SASL_SSL listener; the certificate is made out to this host.
    pub bootstrap: String,
    /// The authority that signed the broker's certificate.
    pub ca_pem: PathBuf,
    /// An authority that signed nothing: a client that trusts only this one must refuse the broker.
    pub wrong_ca_pem: PathBuf,
    /// The value for `sasl.mechanism`.
    pub mechanism: &'static str,
    /// The value for `sasl.username`.
    pub user: &'static str,
    /// The value for `sasl.password`.
    pub password: &'static str,
}

/// Whether a backend works on this machine, found out once per process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// It works; the text names the versions.
    Ready(String),
    /// It does not; the text says what is missing.
    Missing(String),
}

/// No backend works here, and what would have to be installed.
#[derive(Debug)]
pub struct NoBackend {
    findings: Vec<(Backend, String)>,
}

impl fmt::Display for NoBackend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "no way to run a Kafka broker on this machine")?;
        for (backend, reason) in &self.findings {
            writeln!(formatter, "  {backend}: {reason}")?;
        }
        write!(
            formatter,
            "install Docker (Debian: apt-get install docker.io, then start dockerd) or Java 17 and Maven \
             (Debian: apt-get install openjdk-17-jdk-headless maven), or name running brokers in {BOOTSTRAP_VARIABLE}"
        )
    }
}

impl std::error::Error for NoBackend {}

/// Says whether `backend` works on this machine. The first call may pull the image or fetch the jars.
pub fn probe(backend: Backend) -> &'static Probe {
    static DOCKER: OnceLock<Probe> = OnceLock::new();
    static JAVA: OnceLock<Probe> = OnceLock::new();
    match backend {
        Backend::Docker => DOCKER.get_or_init(docker::probe),
        Backend::Java => JAVA.get_or_init(java::probe),
    }
}

/// Returns the backend that a broker will be started on: the wished one, else Docker, else Java.
///
/// # Errors
/// Those asked about do not work here.
pub fn choose_backend(wished: Option<Backend>) -> Result<Backend, NoBackend> {
    let candidates = match wished {
        Some(backend) => vec![backend],
        None => vec![Backend::Docker, Backend::Java],
    };
    let mut findings = Vec::new();
    for backend in candidates {
        match probe(backend) {
            Probe::Ready(_) => return Ok(backend),
            Probe::Missing(reason) => findings.push((backend, reason.clone())),
        }
    }
    Err(NoBackend { findings })
}

/// Where a broker's addresses are reached. Means something to containers only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    /// From outside, through mapped ports.
    Own,
    /// From other brokers too, which share the host's addresses.
    Host,
}

/// One broker that belongs to its owner: dropping it removes process or container, and data.
///
/// Its calls block, so they must not be made from an async function.
#[derive(Debug)]
pub struct Cluster {
    backend: Backend,
    bootstrap: String,
    ports: Ports,
    secure: Option<SecureListener>,
    node: Node,
    // Invariant: dropped after `node`, because it removes the directory that the node writes to.
    guard: Guard,
}

#[derive(Debug)]
enum Node {
    Docker(docker::Node),
    Java(java::Node),
}

impl Cluster {
    /// Starts a broker and returns when it answers clients.
    ///
    /// # Errors
    /// [`NoBackend`] when there is nothing to run it with; otherwise what the broker said last.
    pub fn start(options: ClusterOptions) -> anyhow::Result<Cluster> {
        let ports = Ports { proxy: options.proxied_as, ..Ports::choose().context("choose free ports")? };
        let mut cluster = Cluster::launch(&options, ports, Network::Own)?;
        cluster.wait_until_ready()?;
        Ok(cluster)
    }

    /// Starts a broker and does not wait for it.
    fn launch(options: &ClusterOptions, ports: Ports, network: Network) -> anyhow::Result<Cluster> {
        let backend = choose_backend(options.backend)?;
        let directory = tempfile::Builder::new().prefix("transom-broker-").tempdir()?.keep();
        let name = directory.file_name().context("data directory without a name")?.to_string_lossy().into_owned();
        let mut guard = Guard::start(&directory, &name, backend)?;

        let secure = match options.security {
            Security::Plaintext => None,
            Security::SaslSsl => Some(certificates::Certificates::make(&directory)?),
        };
        let properties = broker_properties(&options.properties, backend, ports, secure.as_ref(), &directory);
        let secure = secure.map(|certificates| SecureListener {
            bootstrap: format!("localhost:{}", ports.secure),
            ca_pem: certificates.ca_pem,
            wrong_ca_pem: certificates.wrong_ca_pem,
            mechanism: "PLAIN",
            user: SASL_USER,
            password: SASL_PASSWORD,
        });
        let node = match backend {
            Backend::Docker => Node::Docker(docker::Node::start(&name, ports, network, &properties)?),
            Backend::Java => Node::Java(java::Node::start(&directory, &properties)?),
        };
        guard.watch(node.process_id())?;

        let bootstrap = format!("127.0.0.1:{}", ports.plaintext);
        Ok(Cluster { backend, bootstrap, ports, secure, node, guard })
    }

    /// Returns the brokers that all tests of this process may share: those named by `KAFKA_BOOTSTRAP_SERVERS`, else one that
    /// the first call starts and the end of the process removes.
    ///
    /// # Panics
    /// When no broker can be started: a test that needs one fails, it is not skipped.
    pub fn shared() -> &'static SharedCluster {
        static SHARED: OnceLock<anyhow::Result<SharedCluster>> = OnceLock::new();
        match SHARED.get_or_init(SharedCluster::find_or_start) {
            Ok(shared) => shared,
            Err(error) => panic!("no shared broker: {error:#}"),
        }
    }

    /// Returns `host:port` of the listener without encryption. It stays the same over a restart.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Returns the secure listener, if the options asked for one.
    pub fn secure(&self) -> Option<&SecureListener> {
        self.secure.as_ref()
    }

    /// Returns where the proxy named in the options finds the listener meant for it.
    pub fn behind_proxy(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports.proxied))
    }

    /// Returns what runs the broker.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Returns one line for a person: backend, versions, address.
    pub fn description(&self) -> String {
        match probe(self.backend) {
            Probe::Ready(versions) => format!("{} ({versions}) at {}", self.backend, self.bootstrap),
            Probe::Missing(reason) => format!("{} ({reason}) at {}", self.backend, self.bootstrap),
        }
    }

    /// Ends the broker as an operator would: SIGTERM, controlled shutdown. Data and address are kept for [`Cluster::restart`].
    pub fn stop(&mut self) -> anyhow::Result<()> {
        match &mut self.node {
            Node::Docker(node) => node.stop()?,
            Node::Java(node) => node.stop()?,
        }
        self.guard.watch(None)
    }

    /// Ends the broker at once: SIGKILL. Data and address are kept for [`Cluster::restart`].
    pub fn kill(&mut self) -> anyhow::Result<()> {
        match &mut self.node {
            Node::Docker(node) => node.kill()?,
            Node::Java(node) => node.kill()?,
        }
        self.guard.watch(None)
    }

    /// Starts a stopped or killed broker again, with its data and under its old address, and returns when it answers.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        match &mut self.node {
            Node::Docker(node) => node.restart()?,
            Node::Java(node) => node.restart()?,
        }
        self.guard.watch(self.node.process_id())?;
        self.wait_until_ready()
    }

    /// Stops the broker's clock: its connections stay open, nothing answers.
    pub fn freeze(&mut self) -> anyhow::Result<()> {
        match &mut self.node {
            Node::Docker(node) => node.freeze(),
            Node::Java(node) => node.freeze(),
        }
    }

    /// Lets a frozen broker go on.
    pub fn thaw(&mut self) -> anyhow::Result<()> {
        match &mut self.node {
            Node::Docker(node) => node.thaw(),
            Node::Java(node) => node.thaw(),
        }
    }

    /// Returns everything the broker has logged, over all its lives.
    pub fn log(&self) -> String {
        match &self.node {
            Node::Docker(node) => node.log(),
            Node::Java(node) => node.log(),
        }
    }

    /// Returns the last lines of the broker's log, for a failure's message.
    pub fn log_tail(&self) -> String {
        last_lines(&self.log())
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_DEADLINE;
        loop {
            if let Some(ended) = self.node.ended()? {
                bail!("the broker ended ({ended}) before it was ready; its last words:\n{}", self.log_tail());
            }
            let error = match self.ask() {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            ensure!(
                Instant::now() < deadline,
                "the broker is not ready after {} s ({error:#}); its last words:\n{}",
                READY_DEADLINE.as_secs(),
                self.log_tail()
            );
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn ask(&self) -> anyhow::Result<()> {
        let brokers = count_brokers(self.ports.plaintext)?;
        ensure!(brokers > 0, "the broker is not yet registered with its controller");
        if self.secure.is_some() {
            connect(self.ports.secure)?;
        }
        Ok(())
    }
}

impl Node {
    /// Returns the process to kill when we die, if it is a process of ours. A container is found by its name.
    fn process_id(&self) -> Option<u32> {
        match self {
            Node::Docker(_) => None,
            Node::Java(node) => node.process_id(),
        }
    }

    /// Returns how the broker ended, if it did.
    fn ended(&mut self) -> anyhow::Result<Option<String>> {
        match self {
            Node::Docker(node) => node.ended(),
            Node::Java(node) => node.ended(),
        }
    }
}

/// The brokers that all tests of a process share. Nobody may stop them.
#[derive(Debug)]
pub struct SharedCluster {
    bootstrap: String,
    // Held for its guard; `None` when the brokers came from outside.
    cluster: Option<Cluster>,
}

impl SharedCluster {
    fn find_or_start() -> anyhow::Result<SharedCluster> {
        match std::env::var(BOOTSTRAP_VARIABLE) {
            Ok(bootstrap) if !bootstrap.is_empty() => Ok(SharedCluster { bootstrap, cluster: None }),
            _ => {
                let cluster = Cluster::start(ClusterOptions::default())?;
                Ok(SharedCluster { bootstrap: cluster.bootstrap.clone(), cluster: Some(cluster) })
            }
        }
    }

    /// Returns the bootstrap servers, as a client property.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Returns the last lines of the broker's log; nothing for brokers that came from outside.
    pub fn log_tail(&self) -> Option<String> {
        self.cluster.as_ref().map(Cluster::log_tail)
    }
}

/// Kills the broker and removes its data as soon as this process is gone, or when dropped.
#[derive(Debug)]
struct Guard {
    shell: Child,
}

impl Guard {
    // Reads process ids until the pipe closes; the last one is the broker, an empty line means that it has ended already.
    const SCRIPT: &str = r#"
        pid=
        while read -r line; do pid=$line; done
        [ -n "$pid" ] && kill -KILL "$pid"
        [ -n "$2" ] && docker rm --force --volumes "$2"
        tries=0
        while [ -n "$pid" ] && kill -0 "$pid" && [ "$tries" -lt 100 ]; do sleep 0.05; tries=$((tries + 1)); done
        rm -rf -- "$1"
    "#;

    fn start(directory: &Path, name: &str, backend: Backend) -> anyhow::Result<Guard> {
        let container = match backend {
            Backend::Docker => name,
            Backend::Java => "",
        };
        let shell = Command::new("sh")
            .args(["-c", Guard::SCRIPT, "guard"])
            .arg(directory)
            .arg(container)
            .stdin(Stdio::piped())
            // Whoever reads this program's output must not wait for the guard.
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C ends this program, not the one that tidies up after it.
            .process_group(0)
            .spawn()
            .context("start the broker's guard (sh)")?;
        Ok(Guard { shell })
    }

    fn watch(&mut self, process_id: Option<u32>) -> anyhow::Result<()> {
        let line = process_id.map(|id| id.to_string()).unwrap_or_default();
        let pipe = self.shell.stdin.as_mut().context("the broker's guard has no pipe")?;
        writeln!(pipe, "{line}").context("write to the broker's guard")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // It was told to tidy up; when it cannot even be waited for, there is nobody left to tell.
        let _ = self.shell.wait();
    }
}

fn connect(port: u16) -> anyhow::Result<TcpStream> {
    const PATIENCE: Duration = Duration::from_secs(2);
    let stream = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}

/// Asks for Metadata and returns how many brokers take part. An open port proves little: Docker opens it before the broker does,
/// and a broker answers before its controller has admitted it.
fn count_brokers(port: u16) -> anyhow::Result<i32> {
    // Metadata, version 1, correlation id 1, no client id, no topics. Written out, so that starting a broker depends on no client.
    const REQUEST: [u8; 18] = [0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0];
    let mut stream = connect(port)?;
    stream.write_all(&REQUEST)?;
    // Size, correlation id, then the array of brokers, which begins with its length.
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).context("read the broker's answer")?;
    Ok(i32::from_be_bytes([answer[8], answer[9], answer[10], answer[11]]))
}

/// Runs a command to its end and returns its standard output.
fn output_of(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("run {command:?}"))?;
    ensure!(output.status.success(), "{command:?} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests;
