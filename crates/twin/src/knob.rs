//! The parameters of a twin that can be changed, each in a table row under its name in plans.

mod host;
mod load;
mod path;
mod relay;
mod session;
mod tcp;
mod value;
mod vpn;

use std::fmt::Display;

use wansan_mistake::nearest;

use crate::setup::Setup;
use host::{Knob, knobs, of_hosts};
use path::{PATH_KNOBS, named, path_knob, path_of, paths};

/// Why a knob was not set, as one line of text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KnobError {
    /// No knob has this name.
    #[error("`{name}` cannot be changed of a recording; {hint}")]
    Unknown {
        /// The name.
        name: String,
        /// The nearest known name.
        hint: String,
    },
    /// The knob does not take this value.
    #[error("`{name}`: {reason}")]
    Value {
        /// The knob's name.
        name: String,
        /// The reason.
        reason: String,
    },
}

/// A change: the name of a knob, and its value as in a plan.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Setting {
    /// The knob's name.
    pub parameter: String,
    /// The value.
    pub value: String,
}

impl Setting {
    /// Sets the knob of this name.
    #[must_use]
    pub fn new(parameter: &str, value: impl Display) -> Setting {
        Setting {
            parameter: parameter.to_owned(),
            value: value.to_string(),
        }
    }
}

/// Applies a change.
///
/// # Errors
/// [`KnobError`] when there is no such knob, or it does not take the value.
pub fn set(setup: &mut Setup, setting: &Setting) -> Result<(), KnobError> {
    let Setting { parameter, value } = setting;
    let wrong = |reason| KnobError::Value {
        name: parameter.clone(),
        reason,
    };
    let has_it = |knob: &&Knob| knob.name == parameter && (knob.get)(setup).is_some();
    if let Some(knob) = knobs().find(has_it) {
        return (knob.set)(setup, value).map_err(wrong);
    }
    let unknown = |setup: &Setup| {
        let known = settings(setup);
        let known: Vec<&str> = known.iter().map(|it| it.parameter.as_str()).collect();
        KnobError::Unknown {
            name: parameter.clone(),
            hint: nearest(parameter, &known),
        }
    };
    let (path, knob) = path_knob(setup, parameter).ok_or_else(|| unknown(setup))?;
    let directions = setup.directions.iter_mut();
    for direction in directions.filter(|it| path_of(&it.name) == path) {
        (knob.set)(direction, value).map_err(wrong)?;
    }
    Ok(())
}

/// Whether a knob is a setting of target, session or TCP, as opposed to the load, the store or a path.
#[must_use]
pub fn is_of_hosts(parameter: &str) -> bool {
    of_hosts().any(|knob| knob.name == parameter)
}

/// All knobs with their current values.
#[must_use]
pub fn settings(setup: &Setup) -> Vec<Setting> {
    let of_hosts = knobs().filter_map(|knob| Some(Setting::new(knob.name, (knob.get)(setup)?)));
    let paths = paths(setup);
    let of_paths = paths.iter().flat_map(|(path, direction)| {
        let each = PATH_KNOBS.iter();
        each.map(move |knob| Setting::new(&named(path, knob), (knob.get)(direction)))
    });
    of_hosts.chain(of_paths).collect()
}

/// All changes worth trying.
#[must_use]
pub fn tries(setup: &Setup) -> Vec<Vec<Setting>> {
    let of_hosts = knobs().filter(|knob| (knob.get)(setup).is_some());
    let mut tries: Vec<Vec<Setting>> = of_hosts.flat_map(|knob| (knob.tries)(setup)).collect();
    for (path, direction) in paths(setup) {
        for knob in &PATH_KNOBS {
            let values = (knob.tries)(setup, direction).into_iter();
            tries.extend(values.map(|value| vec![Setting::new(&named(&path, knob), value)]));
        }
    }
    tries
}
