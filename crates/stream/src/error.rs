//! Errors of stream measurements.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use wansan_tcp::buffers::BufferError;
use wansan_tcp::congestion::CongestionError;
use wansan_workload::stream::Nonsense;

/// Why a meter cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The address is not of the form HOST:PORT.
    #[error("'{given}' is not a HOST:PORT: write for example 192.0.2.1:5201")]
    Address {
        /// The given address.
        given: String,
    },
    /// The host name cannot be resolved.
    #[error("{given}: {source}; is the name right, and does the resolver answer?")]
    Resolve {
        /// The given address.
        given: String,
        /// The cause.
        source: io::Error,
    },
    /// Cannot listen on the address.
    #[error("cannot listen at {listen}: {source}")]
    Listen {
        /// The address.
        listen: String,
        /// The cause.
        source: io::Error,
    },
    /// Connection failed.
    #[error("cannot connect to {to}: {source}; is `wansan stream receive` running?")]
    Connect {
        /// The address.
        to: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The peer accepted the connection, but sent no welcome message.
    #[error(
        "{to} accepted the connection, but sent no welcome within {} s: is it a `wansan stream \
         receive`, or a relay to one?",
        waited.as_secs()
    )]
    NoWelcome {
        /// The address.
        to: SocketAddr,
        /// How long the sender waited.
        waited: Duration,
    },
    /// The congestion control is not available.
    #[error(transparent)]
    Congestion(#[from] CongestionError),
    /// The kernel grants a smaller buffer, or none.
    #[error(transparent)]
    SocketBuffer(#[from] BufferError),
    /// The receiver violated the protocol.
    #[error("flow {flow}: protocol error by the receiver: {nonsense}")]
    Nonsense {
        /// The flow's number, from 0.
        flow: usize,
        /// What it sent.
        nonsense: Nonsense,
    },
    /// A connection broke during the measurement.
    #[error("flow {flow} was lost: {source}")]
    Lost {
        /// The flow's number, from 0.
        flow: usize,
        /// The cause.
        source: io::Error,
    },
    /// No mark was echoed during the measurement.
    #[error("no mark was echoed during the measurement: {remedy}")]
    NoMark {
        /// A setting that lets more marks count.
        remedy: &'static str,
    },
    /// The system denied a descriptor, thread or socket option.
    #[error("cannot set up the meter: {0}")]
    Machine(#[from] io::Error),
}
