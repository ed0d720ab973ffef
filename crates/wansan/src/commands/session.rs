//! The arguments of iSCSI negotiation, which both ends have.

use clap::Args;
use serde::Deserialize;
use wansan_iscsi::keys::{DigestKind, Wanted};

use super::quantity::bytes_within;

/// Values to negotiate. The defaults suit long paths.
#[derive(Debug, Args)]
#[command(next_help_heading = "Negotiation (RFC 7143 §13)")]
pub(super) struct SessionArgs {
    /// CRC32C header digests: never, only if the peer wants them, or always
    #[arg(long, value_name = "WHEN", default_value = "accept")]
    header_digest: Digest,
    /// CRC32C data digests: never, only if the peer wants them, or always
    #[arg(long, value_name = "WHEN", default_value = "accept")]
    data_digest: Digest,
    /// InitialR2T: send Data-Out only in answer to an R2T
    #[arg(long, value_name = "YES|NO", default_value = "no")]
    initial_r2t: YesNo,
    /// ImmediateData: allow data in the PDU of a write command
    #[arg(long, value_name = "YES|NO", default_value = "yes")]
    immediate_data: YesNo,
    /// FirstBurstLength: most unsolicited data per command
    #[arg(long, value_name = "BYTES", default_value = "256KiB", allow_hyphen_values = true, value_parser = bytes)]
    first_burst: u32,
    /// MaxBurstLength: most data in one Data-In or solicited Data-Out sequence
    #[arg(long, value_name = "BYTES", default_value = "1MiB", allow_hyphen_values = true, value_parser = bytes)]
    max_burst: u32,
    /// MaxRecvDataSegmentLength: most data in one PDU that this end accepts
    #[arg(long, value_name = "BYTES", default_value = "256KiB", allow_hyphen_values = true, value_parser = bytes)]
    max_recv_data_segment: u32,
    /// MaxOutstandingR2T: outstanding R2Ts per command
    #[arg(
        long,
        value_name = "N",
        default_value_t = 16,
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    max_outstanding_r2t: u16,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Digest {
    Never,
    Accept,
    Always,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum YesNo {
    Yes,
    No,
}

/// A length as keys have it: 512 to 2^24 − 1 (RFC 7143 §13.12 to §13.14).
pub(super) fn bytes(text: &str) -> Result<u32, String> {
    bytes_within(text, 512, (1 << 24) - 1)
}

impl Digest {
    pub(super) fn wanted(self) -> Vec<DigestKind> {
        match self {
            Digest::Never => vec![DigestKind::None],
            Digest::Accept => vec![DigestKind::None, DigestKind::Crc32c],
            Digest::Always => vec![DigestKind::Crc32c],
        }
    }
}

impl SessionArgs {
    /// As negotiation takes it.
    pub(super) fn wanted(&self) -> Wanted {
        Wanted {
            header_digest: self.header_digest.wanted(),
            data_digest: self.data_digest.wanted(),
            initial_r2t: self.initial_r2t == YesNo::Yes,
            immediate_data: self.immediate_data == YesNo::Yes,
            first_burst_bytes: self.first_burst,
            max_burst_bytes: self.max_burst,
            max_recv_data_bytes: self.max_recv_data_segment,
            max_outstanding_r2t: self.max_outstanding_r2t,
            ..Wanted::default()
        }
    }
}
