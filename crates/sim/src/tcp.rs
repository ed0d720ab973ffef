//! One end of a TCP connection as a pure state machine, after Linux 6.18.
//!
//! - [`connection`]: one complete end, with its handshake;
//! - [`segment`]: segments on the path;
//! - [`congestion`]: the congestion window, and the algorithms that change it;
//! - [`rate`]: the delivery rate;
//! - [`jiffies`]: the kernel's clock tick;
//! - [`receive`]: the receiving half;
//! - [`send`]: the sending half.
//!
//! Sequence numbers are 64 bits wide and relative: 0 is the SYN, 1 the first byte, and the FIN is the one
//! after the last byte. Only the length of data is carried; the driver keeps the bytes.

pub mod congestion;
pub mod connection;
pub mod jiffies;
pub mod rate;
pub mod receive;
pub mod segment;
pub mod send;
