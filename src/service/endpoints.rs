//! `/livez`, `/readyz`, `/status`, `/metrics`, on loopback unless told otherwise.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use transom_runtime::{Metrics, StatusBoard};

#[derive(Clone)]
struct Seen {
    board: Arc<StatusBoard>,
    metrics: Arc<Metrics>,
    silence_max: Duration,
}

/// Serves the endpoints on a thread of its own; returns the address bound.
///
/// # Errors
/// When the address cannot be bound.
pub(crate) fn serve(listen: SocketAddr, board: Arc<StatusBoard>, metrics: Arc<Metrics>, silence_max: Duration) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(listen)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let app = Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/status", get(status))
        .route("/metrics", get(metrics_text))
        .with_state(Seen { board, metrics, silence_max });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("endpoints".to_owned()).spawn(move || {
        let served = runtime.block_on(async move { axum::serve(tokio::net::TcpListener::from_std(listener)?, app).await });
        if let Err(error) = served {
            tracing::error!(error = %error, "endpoints ended");
        }
    })?;
    Ok(address)
}

/// Alive while every worker's loop goes round within `max.poll.interval.ms`; later the group would expel it anyway.
async fn livez(State(seen): State<Seen>) -> Response {
    let silence = seen.board.silence();
    if silence <= seen.silence_max {
        (StatusCode::OK, "alive\n").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("a worker has not gone round for {} s\n", silence.as_secs())).into_response()
    }
}

async fn readyz(State(seen): State<Seen>) -> Response {
    if seen.board.is_ready() {
        return (StatusCode::OK, "ready\n").into_response();
    }
    let status = seen.board.snapshot();
    (StatusCode::SERVICE_UNAVAILABLE, format!("{}: {}\n", status.state, status.reason)).into_response()
}

async fn status(State(seen): State<Seen>) -> Response {
    match serde_json::to_string_pretty(&seen.board.snapshot()) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text + "\n").into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn metrics_text(State(seen): State<Seen>) -> Response {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match seen.metrics.encode(&seen.board.snapshot()) {
        Ok(text) => ([(header::CONTENT_TYPE, content_type)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
