//! Congestion controls in a build without eBPF: there are none, and each attempt says how to get
//! them.

use std::convert::Infallible;

use super::{Algorithm, ControlError, Options, Status};
use crate::ebpf::EbpfError;

/// A control that this process has loaded; there is none in this build.
#[derive(Debug)]
pub struct Control(Infallible);

impl Control {
    /// Which it is.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match self.0 {}
    }

    /// What it was loaded with.
    #[must_use]
    pub fn options(&self) -> Option<Options> {
        match self.0 {}
    }

    /// Whether another process had loaded it before.
    #[must_use]
    pub fn was_there(&self) -> bool {
        match self.0 {}
    }

    /// What libbpf and the verifier said while it was loaded.
    #[must_use]
    pub fn verifier_log(&self) -> &str {
        match self.0 {}
    }

    /// Lets it stay.
    ///
    /// # Errors
    /// Never comes to that.
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

/// Sees to it that sockets can choose a control.
///
/// # Errors
/// [`EbpfError::NotBuilt`].
pub fn hold(_algorithm: Algorithm, _wanted: Option<&Options>) -> Result<Control, ControlError> {
    Err(EbpfError::NotBuilt.into())
}

/// Ends what was kept.
///
/// # Errors
/// [`EbpfError::NotBuilt`].
pub fn unload(_algorithm: Algorithm) -> Result<(), ControlError> {
    Err(EbpfError::NotBuilt.into())
}

/// All controls of ours, of which this build has none.
///
/// # Errors
/// [`EbpfError::NotBuilt`].
pub fn list() -> Result<Vec<Status>, ControlError> {
    Err(EbpfError::NotBuilt.into())
}

/// What is known of a control: that it is absent.
///
/// # Errors
/// [`EbpfError::NotBuilt`].
pub fn show(_algorithm: Algorithm) -> Result<Status, ControlError> {
    Err(EbpfError::NotBuilt.into())
}
