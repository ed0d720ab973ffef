//! Changes as plan settings, for a simulated twin of the recorded session, and the predictions from it.

use serde::Serialize;

use super::{FIRST_BURST, MAX_BURST, Place};

/// A plan setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its dotted name.
    pub parameter: &'static str,
    /// Its value.
    pub value: String,
}

/// The predicted effect of a change.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Predicted {
    /// Relative gain in bytes of data per second (with ÷ without − 1), over runs of a twin with several seeds.
    Gain {
        /// Minimum.
        least: f64,
        /// The median.
        median: f64,
        /// Maximum.
        most: f64,
        /// Number of runs.
        seeds: usize,
        /// The next limit on throughput, by its name in findings.
        binds_next: String,
    },
    /// No prediction, with the reason as a clause.
    Unknown(String),
}

fn setting(parameter: &'static str, value: &impl ToString) -> Setting {
    Setting {
        parameter,
        value: value.to_string(),
    }
}

/// I/Os in flight. With fewer command slots at the initiator, the twin has as many as there are slots.
pub const PARALLEL: &str = "workload.parallel";

/// An initiator with `most` command slots instead of `commands`.
pub(super) fn slots(place: &Place, commands: u64, most: u64) -> Vec<Setting> {
    let asked = place.wanted.clamp(commands, most.max(commands));
    vec![setting(PARALLEL, &asked)]
}

/// A target with a command window of `most` instead of `commands`.
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

/// Buffers of a kind (`rmem` or `wmem`) with this maximum in bytes.
pub(super) fn buffer(kind: &str, bytes: u64) -> Vec<Setting> {
    let parameter = match kind {
        "rmem" => "tcp.rmem",
        _ => "tcp.wmem",
    };
    vec![setting(parameter, &format_args!("{bytes}B"))]
}

/// Another congestion control at the end whose data waits most.
pub(super) fn congestion_control(place: &Place, name: &str) -> Vec<Setting> {
    let parameter = match place.sender_is_target {
        true => "target.congestion_control",
        false => "initiator.congestion_control",
    };
    vec![setting(parameter, &name)]
}

/// A sender without Nagle's algorithm; a twin has it at the target only.
pub(super) fn no_delay(place: &Place) -> Vec<Setting> {
    match place.sender_is_target {
        true => vec![setting("target.nagle", &"no")],
        false => Vec::new(),
    }
}

/// An initiator whose host delays no acknowledgement.
pub(super) fn quick_acknowledgements() -> Vec<Setting> {
    vec![setting("initiator.delayed_ack", &"quick")]
}
