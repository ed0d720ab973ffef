//! The kernel's TCP: watch it and steer it.
//!
//! - [`info`]: what TCP_INFO says of a socket, as a record of the trace vocabulary;
//! - [`diag`]: the same of sockets that belong to others, by INET_DIAG;
//! - [`watch`]: what such sockets do, from their begin to their end;
//! - [`expression`]: which connections are meant;
//! - [`address`]: where to connect to or to listen;
//! - [`buffers`]: sizes of socket buffers, and how far the kernel lets them grow;
//! - [`congestion`]: which congestion control a socket uses;
//! - [`control`]: congestion controls of our own, in the kernel by eBPF;
//! - [`ece`]: asking a sender to slow down, from the receiving end;
//! - [`delays`]: where it waits on purpose;
//! - [`queues`]: what waits in a socket;
//! - [`options`]: socket options that no safe library has;
//! - [`network`]: where connections come from;
//! - [`stamps`]: when it passed on what goes through a socket;
//! - [`ebpf`]: programs of ours in the kernel.

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
