//! The listener that production has: TLS with a private authority, a user with a password.

use std::time::Duration;

use transom_harness::broker::{Cluster, ClusterOptions, SecureListener, Security};
use transom_harness::instance::{Ended, run_to_end};
use transom_harness::scenario::Scenario;
use transom_tests::orders::{Orders, cleaned};

use crate::{SHORT, START};

const WRONG_PASSWORD: &str = "not-the-one-you-want";

fn yaml(listener: &SecureListener, ca_pem: &std::path::Path) -> String {
    format!(
        r#"
pipeline: @pipeline
kafka:
  bootstrap.servers: "{}"
  security.protocol: SASL_SSL
  sasl.mechanism: {}
  sasl.username: {}
  sasl.password: "${{KAFKA_PASSWORD}}"
  ssl.ca.location: "{}"
input: {{ topic: @in }}
steps: [{{ id: clean, process: clean_orders }}]
output: {{ topic: @out }}
dead_letters: {{ topic: @dlq }}
"#,
        listener.bootstrap,
        listener.mechanism,
        listener.user,
        ca_pem.display()
    )
}

fn run(t: &Scenario, yaml: &str, password: &str) -> Ended {
    let file = t.file(yaml).display().to_string();
    let ended =
        run_to_end(&["run", &file, "--listen", "127.0.0.1:0", "--log-level", "debug"], &[("KAFKA_PASSWORD", password)], Duration::from_secs(35));
    assert!(!ended.stdout.contains(password) && !ended.stderr.contains(password), "the password is in the output");
    ended
}

// Goal: the secure listener works, its refusals are told apart, and the password is nowhere in what is printed.
#[test]
fn password_and_authority_are_checked_and_the_password_is_never_printed() {
    let options = ClusterOptions { security: Security::SaslSsl, ..ClusterOptions::default() };
    let cluster = Cluster::start(options).expect("start a broker");
    let listener = cluster.secure().expect("it was asked for");
    let t = Scenario::on(cluster.bootstrap(), "secure");
    let (input, output, letters) = (t.topic("in", 2), t.topic("out", 2), t.topic("dlq", 2));
    t.produce(&input, Orders::seeded(31).take(1_000));
    let right = yaml(listener, &listener.ca_pem);

    let variables = [("KAFKA_PASSWORD", listener.password), ("TRANSOM_LOG", "debug")];
    let mut instance = t.start_with(Some("a"), &right, &variables);
    t.awaits_all_committed(&[&input], START);
    let endpoints = [instance.get("/status"), instance.get("/metrics"), instance.get("/readyz")].map(|answer| answer.expect("an answer").1);
    instance.drains_within(SHORT);
    for text in endpoints.iter().chain([&instance.log()]) {
        assert!(!text.contains(listener.password), "the password is in what is printed");
    }
    t.expect_exactly_once(&[&input], &[&output], &[&letters], |_, record| cleaned(&output, record));

    let ended = run(&t, &right, WRONG_PASSWORD);
    assert_eq!(ended.code, 77, "{}", ended.stderr);
    assert!(ended.stderr.contains("sasl.password"), "{}", ended.stderr);

    let ended = run(&t, &yaml(listener, &listener.wrong_ca_pem), listener.password);
    assert_eq!(ended.code, 78, "{}", ended.stderr);
    assert!(ended.stderr.contains("ssl.ca.location"), "{}", ended.stderr);

    let file = t.file(&right).display().to_string();
    let printed = run_to_end(&["validate", "--print", &file], &[("KAFKA_PASSWORD", listener.password)], SHORT);
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    assert!(printed.stdout.contains("<redacted>") && !printed.stdout.contains(listener.password), "{}", printed.stdout);
}
