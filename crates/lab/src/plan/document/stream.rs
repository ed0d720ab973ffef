//! The tables of a plan that say what flows beside, or instead of, sessions: relays that split
//! connections, and measured streams.

use serde::{Deserialize, Serialize};

use super::one;
use crate::plan::quantity::{Rate, Size, Span, whole};

/// `[[relay]]`: `wansan relay` on a host. What goes through it says so by its name (`through`); one that
/// nothing goes through is not started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayTable {
    /// Its name: small letters, digits and hyphens.
    #[serde(default = "relay")]
    pub name: String,
    /// The host that it runs on. A path joins it with every host whose connections go through it.
    pub host: String,
    /// The host that it leads to: that of the target, or of the streams that go through it. A path
    /// joins both.
    pub to: String,
    /// What it may hold of each direction beside the kernel's queues.
    #[serde(default = "relay_buffer")]
    pub buffer: Size,
    /// How long bytes may wait in it; as long as they do when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Span>,
    /// By what they are held to that, as `wansan relay --law` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub law: Option<String>,
    /// Of the laws `ece-bound` and `ece-red`: above so many bytes ECE is signalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ece_bound: Option<Size>,
    /// Of `ece-red`: how far below the bound that begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ece_ramp: Option<Size>,
    /// Of both: they decide once in so many bytes read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ece_every: Option<Size>,
    /// The client's side.
    #[serde(default)]
    pub r#in: RelaySideTable,
    /// The side of the target, or of the receiver.
    #[serde(default)]
    pub out: RelaySideTable,
}

/// One side of a relay, as `wansan relay --in-…` and `--out-…` take it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RelaySideTable {
    /// Congestion control of what the relay sends there; that of `[tcp]` when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// Its receive buffer; as the kernel tunes it when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<Size>,
    /// Its send buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<Size>,
}

/// `[[stream]]`: `wansan stream send` on one host, measured together with `wansan stream receive` on
/// another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamTable {
    /// Its name in results and parameters: small letters, digits and hyphens.
    #[serde(default = "stream")]
    pub name: String,
    /// The host that sends.
    pub from: String,
    /// The host that receives.
    pub to: String,
    /// The `[[relay]]` that it goes through; straight over a path when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// TCP connections at once, 0 to 1000; with 0 it is not there.
    #[serde(default = "one", deserialize_with = "whole::<0, 1000, _>")]
    pub flows: u32,
    /// Congestion control at its sender; that of `[tcp]` when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// Distance of marks, 1 KiB to 1 GiB.
    #[serde(default = "million")]
    pub every: Size,
    /// Send buffer of each connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<Size>,
    /// Receive buffer of each connection; all streams to one host have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<Size>,
    /// What may wait unsent in the send buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsent: Option<Size>,
    /// What each connection sends; as much as it takes when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

fn relay() -> String {
    "relay".to_owned()
}

fn stream() -> String {
    "stream".to_owned()
}

fn relay_buffer() -> Size {
    Size(256 << 10)
}

fn million() -> Size {
    Size(1_000_000)
}
