//! The record kinds, a table for each.

mod congestion_state;
mod connection;
mod io;
mod packet;
mod path;
mod pdu;
mod request;
mod stamp;
mod tcp;
mod thread;

pub use congestion_state::CongestionState;
pub use connection::Connection;
pub use io::Crossing;
pub use packet::{Packet, Verdict};
pub use path::Path;
pub use pdu::{Pdu, PduDirection};
pub use request::{Request, RequestKind, RequestWait};
pub use stamp::Stamp;
pub use tcp::{Ecn, Seen, Tcp, TcpEvent};
pub use thread::{Role, Thread};
