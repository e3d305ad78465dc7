//! The binary `transom`: the service around our own registry, as any team's own would be.

fn main() -> std::process::ExitCode {
    transom_service::run(transom_processors::registry())
}
