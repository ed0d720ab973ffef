//! Prometheus metrics of a running program: [`serve`] answers scrapers over [`http`] with the OpenMetrics text
//! that [`family`] writes; [`connection`] has the metric families of TCP connections.

pub mod connection;
pub mod family;
pub mod http;

use std::net::SocketAddr;

use http::{Response, ServeError};

/// Serves OpenMetrics text under `/metrics` at `listen`, from threads of its own, until the program ends; returns
/// the address. `text` is called for each request.
///
/// # Errors
/// When it cannot listen there.
pub fn serve(
    listen: SocketAddr,
    text: impl Fn() -> String + Send + Sync + 'static,
) -> Result<SocketAddr, ServeError> {
    http::serve(listen, "metrics", move |path| match path {
        "/metrics" => Response::openmetrics(text()),
        _ => Response::NotFound("metrics are at /metrics"),
    })
}
