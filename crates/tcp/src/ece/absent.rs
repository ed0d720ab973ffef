//! Signals in a build without eBPF: there are none, and loading returns how to get them.

use std::convert::Infallible;
use std::io;
use std::os::fd::AsFd;

use super::{Order, Signals};
use crate::control::ControlError;
use crate::ebpf::EbpfError;

/// A congestion control of receiving sockets; there is none in this build.
#[derive(Debug)]
pub struct EceSignal(Infallible);

impl EceSignal {
    /// Loads it.
    ///
    /// # Errors
    /// [`EbpfError::NotBuilt`].
    pub fn load() -> Result<EceSignal, ControlError> {
        Err(EbpfError::NotBuilt.into())
    }

    /// The kernel's name for it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self.0 {}
    }

    /// Attaches it to a connection.
    ///
    /// # Errors
    /// None: there is no such value.
    pub fn attach(&self, _socket: impl AsFd) -> io::Result<bool> {
        match self.0 {}
    }

    /// Sets a socket's order.
    ///
    /// # Errors
    /// None: there is no such value.
    pub fn order(&self, _socket: impl AsFd, _order: &Order) -> io::Result<()> {
        match self.0 {}
    }

    /// Makes a socket signal once.
    ///
    /// # Errors
    /// None: there is no such value.
    pub fn ask(&self, _socket: impl AsFd) -> io::Result<()> {
        match self.0 {}
    }

    /// The signals of a socket.
    #[must_use]
    pub fn signals(&self, _socket: impl AsFd) -> Signals {
        match self.0 {}
    }
}
