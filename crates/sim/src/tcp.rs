//! One end of a TCP connection as a pure state machine, after Linux 6.18.
//!
//! - [`connection`]: one end whole, with its handshake;
//! - [`segment`]: what goes over the path;
//! - [`congestion`]: the window, and the laws that change it;
//! - [`rate`]: how fast data was delivered;
//! - [`jiffies`]: the kernel's clock tick;
//! - [`receive`]: the half that receives;
//! - [`send`]: the half that sends.
//!
//! Sequence numbers are 64 bits wide and relative: 0 is the SYN, 1 the first byte, and the FIN is the one
//! after the last byte. No data is carried, only its length; whoever drives the machine keeps the bytes.

pub mod congestion;
pub mod connection;
pub mod jiffies;
pub mod rate;
pub mod receive;
pub mod segment;
pub mod send;
