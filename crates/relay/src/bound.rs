//! A listener's law, from its settings.

use std::fmt;
use std::sync::{Arc, OnceLock};

use wansan_split::Law;
use wansan_tcp::control::ControlError;
use wansan_tcp::ece::EceSignal;

use crate::choice::Choice;
use crate::error::RelayError;
use crate::settings::ListenerConfig;

/// A listener's law with everything that it needs.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    pub(crate) law: wansan_split::Bound,
    /// The ECE signal, under laws that signal.
    pub(crate) signal: Option<Arc<EceSignal>>,
}

/// The ECE signal of all flows of a relay; loaded when the first listener needs it.
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

/// The law in force, and a remark about it.
pub(crate) type Resolved = (Option<Bound>, Option<String>);

impl Bound {
    /// The law of a listener; by default the best available.
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
        let (law, asked, signal, remark) = match choice {
            Choice::Unbounded => return Ok((None, None)),
            Choice::Window => (Law::Window, None, None, None),
            Choice::Signals { law, side } => {
                let signal = signaller.get().map_err(|source| RelayError::Law {
                    listen: listen(),
                    law,
                    source,
                })?;
                (law, Some(side), Some(signal), None)
            }
            Choice::Best { side: Some(side) } => match signaller.get() {
                Ok(signal) => (Law::Arrival, Some(side), Some(signal), None),
                Err(error) => (Law::Window, None, None, Some(lesser(&error))),
            },
            Choice::Best { side: None } => {
                let why = "its congestion control is reno neither towards the client nor towards the target";
                (Law::Window, None, None, Some(lesser(&why)))
            }
        };
        let law = flow.bound(law, asked);
        Ok((Some(Bound { law, signal }), remark))
    }
}

/// The remark when the best law is not available by default.
fn lesser(why: &dyn fmt::Display) -> String {
    format!("law window, not arrival: {why}")
}
