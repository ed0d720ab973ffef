//! Why a stream cannot be measured.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use wansan_tcp::buffers::BufferError;
use wansan_tcp::congestion::CongestionError;
use wansan_workload::stream::Nonsense;

/// A meter could not begin, or not go on.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// No host and port.
    #[error("'{given}' is not a HOST:PORT: write for example 192.0.2.1:5201")]
    Address {
        /// What was given.
        given: String,
    },
    /// The host has no address.
    #[error("{given}: {source}; is the name right, and does the resolver answer?")]
    Resolve {
        /// What was given.
        given: String,
        /// Why.
        source: io::Error,
    },
    /// The address cannot be had.
    #[error("cannot listen at {listen}: {source}")]
    Listen {
        /// Where.
        listen: String,
        /// Why.
        source: io::Error,
    },
    /// Nobody answers there.
    #[error("cannot connect to {to}: {source}; is `wansan stream receive` running?")]
    Connect {
        /// Where.
        to: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Something answers, but no receiver.
    #[error(
        "{to} accepted the connection, but sent no welcome within {} s: is it a `wansan stream \
         receive`, or a relay to one?",
        waited.as_secs()
    )]
    NoWelcome {
        /// Where.
        to: SocketAddr,
        /// For so long.
        waited: Duration,
    },
    /// The congestion control cannot be had.
    #[error(transparent)]
    Congestion(#[from] CongestionError),
    /// The kernel gives a smaller buffer, or none.
    #[error(transparent)]
    SocketBuffer(#[from] BufferError),
    /// The peer says what no receiver says.
    #[error("flow {flow}: protocol error by the receiver: {nonsense}")]
    Nonsense {
        /// The flow's number, from 0.
        flow: usize,
        /// What it said.
        nonsense: Nonsense,
    },
    /// A connection broke while it was measured.
    #[error("flow {flow} was lost: {source}")]
    Lost {
        /// The flow's number, from 0.
        flow: usize,
        /// Why.
        source: io::Error,
    },
    /// No mark came back in the time that was measured.
    #[error("no mark was echoed during the measurement: {remedy}")]
    NoMark {
        /// What has more marks measured.
        remedy: &'static str,
    },
    /// The machine gives no descriptor, thread or setting.
    #[error("cannot set up the meter: {0}")]
    Machine(#[from] io::Error),
}
