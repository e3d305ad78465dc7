//! The payments team's binary: the service around the team's own registry.

fn main() -> std::process::ExitCode {
    transom_service::run(transom_external_team::registry())
}
