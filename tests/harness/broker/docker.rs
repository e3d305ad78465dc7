//! A broker in a container. Testcontainers makes it; the docker command does what its blocking interface lacks (kill, pause).

use std::collections::BTreeMap;
use std::fmt;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use testcontainers::core::IntoContainerPort;
use testcontainers::runners::SyncRunner;
use testcontainers::{Container, GenericImage, ImageExt};

use super::{KAFKA_VERSION, Network, Ports, Probe, STOP_DEADLINE, output_of};

const IMAGE: &str = "apache/kafka";
/// Marks our containers, so that `make clean-brokers` finds what a power cut left behind.
const LABEL: &str = "transom.harness";
/// Set by `image/build.sh`.
const STAND_IN_LABEL: &str = "transom.stand-in";
/// The same heap as the Java backend: enough for every suite, and three brokers fit beside a compiler.
const HEAP: &str = "-Xms128m -Xmx512m";
const FREEZE_TRIES: u32 = 10;
const FREEZE_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Node {
    name: String,
    // Held for its drop, which removes the container. Boxed: it is far bigger than the other backend's node.
    _container: Box<Container<GenericImage>>,
}

impl fmt::Debug for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Node").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Docker counts as there when its daemon answers and the image is there or can be pulled.
pub(super) fn probe() -> Probe {
    // A daemon that hangs must not hang the tests.
    let server = match output_of(Command::new("timeout").args(["10", "docker", "version", "--format", "{{.Server.Version}}"])) {
        Ok(version) => version,
        Err(error) => return Probe::Missing(format!("no daemon answers: {error:#}")),
    };
    let image = format!("{IMAGE}:{KAFKA_VERSION}");
    let format = format!("{{{{index .Config.Labels \"{STAND_IN_LABEL}\"}}}}");
    let inspect = || output_of(Command::new("docker").args(["image", "inspect", "--format", &format, &image]));
    let stand_in = match inspect() {
        Ok(label) => label,
        Err(_) => match output_of(Command::new("timeout").args(["120", "docker", "pull", "--quiet", &image])).and_then(|_| inspect()) {
            Ok(label) => label,
            Err(error) => {
                return Probe::Missing(format!(
                    "Docker {server} answers, but the image {image} is not there and cannot be pulled \
                     (tests/harness/image/build.sh builds a stand-in): {error:#}"
                ));
            }
        },
    };
    let origin = if stand_in == "true" { ", stand-in image" } else { "" };
    Probe::Ready(format!("{server}, {image}{origin}"))
}

impl Node {
    pub(super) fn start(name: &str, ports: Ports, network: Network, properties: &BTreeMap<String, String>) -> anyhow::Result<Node> {
        let mut request = GenericImage::new(IMAGE, KAFKA_VERSION)
            .with_container_name(name)
            .with_label(LABEL, "true")
            .with_env_var("CLUSTER_ID", super::java::CLUSTER_ID)
            .with_env_var("KAFKA_HEAP_OPTS", HEAP);
        request = match network {
            Network::Own => request
                .with_mapped_port(ports.plaintext, ports.plaintext.tcp())
                .with_mapped_port(ports.secure, ports.secure.tcp())
                .with_mapped_port(ports.proxied, ports.proxied.tcp()),
            Network::Host => request.with_network("host"),
        };
        for (key, value) in properties {
            request = request.with_env_var(environment_name(key), value);
        }
        let container = request.start().context("start the broker's container")?;
        Ok(Node { name: name.to_owned(), _container: Box::new(container) })
    }

    pub(super) fn stop(&mut self) -> anyhow::Result<()> {
        self.docker(&["stop", "--time", &STOP_DEADLINE.as_secs().to_string()])
    }

    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        self.docker(&["kill", "--signal", "KILL"])?;
        // The signal is only sent; a restart of a container that still runs would do nothing.
        self.docker(&["wait"])
    }

    pub(super) fn restart(&mut self) -> anyhow::Result<()> {
        self.docker(&["start"])
    }

    /// A busy JVM is not always frozen in the time that the container runtime takes for it; it then thaws what it had frozen and
    /// gives up ("unable to freeze").
    pub(super) fn freeze(&mut self) -> anyhow::Result<()> {
        let mut result = self.docker(&["pause"]);
        for _ in 1..FREEZE_TRIES {
            if !result.as_ref().is_err_and(|error| format!("{error:#}").contains("unable to freeze")) {
                break;
            }
            std::thread::sleep(FREEZE_PAUSE);
            result = self.docker(&["pause"]);
        }
        result
    }

    pub(super) fn thaw(&mut self) -> anyhow::Result<()> {
        self.docker(&["unpause"])
    }

    pub(super) fn ended(&mut self) -> anyhow::Result<Option<String>> {
        let format = "{{.State.Status}}, exit code {{.State.ExitCode}}";
        let state = output_of(Command::new("docker").args(["inspect", "--format", format, &self.name]))?;
        Ok(if state.starts_with("exited") || state.starts_with("dead") { Some(state) } else { None })
    }

    pub(super) fn log(&self) -> String {
        let output = Command::new("docker").args(["logs", &self.name]).output();
        match output {
            Ok(output) => format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)),
            Err(error) => format!("(no log: {error})"),
        }
    }

    fn docker(&self, arguments: &[&str]) -> anyhow::Result<()> {
        output_of(Command::new("docker").args(arguments).arg(&self.name)).map(drop)
    }
}

/// Returns the variable that the image turns into the property `key`.
fn environment_name(key: &str) -> String {
    let name = key.replace('_', "__").replace('-', "___").replace('.', "_");
    format!("KAFKA_{}", name.to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::environment_name;

    #[test]
    fn a_property_becomes_the_variable_that_the_image_reads() {
        assert_eq!(environment_name("log.dirs"), "KAFKA_LOG_DIRS");
        assert_eq!(environment_name("listener.name.sasl_ssl.plain-x"), "KAFKA_LISTENER_NAME_SASL__SSL_PLAIN___X");
    }
}
