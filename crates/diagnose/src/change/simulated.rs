//! Changes in the words of plans, by which a simulated twin of what was seen follows them, and what that predicts.

use serde::Serialize;

use super::{FIRST_BURST, MAX_BURST, Place};

/// A setting as plans have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its dotted name.
    pub parameter: &'static str,
    /// Its value.
    pub value: String,
}

/// What a change brings.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Predicted {
    /// Bytes of data per second with it ÷ without it − 1, over runs of a twin by several seeds.
    Gain {
        /// The least.
        least: f64,
        /// The median.
        median: f64,
        /// The greatest.
        most: f64,
        /// How many runs.
        seeds: usize,
        /// What limits throughput then, as findings name it.
        binds_next: String,
    },
    /// Nothing, for that reason: a clause.
    Unknown(String),
}

fn setting(parameter: &'static str, value: &impl ToString) -> Setting {
    Setting {
        parameter,
        value: value.to_string(),
    }
}

/// The I/Os in flight. Where initiators have slots for fewer, a twin has as many as there were slots.
pub const PARALLEL: &str = "workload.parallel";

/// An initiator with slots for `most` commands, not for `commands`.
pub(super) fn slots(place: &Place, commands: u64, most: u64) -> Vec<Setting> {
    let asked = place.wanted.clamp(commands, most.max(commands));
    vec![setting(PARALLEL, &asked)]
}

/// A target that grants a window of `most` commands, not of `commands`.
pub(super) fn window(place: &Place, commands: u64, most: u64) -> Vec<Setting> {
    let mut settings = vec![setting("target.command_window", &most)];
    settings.extend(slots(place, commands, most));
    settings
}

/// Writes with unsolicited data.
pub(super) fn unasked() -> Vec<Setting> {
    vec![
        setting("session.max_burst", &format_args!("{MAX_BURST}B")),
        setting("session.first_burst", &format_args!("{FIRST_BURST}B")),
        setting("session.initial_r2t", &"no"),
        setting("session.immediate_data", &"yes"),
    ]
}

/// Buffers of a kind (`rmem` or `wmem`) that grow to so many bytes.
pub(super) fn buffer(kind: &str, bytes: u64) -> Vec<Setting> {
    let parameter = match kind {
        "rmem" => "tcp.rmem",
        _ => "tcp.wmem",
    };
    vec![setting(parameter, &format_args!("{bytes}B"))]
}

/// Another congestion control where most is sent from.
pub(super) fn congestion_control(place: &Place, name: &str) -> Vec<Setting> {
    let parameter = match place.sender_is_target {
        true => "target.congestion_control",
        false => "initiator.congestion_control",
    };
    vec![setting(parameter, &name)]
}
