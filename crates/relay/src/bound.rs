//! What a listener's settings make of its law.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use wansan_tcp::control::ControlError;
use wansan_tcp::ece::EceSignal;

use crate::choice::Choice;
use crate::error::RelayError;
use crate::law::Law;
use crate::settings::{EceSettings, ListenerConfig};

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
    /// The side, [`CLIENT`](crate::side::CLIENT) or [`TARGET`](crate::side::TARGET).
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
        let flow = &config.flow;
        let listen = || config.listen.clone();
        let choice = flow.choice().map_err(|source| RelayError::Flow {
            listen: listen(),
            source,
        })?;
        let asked = |side| signaller.get().map(|signal| Asked { side, signal });
        let (law, asked, remark) = match choice {
            Choice::Unbounded => return Ok((None, None)),
            Choice::Window => (Law::Window, None, None),
            Choice::Signals { law, side } => {
                let asked = asked(side).map_err(|source| RelayError::Law {
                    listen: listen(),
                    law,
                    source,
                })?;
                (law, Some(asked), None)
            }
            Choice::Best { side: Some(side) } => match asked(side) {
                Ok(asked) => (Law::Arrival, Some(asked), None),
                Err(error) => (Law::Window, None, Some(lesser(&error))),
            },
            Choice::Best { side: None } => {
                let why = "its congestion control is reno neither towards the client nor towards the target";
                (Law::Window, None, Some(lesser(&why)))
            }
        };
        let bound = Bound {
            law,
            latency: flow.latency.map_or(Duration::ZERO, |latency| latency.0),
            ece: flow.ece,
            asked,
        };
        Ok((Some(bound), remark))
    }
}

/// The remark when no law was chosen and the best is not available.
fn lesser(why: &dyn fmt::Display) -> String {
    format!("law window, not arrival: {why}")
}
