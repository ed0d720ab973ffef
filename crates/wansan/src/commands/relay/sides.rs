//! The arguments of each side: the same for the client's (`--in-…`) and the target's (`--out-…`).

use std::time::Duration;

use clap::Args;
use wansan_relay::{Dscp, SideSettings};
use wansan_trace::units::parse_duration;

use crate::commands::quantity::socket_buffer;

/// The least and the greatest segment, in bytes, as Linux has them (TCP_MIN_MSS, MAX_TCP_WINDOW).
pub(super) const MSS_BYTES: (u16, u16) = (88, 32_767);

macro_rules! side_args {
    ($name:ident, $heading:literal, $cc:literal, $receive:literal, $send:literal, $keep_alive:literal,
     $user_timeout:literal, $dscp:literal, $mss:literal) => {
        /// How this side uses TCP.
        #[derive(Debug, Args)]
        #[command(next_help_heading = $heading)]
        pub(super) struct $name {
            /// Congestion control for data sent to this side, by its kernel name
            #[arg(id = $cc, long = $cc, value_name = "NAME")]
            cc: Option<String>,
            /// Receive buffer, which bounds the advertised window [default: kernel autotuning]
            #[arg(id = $receive, long = $receive, value_name = "BYTES", value_parser = socket_buffer)]
            receive_buffer: Option<u32>,
            /// Send buffer [default: kernel autotuning]
            #[arg(id = $send, long = $send, value_name = "BYTES", value_parser = socket_buffer)]
            send_buffer: Option<u32>,
            /// Keepalive: idle time before the peer is probed, given up after as long again; 0s
            /// disables it
            #[arg(
                id = $keep_alive,
                long = $keep_alive,
                value_name = "TIME",
                default_value = "60s",
                value_parser = parse_duration
            )]
            keep_alive: Duration,
            /// User timeout: how long data may stay unacknowledged, or the peer's window closed,
            /// before the flow is aborted (RFC 9293 §3.8.3) [default: as set by
            /// net.ipv4.tcp_retries2]
            #[arg(id = $user_timeout, long = $user_timeout, value_name = "TIME", value_parser = parse_duration)]
            user_timeout: Option<Duration>,
            /// DSCP of the packets sent: 0 to 63, or cs0 to cs7, af11 to af43, ef, le
            #[arg(id = $dscp, long = $dscp, value_name = "DSCP")]
            dscp: Option<Dscp>,
            /// Maximum segment size in both directions, in bytes
            #[arg(
                id = $mss,
                long = $mss,
                value_name = "BYTES",
                value_parser = clap::value_parser!(u16).range(i64::from(MSS_BYTES.0)..=i64::from(MSS_BYTES.1))
            )]
            mss: Option<u16>,
        }

        impl $name {
            /// As the relay takes it.
            pub(super) fn settings(&self) -> SideSettings {
                SideSettings {
                    congestion_control: self.cc.clone(),
                    receive_buffer_bytes: self.receive_buffer.map(|bytes| bytes as usize),
                    send_buffer_bytes: self.send_buffer.map(|bytes| bytes as usize),
                    keep_alive: some_time(self.keep_alive),
                    user_timeout: self.user_timeout.and_then(some_time),
                    dscp: self.dscp,
                    mss_bytes: self.mss,
                }
            }
        }
    };
}

side_args!(
    InArgs,
    "Client side",
    "in-cc",
    "in-receive-buffer",
    "in-send-buffer",
    "in-keep-alive",
    "in-user-timeout",
    "in-dscp",
    "in-mss"
);

side_args!(
    OutArgs,
    "Target side",
    "out-cc",
    "out-receive-buffer",
    "out-send-buffer",
    "out-keep-alive",
    "out-user-timeout",
    "out-dscp",
    "out-mss"
);

/// No time means never.
pub(super) fn some_time(time: Duration) -> Option<Duration> {
    (!time.is_zero()).then_some(time)
}
