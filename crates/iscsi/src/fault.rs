//! Whose fault an error is, as data.

use core::fmt;

/// Who has to change something so that an error goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The peer broke a rule of the standard.
    PeerMisbehaved,
    /// The peer keeps the rules, but wants or offers nothing that this end can do.
    PeerIncompatible,
    /// The code that called this crate broke a documented rule.
    CallerMisused,
    /// The machine or the network lacks something.
    EnvironmentLacks,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Fault::PeerMisbehaved => "peer misbehaved",
            Fault::PeerIncompatible => "peer incompatible",
            Fault::CallerMisused => "caller misused",
            Fault::EnvironmentLacks => "environment lacks",
        })
    }
}
