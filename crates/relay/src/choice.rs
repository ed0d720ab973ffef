//! Which law the settings of flows choose. No kernel is queried, so that settings can be checked before a relay starts,
//! and on another computer.

use std::time::Duration;

use wansan_settings::quantity::Size;
use wansan_split::{Bound, CLIENT, Law, SignalSettings, TARGET};

use crate::settings::{EceSettings, FlowSettings};

/// The choice of the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// No law.
    Unbounded,
    /// [`Law::Window`].
    Window,
    /// A law that signals ECE to a side, [`CLIENT`] or [`TARGET`].
    Signals { law: Law, side: usize },
    /// The best available law: [`Law::Arrival`], where it can signal ECE to a side, else [`Law::Window`].
    Best { side: Option<usize> },
}

/// Contradictory settings of flows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// A buffer out of range.
    #[error(
        "a buffer of {0} is too small: give at least {least}",
        least = FlowSettings::MIN_BUFFER
    )]
    Buffer(Size),
    /// A law without a bound to enforce.
    #[error("law '{0}' needs a latency bound: give one, such as 20ms")]
    NoLatency(Law),
    /// A bound without a law that enforces it.
    #[error("law 'none' enforces no latency bound: leave out the latency or the law")]
    NoLaw,
    /// A setting that the law ignores.
    #[error(
        "{setting} is only for {}: give the listener that law, or leave the setting out",
        laws.iter().map(|law| format!("law '{law}'")).collect::<Vec<_>>().join(" and ")
    )]
    Unused {
        /// Its key.
        setting: &'static str,
        /// The laws that use it.
        laws: &'static [Law],
    },
    /// Two congestion controls on one socket.
    #[error(
        "law '{law}' signals with its own congestion control towards the client, which sends as reno \
         does, not as '{control}': use reno there, or towards the target, which is signalled then, or \
         use law 'window'"
    )]
    Control {
        /// The law.
        law: Law,
        /// The conflicting congestion control.
        control: String,
    },
}

impl FlowError {
    /// The key of the setting to change, such as `in.congestion_control`.
    #[must_use]
    pub fn key(&self) -> &'static str {
        match self {
            FlowError::Buffer(_) => "buffer",
            FlowError::NoLatency(_) | FlowError::NoLaw => "law",
            FlowError::Unused { setting, .. } => setting,
            FlowError::Control { .. } => "in.congestion_control",
        }
    }
}

impl FlowSettings {
    /// Checks that the settings do not contradict each other. Whether the kernel supports them is checked when a relay
    /// starts.
    ///
    /// # Errors
    /// [`FlowError`] for the first contradiction.
    pub fn check(&self) -> Result<(), FlowError> {
        self.choice().map(drop)
    }

    /// The law that bounds the backlogs of a flow where every law is available; `None` for no law.
    ///
    /// # Errors
    /// As for [`check`](Self::check).
    pub fn best_bound(&self) -> Result<Option<Bound>, FlowError> {
        Ok(match self.choice()? {
            Choice::Unbounded => None,
            Choice::Signals { law, side } => Some(self.bound(law, Some(side))),
            Choice::Best { side: Some(side) } => Some(self.bound(Law::Arrival, Some(side))),
            Choice::Window | Choice::Best { side: None } => Some(self.bound(Law::Window, None)),
        })
    }

    /// That law with these settings, signalling ECE to that side.
    pub(crate) fn bound(&self, law: Law, asked: Option<usize>) -> Bound {
        let EceSettings {
            ece_bound,
            ece_ramp,
            ece_every,
        } = self.ece;
        Bound {
            law,
            latency: self.latency.map_or(Duration::ZERO, |latency| latency.0),
            signals: SignalSettings {
                bound: ece_bound.map(|bound| bound.0),
                ramp: ece_ramp.map(|ramp| ramp.0),
                every: ece_every.0,
            },
            asked,
        }
    }

    /// The receive buffers of both sides, if set, in bytes.
    #[must_use]
    pub fn receive_buffers(&self) -> [Option<usize>; 2] {
        [&self.r#in, &self.out].map(|side| side.receive_buffer.map(Size::bytes))
    }

    pub(crate) fn choice(&self) -> Result<Choice, FlowError> {
        if self.buffer < FlowSettings::MIN_BUFFER {
            return Err(FlowError::Buffer(self.buffer));
        }
        self.check_ece()?;
        let law = self.law.map(|law| law.0);
        match (law, self.latency) {
            (None | Some(Law::None), None) => return Ok(Choice::Unbounded),
            (Some(Law::None), Some(_)) => return Err(FlowError::NoLaw),
            // A bound in bytes will do as well.
            (Some(law), None) if self.ece.ece_bound.is_none() => {
                return Err(FlowError::NoLatency(law));
            }
            _ => {}
        }
        match (law, self.signalled_side()) {
            (Some(Law::Window), _) => Ok(Choice::Window),
            (Some(law), Some(side)) => Ok(Choice::Signals { law, side }),
            (Some(law), None) => Err(FlowError::Control {
                law,
                control: self.r#in.congestion_control.clone().unwrap_or_default(),
            }),
            (None, side) => Ok(Choice::Best { side }),
        }
    }

    /// Checks the settings of P5's laws, which other laws do not use.
    fn check_ece(&self) -> Result<(), FlowError> {
        const BOTH: &[Law] = &[Law::EceBound, Law::EceRed];
        let EceSettings {
            ece_bound,
            ece_ramp,
            ece_every,
        } = self.ece;
        let settings = [
            (ece_bound.is_some(), "ece_bound", BOTH),
            (ece_ramp.is_some(), "ece_ramp", &[Law::EceRed]),
            (ece_every.0 > 0, "ece_every", BOTH),
        ];
        for (is_given, setting, laws) in settings {
            if is_given && !self.law.is_some_and(|law| laws.contains(&law.0)) {
                return Err(FlowError::Unused { setting, laws });
            }
        }
        Ok(())
    }

    /// The side that can be signalled. The signal is a socket's congestion control; so it is the client, or, if the
    /// client's side uses another one and the target's side uses what the signal sends by, the target.
    fn signalled_side(&self) -> Option<usize> {
        let sends_so = |control: &String| SENDS_AS.contains(&control.as_str());
        if self.r#in.congestion_control.as_ref().is_none_or(sends_so) {
            return Some(CLIENT);
        }
        let is_free = self.out.congestion_control.as_ref().is_some_and(sends_so);
        is_free.then_some(TARGET)
    }
}

/// Congestion controls that may be set on a socket that signals ECE: it sends by Reno (RFC 5681), and cannot emulate
/// another one.
const SENDS_AS: [&str; 2] = ["reno", "wansan_reno"];

#[cfg(test)]
mod tests {
    use super::*;
    use wansan_settings::usual;

    fn settings(json: &str) -> FlowSettings {
        wansan_settings::read_json(json.as_bytes(), "the object").unwrap()
    }

    #[test]
    fn the_side_that_is_signalled_is_one_that_may_be_sent_to_as_reno() {
        for (inward, outward, side) in [
            (None, None, Some(CLIENT)),
            (None, Some("wansan_hstcp"), Some(CLIENT)),
            (Some("reno"), Some("reno"), Some(CLIENT)),
            (Some("wansan_hstcp"), Some("wansan_reno"), Some(TARGET)),
            (Some("cubic"), None, None),
            (Some("cubic"), Some("wansan_hstcp"), None),
        ] {
            let mut flow: FlowSettings = usual();
            flow.r#in.congestion_control = inward.map(str::to_owned);
            flow.out.congestion_control = outward.map(str::to_owned);
            assert_eq!(flow.signalled_side(), side, "{inward:?} {outward:?}");
        }
    }

    #[test]
    fn settings_that_agree_choose_a_law() {
        let (law, side) = (Law::EceRed, CLIENT);
        for (json, choice) in [
            (r#"{}"#, Choice::Unbounded),
            (r#"{"law":"none"}"#, Choice::Unbounded),
            (r#"{"latency":"20ms"}"#, Choice::Best { side: Some(CLIENT) }),
            (
                r#"{"latency":"20ms","in":{"congestion_control":"cubic"}}"#,
                Choice::Best { side: None },
            ),
            (r#"{"law":"window","latency":"20ms"}"#, Choice::Window),
            (
                r#"{"law":"ece-red","ece_bound":"64KiB","ece_ramp":"65KiB"}"#,
                Choice::Signals { law, side },
            ),
            (
                r#"{"law":"ece-red","latency":"1ms","ece_ramp":"1MiB","ece_every":"4KiB"}"#,
                Choice::Signals { law, side },
            ),
        ] {
            assert_eq!(settings(json).choice(), Ok(choice), "{json}");
        }
    }

    #[test]
    fn a_contradiction_is_named_with_the_setting_to_change() {
        for (json, key, part) in [
            (r#"{"law":"window"}"#, "law", "needs a latency"),
            (r#"{"law":"ece-bound"}"#, "law", "needs a latency"),
            (
                r#"{"law":"none","latency":"20ms"}"#,
                "law",
                "leave out the latency or the law",
            ),
            (
                r#"{"law":"arrival","latency":"20ms","ece_bound":"64KiB"}"#,
                "ece_bound",
                "law 'ece-bound' and law 'ece-red'",
            ),
            (
                r#"{"latency":"20ms","ece_every":"64KiB"}"#,
                "ece_every",
                "is only for",
            ),
            (
                r#"{"law":"ece-bound","latency":"20ms","ece_ramp":"64KiB"}"#,
                "ece_ramp",
                "is only for law 'ece-red'",
            ),
            (
                r#"{"law":"arrival","latency":"20ms","in":{"congestion_control":"cubic"}}"#,
                "in.congestion_control",
                "not as 'cubic'",
            ),
        ] {
            let error = settings(json).check().unwrap_err();
            assert_eq!(error.key(), key, "{json}");
            assert!(error.to_string().contains(part), "{json}: {error}");
        }
    }
}
