//! The kernel's TCP: watch it and steer it.
//!
//! - [`info`]: what TCP_INFO says of a socket, as a record of the trace vocabulary;
//! - [`buffers`]: how far the kernel lets socket buffers grow;
//! - [`congestion`]: which congestion control a socket uses.

pub mod buffers;
pub mod congestion;
pub mod info;

pub use info::TcpInfo;
