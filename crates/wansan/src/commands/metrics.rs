//! Counters for a Prometheus server.

pub(super) mod connection;
pub(super) mod family;
mod text;

use std::net::SocketAddr;

use anyhow::Result;
use wansan_san::target::Observer;

use super::http::{self, Found};

/// Serves the counters of `target` at `listen` until the program ends; gives the address.
///
/// # Errors
/// When it cannot listen there.
pub(super) fn serve(listen: SocketAddr, target: Observer) -> Result<SocketAddr> {
    serve_text(listen, move || text::openmetrics(target.snapshot()))
}

/// Serves OpenMetrics text at `listen`, in the path `/metrics`, until the program ends; gives the
/// address.
///
/// # Errors
/// When it cannot listen there.
pub(super) fn serve_text(
    listen: SocketAddr,
    text: impl Fn() -> String + Send + Sync + 'static,
) -> Result<SocketAddr> {
    http::serve(listen, "metrics", move |path| match path {
        "/metrics" => Found::Text {
            kind: "application/openmetrics-text; version=1.0.0; charset=utf-8",
            body: text(),
        },
        _ => Found::Nothing("metrics are at /metrics"),
    })
}
