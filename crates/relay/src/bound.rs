//! What a listener's settings make of its law.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use wansan_tcp::control::ControlError;
use wansan_tcp::ece::EceSignal;

use crate::error::RelayError;
use crate::law::Law;
use crate::settings::{EceSettings, ListenerConfig};
use crate::side::{CLIENT, TARGET};

/// A law of a listener with all that it needs.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    pub(crate) law: Law,
    /// What a byte may wait.
    pub(crate) latency: Duration,
    /// Parameters of P5's laws.
    pub(crate) ece: EceSettings,
    /// Who is asked by ECE, under the laws that ask.
    pub(crate) asked: Option<Asked>,
}

/// Who is asked by ECE to slow down.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The side, [`CLIENT`] or [`TARGET`].
    pub(crate) side: usize,
    pub(crate) signal: Arc<EceSignal>,
}

/// What signals ECE for all flows of a relay; it is loaded when the first listener needs it.
#[derive(Debug, Default)]
pub(crate) struct Signaller(OnceLock<Arc<EceSignal>>);

impl Signaller {
    fn get(&self) -> Result<Arc<EceSignal>, ControlError> {
        if let Some(signal) = self.0.get() {
            return Ok(Arc::clone(signal));
        }
        let loaded = Arc::new(EceSignal::load()?);
        Ok(Arc::clone(self.0.get_or_init(|| loaded)))
    }
}

/// A law as it is in force, and a remark about it.
pub(crate) type Resolved = (Option<Bound>, Option<String>);

impl Bound {
    /// The law of a listener; where none was chosen, the best that is available.
    pub(crate) fn resolve(
        config: &ListenerConfig,
        signaller: &Signaller,
    ) -> Result<Resolved, RelayError> {
        let listen = || config.listen.clone();
        let flow = &config.flow;
        if let Some((setting, laws)) = unused_setting(config) {
            return Err(RelayError::Ece {
                listen: listen(),
                setting,
                laws,
            });
        }
        let law = match (flow.law.map(|law| law.0), flow.latency) {
            (None | Some(Law::None), None) => return Ok((None, None)),
            (Some(Law::None), Some(_)) => {
                let remark = "law 'none' holds nothing to a latency: leave one of them out";
                return Ok((None, Some(remark.to_owned())));
            }
            (Some(law @ (Law::EceBound | Law::EceRed)), None) if flow.ece.ece_bound.is_some() => {
                Some(law)
            }
            (Some(law), None) => {
                return Err(RelayError::Latency {
                    listen: listen(),
                    law,
                });
            }
            (law, Some(_)) => law,
        };
        let bound = |law, asked| {
            Some(Bound {
                law,
                latency: flow.latency.map_or(Duration::ZERO, |latency| latency.0),
                ece: flow.ece,
                asked,
            })
        };
        let asked = |side| {
            let signal = signaller.get()?;
            Ok(Some(Asked { side, signal }))
        };
        match (law, asked_side(config)) {
            (Some(Law::Window), _) => Ok((bound(Law::Window, None), None)),
            (Some(law), None) => Err(RelayError::LawControl {
                listen: listen(),
                law,
                control: flow.r#in.congestion_control.clone().unwrap_or_default(),
            }),
            (Some(law), Some(side)) => {
                let asked = asked(side).map_err(|source| RelayError::Law {
                    listen: listen(),
                    law,
                    source,
                })?;
                Ok((bound(law, asked), None))
            }
            (None, None) => Ok((
                bound(Law::Window, None),
                Some(lesser(
                    &"its congestion control is reno neither towards the client nor towards the target",
                )),
            )),
            (None, Some(side)) => Ok(match asked(side) {
                Ok(asked) => (bound(Law::Arrival, asked), None),
                Err(error) => (bound(Law::Window, None), Some(lesser(&error))),
            }),
        }
    }
}

/// Who can be asked: what asks is a socket's congestion control, so it is the client, or, where the relay is
/// to send to it by another one and to the target as what asks does, the target.
fn asked_side(config: &ListenerConfig) -> Option<usize> {
    let sends_so = |control: &String| SENDS_AS.contains(&control.as_str());
    let (inward, outward) = (&config.flow.r#in, &config.flow.out);
    if inward.congestion_control.as_ref().is_none_or(sends_so) {
        return Some(CLIENT);
    }
    let is_free = outward.congestion_control.as_ref().is_some_and(sends_so);
    is_free.then_some(TARGET)
}

/// The remark when no law was chosen and the best is not available.
fn lesser(why: &dyn fmt::Display) -> String {
    format!("law window, not arrival: {why}")
}

/// A setting that the listener's law ignores, and the laws that use it.
fn unused_setting(config: &ListenerConfig) -> Option<(&'static str, &'static [Law])> {
    const BOTH: &[Law] = &[Law::EceBound, Law::EceRed];
    let EceSettings {
        ece_bound,
        ece_ramp,
        ece_every,
    } = config.flow.ece;
    let settings = [
        (ece_bound.is_some(), "ece_bound", BOTH),
        (ece_ramp.is_some(), "ece_ramp", &[Law::EceRed]),
        (ece_every.0 > 0, "ece_every", BOTH),
    ];
    let is_used = |laws: &[Law]| config.flow.law.is_some_and(|law| laws.contains(&law.0));
    let unused = settings
        .into_iter()
        .find(|(is_given, _, laws)| *is_given && !is_used(laws));
    unused.map(|(_, setting, laws)| (setting, laws))
}

/// What may be asked for of a socket that signals ECE, which sends as they do (RFC 5681): a congestion
/// control cannot do as another one.
const SENDS_AS: [&str; 2] = ["reno", "wansan_reno"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_side_that_is_asked_is_one_that_may_be_sent_to_as_reno() {
        for (inward, outward, asked) in [
            (None, None, Some(CLIENT)),
            (None, Some("wansan_hstcp"), Some(CLIENT)),
            (Some("reno"), Some("reno"), Some(CLIENT)),
            (Some("wansan_hstcp"), Some("wansan_reno"), Some(TARGET)),
            (Some("cubic"), None, None),
            (Some("cubic"), Some("wansan_hstcp"), None),
        ] {
            let mut config = ListenerConfig::new("127.0.0.1:0", "127.0.0.1:9");
            config.flow.r#in.congestion_control = inward.map(str::to_owned);
            config.flow.out.congestion_control = outward.map(str::to_owned);
            assert_eq!(asked_side(&config), asked, "{inward:?} {outward:?}");
        }
    }
}
