//! Congestion controls in a build without eBPF: there are none, and each function returns how to get them.

use std::convert::Infallible;

use super::{Algorithm, ControlError, Options, Status};
use crate::ebpf::EbpfError;

/// A control loaded by this process; there is none in this build.
#[derive(Debug)]
pub struct Control(Infallible);

impl Control {
    /// The algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match self.0 {}
    }

    /// The options that it was loaded with.
    #[must_use]
    pub fn options(&self) -> Option<Options> {
        match self.0 {}
    }

    /// Whether another process had loaded it before.
    #[must_use]
    pub fn was_there(&self) -> bool {
        match self.0 {}
    }

    /// The log of libbpf and the verifier from loading it.
    #[must_use]
    pub fn verifier_log(&self) -> &str {
        match self.0 {}
    }

    /// Keeps it loaded.
    ///
    /// # Errors
    /// Unreachable.
    pub fn keep(self) -> Result<(), ControlError> {
        match self.0 {}
    }
}

/// Loads a control.
///
/// # Errors
/// [`EbpfError::NotBuilt`].
pub fn load(_algorithm: Algorithm, _options: &Options) -> Result<Control, ControlError> {
    Err(EbpfError::NotBuilt.into())
}

/// Makes a control available to sockets.
///
/// # Errors
/// [`EbpfError::NotBuilt`].
pub fn hold(_algorithm: Algorithm, _wanted: Option<&Options>) -> Result<Control, ControlError> {
    Err(EbpfError::NotBuilt.into())
}

/// Unloads a kept control.
///
/// # Errors
/// [`EbpfError::NotBuilt`].
pub fn unload(_algorithm: Algorithm) -> Result<(), ControlError> {
    Err(EbpfError::NotBuilt.into())
}

/// All controls, of which this build has none.
///
/// # Errors
/// [`EbpfError::NotBuilt`].
pub fn list() -> Result<Vec<Status>, ControlError> {
    Err(EbpfError::NotBuilt.into())
}

/// The state of a control: absent.
///
/// # Errors
/// [`EbpfError::NotBuilt`].
pub fn show(_algorithm: Algorithm) -> Result<Status, ControlError> {
    Err(EbpfError::NotBuilt.into())
}
