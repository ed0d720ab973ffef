//! Which side is at fault for an error.

use core::fmt;

/// Which side has to change something to fix an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The peer violated the standard.
    PeerMisbehaved,
    /// The peer follows the standard, but offers or requires something that this end does not
    /// support.
    PeerIncompatible,
    /// The caller violated a documented precondition.
    CallerMisused,
    /// The machine or the network lacks a resource.
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
