//! The kernel's TCP: watch it and steer it.
//!
//! - [`info`]: TCP_INFO of a socket, as a record of the trace vocabulary;
//! - [`diag`]: the same of other processes' sockets, by INET_DIAG;
//! - [`watch`]: activity of such sockets, from open to close;
//! - [`expression`]: selects connections;
//! - [`address`]: addresses to connect to or to listen on;
//! - [`buffers`]: sizes of socket buffers, and limits of the kernel's autotuning;
//! - [`congestion`]: the congestion control of a socket;
//! - [`control`]: wansan's congestion controls in the kernel, by eBPF;
//! - [`ece`]: slowing down a sender from the receiving end;
//! - [`delays`]: deliberate delays of TCP;
//! - [`queues`]: data queued in a socket;
//! - [`options`]: socket options that no safe library provides;
//! - [`network`]: networks of client addresses;
//! - [`stamps`]: when the kernel passed on data of a socket;
//! - [`ebpf`]: eBPF programs in the kernel.

pub mod address;
pub mod buffers;
pub mod congestion;
pub mod connection;
pub mod control;
pub mod delays;
pub mod diag;
pub mod ebpf;
pub mod ece;
pub mod expression;
pub mod info;
pub mod network;
pub mod options;
pub mod queues;
pub mod stamps;
pub mod watch;

pub use delays::DelayedAck;
pub use info::TcpInfo;
pub use stamps::Stamping;
