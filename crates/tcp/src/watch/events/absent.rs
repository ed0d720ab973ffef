//! A build without eBPF has no events.

use super::super::traced::Traced;
use crate::ebpf::EbpfError;

/// Uninhabited.
pub(in crate::watch) enum Events {}

impl Events {
    /// Returns why there are none.
    pub(in crate::watch) fn open(_room_bytes: u32) -> Result<Events, EbpfError> {
        Err(EbpfError::NotBuilt)
    }

    /// Events since the last call.
    pub(in crate::watch) fn take(&mut self) -> Vec<Traced> {
        match *self {}
    }

    /// Events dropped.
    pub(in crate::watch) fn lost(&self) -> u64 {
        match *self {}
    }
}
