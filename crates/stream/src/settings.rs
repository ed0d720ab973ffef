//! Settings of both ends of measured streams.

use std::time::Duration;

use wansan_settings::quantity::{Rate, Size, SomeTime, Span};
use wansan_settings::record::{RecordSettings, TcpSettings};
use wansan_settings::{settings, usual};
use wansan_tcp::buffers::Buffer;
use wansan_workload::stream::MARK_EVERY_BYTES;

/// Minimum and maximum size of a socket buffer.
const SOCKET_BUFFER: (Size, Size) = (Size(Buffer::RANGE_BYTES.0), Size(Buffer::RANGE_BYTES.1));

/// Minimum and maximum distance of marks.
const MARK_EVERY: (Size, Size) = (
    Size(MARK_EVERY_BYTES.0 as u64),
    Size(MARK_EVERY_BYTES.1 as u64),
);

settings! {
    /// All settings of `wansan stream send`.
    #[derive(Debug, Clone, PartialEq)]
    pub struct SendSettings {
        /// The receiver, or a relay that forwards to one
        pub to: String, "ADDRESS:PORT", as "";
        with load: LoadSettings;
    }
}

settings! {
    /// Settings of the load.
    #[derive(Debug, Clone, PartialEq)]
    pub struct LoadSettings {
        /// Parallel streams
        pub flows: u32 = 1, in 1..=10_000, "N";
        /// How long to measure [default: 10s]
        pub time: Option<SomeTime>, "TIME", without bytes;
        /// Bytes to send per stream, instead of a time
        pub bytes: Option<Size>, in Size(1)..=Size(1 << 60), "BYTES";
        /// Warm-up, excluded from results
        pub warmup: Span = Span(Duration::ZERO), "TIME";
        /// Report when all streams are connected, and start on a line or end of file on standard input,
        /// so that several can start together
        pub hold: bool = false;
        /// Print the result as JSON
        pub json: bool = false;
        /// What to record, and where
        pub record: RecordSettings = usual(), of RecordSettings;
        with stream: StreamSettings;
        with tcp: TcpSettings;
    }
}

settings! {
    /// Settings of each stream.
    #[derive(Debug, Clone, PartialEq)]
    pub struct StreamSettings {
        /// Distance between marks in the stream
        pub every: Size = Size(1_000_000), in MARK_EVERY.0..=MARK_EVERY.1, "BYTES";
        /// Congestion control of the streams, by its kernel name
        pub congestion_control: Option<String>, "NAME", as "cc";
        /// Send buffer of each stream [default: kernel autotuning]
        pub send_buffer: Option<Size>, in SOCKET_BUFFER.0..=SOCKET_BUFFER.1, "BYTES";
        /// Most unsent data in the send buffer, so that the latency is that of the path, not of
        /// this end's own queue [default: the whole buffer]
        pub unsent: Option<Size>, in Size(4096)..=Size(1 << 30), "BYTES";
        /// Send at this rate in each stream [default: as fast as possible]
        pub rate: Option<Rate>, in Rate(Some(8000))..=Rate(None), "RATE";
    }
}

settings! {
    /// All settings of `wansan stream receive`.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ReceiveSettings {
        /// Listen address; port 0 picks a free port
        pub listen: String, "ADDRESS:PORT";
        /// Print events as JSON, one per line
        pub json: bool = false;
        with taking: TakingSettings;
    }
}

settings! {
    /// Settings for accepting streams.
    #[derive(Debug, Clone, PartialEq)]
    pub struct TakingSettings {
        /// Size of one read
        pub read: Size = Size(256 << 10), in Size(1)..=Size(16 << 20), "BYTES";
        /// Most concurrent streams; further ones are refused
        pub most: u32 = 10_000, in 1..=1_000_000, "N";
        with buffer: BufferSettings;
    }
}

settings! {
    /// Socket buffers of a receiver.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct BufferSettings {
        /// Receive buffer of each stream, which bounds the advertised window [default: kernel
        /// autotuning]
        pub receive_buffer: Option<Size>, in SOCKET_BUFFER.0..=SOCKET_BUFFER.1, "BYTES";
    }
}

/// When a sender ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// A duration after the warm-up.
    Time(Duration),
    /// Bytes that each stream sends and the receiver reads.
    Bytes(u64),
}

impl StreamSettings {
    /// Distance of marks in bytes, within [`MARK_EVERY_BYTES`].
    #[must_use]
    pub fn every_bytes(&self) -> u32 {
        u32::try_from(self.every.0).unwrap_or(MARK_EVERY_BYTES.1)
    }

    /// Bytes per second of each stream; `None`: unlimited.
    #[must_use]
    pub fn rate_bytes_per_s(&self) -> Option<f64> {
        let bits_per_s = self.rate.and_then(|rate| rate.0)?;
        Some(bits_per_s as f64 / 8.0)
    }
}

impl LoadSettings {
    /// When to end: a number of bytes takes precedence over a time.
    pub(super) fn limit(&self) -> Limit {
        const USUAL: Duration = Duration::from_secs(10);
        match self.bytes {
            Some(bytes) => Limit::Bytes(bytes.0),
            None => Limit::Time(self.time.map_or(USUAL, |time| time.0)),
        }
    }

    /// A setting that lets more marks count.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self.limit() {
            Limit::Time(_) => "measure longer, or lower `every`",
            Limit::Bytes(_) => "raise `bytes`, or lower `every`",
        }
    }
}
