//! Values that an end negotiates (RFC 7143 §13).

use serde::{Deserialize, Serialize};
use wansan_iscsi::keys::{DigestKind, Wanted};
use wansan_settings::quantity::Size;
use wansan_settings::settings;

/// Whether to use a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Digest {
    /// Never.
    Never,
    /// If the other end requests it.
    Accept,
    /// Always: a login without it fails.
    Always,
}

/// The range of lengths in keys (RFC 7143 §13.12 to §13.14).
const LENGTHS: (Size, Size) = (Size(512), Size((1 << 24) - 1));

settings! {
    /// Values to negotiate. The defaults suit long paths.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct NegotiationSettings {
        /// CRC32C header digests (RFC 7143 §13.1): never, only if the peer wants them, or always
        pub header_digest: Digest = Digest::Accept, "WHEN";
        /// CRC32C data digests (§13.1): never, only if the peer wants them, or always
        pub data_digest: Digest = Digest::Accept, "WHEN";
        /// InitialR2T (§13.10): send Data-Out only in answer to an R2T
        pub initial_r2t: bool = Wanted::default().initial_r2t, "YES|NO";
        /// ImmediateData (§13.11): allow data in the PDU of a write command
        pub immediate_data: bool = Wanted::default().immediate_data, "YES|NO";
        /// FirstBurstLength (§13.14): most unsolicited data per command
        pub first_burst: Size = length(Wanted::default().first_burst_bytes),
            in LENGTHS.0..=LENGTHS.1, "BYTES";
        /// MaxBurstLength (§13.13): most data in one Data-In or solicited Data-Out sequence
        pub max_burst: Size = length(Wanted::default().max_burst_bytes),
            in LENGTHS.0..=LENGTHS.1, "BYTES";
        /// MaxRecvDataSegmentLength (§13.12): most data in one PDU that this end accepts
        pub max_recv_data_segment: Size = length(Wanted::default().max_recv_data_bytes),
            in LENGTHS.0..=LENGTHS.1, "BYTES";
        /// MaxOutstandingR2T (§13.17): outstanding R2Ts per command
        pub max_outstanding_r2t: u16 = Wanted::default().max_outstanding_r2t, in 1..=65_535, "N";
    }
}

settings! {
    /// Errors that are recovered without a new session (RFC 7143 §7).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct RecoverySettings {
        /// Highest ErrorRecoveryLevel to offer or accept: 0 recovers only with a new session, 1 also recovers PDUs lost
        /// within a connection, 2 also reassigns tasks of a lost connection to another
        pub error_recovery_level: u8 = 2, in 0..=2, "LEVEL";
    }
}

fn length(bytes: u32) -> Size {
    Size(bytes.into())
}

impl Digest {
    fn wanted(self) -> Vec<DigestKind> {
        match self {
            Digest::Never => vec![DigestKind::None],
            Digest::Accept => vec![DigestKind::None, DigestKind::Crc32c],
            Digest::Always => vec![DigestKind::Crc32c],
        }
    }
}

impl NegotiationSettings {
    /// In the form that negotiation needs, with the recovery level.
    #[must_use]
    pub fn wanted(&self, recovery: RecoverySettings) -> Wanted {
        let bytes = |size: Size| u32::try_from(size.0).unwrap_or(u32::MAX);
        Wanted {
            header_digest: self.header_digest.wanted(),
            data_digest: self.data_digest.wanted(),
            initial_r2t: self.initial_r2t,
            immediate_data: self.immediate_data,
            first_burst_bytes: bytes(self.first_burst),
            max_burst_bytes: bytes(self.max_burst),
            max_recv_data_bytes: bytes(self.max_recv_data_segment),
            max_outstanding_r2t: self.max_outstanding_r2t,
            error_recovery_level: recovery.error_recovery_level,
            ..Wanted::default()
        }
    }
}
