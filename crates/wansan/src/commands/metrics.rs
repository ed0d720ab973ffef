//! A target's counters for a Prometheus server.

mod endpoint;
mod text;

use std::net::SocketAddr;

use anyhow::Result;
use wansan_san::target::Observer;

/// Serves the counters of `target` at `listen` until the program ends; gives the address.
///
/// # Errors
/// When it cannot listen there.
pub(super) fn serve(listen: SocketAddr, target: Observer) -> Result<SocketAddr> {
    endpoint::serve(listen, move || text::openmetrics(target.snapshot()))
}
