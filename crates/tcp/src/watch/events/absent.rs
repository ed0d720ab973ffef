//! A build without eBPF has no events.

use super::super::traced::Traced;
use crate::ebpf::EbpfError;

/// Nothing: it cannot be had.
pub(in crate::watch) enum Events {}

impl Events {
    /// Says why not.
    pub(in crate::watch) fn open(_room_bytes: u32) -> Result<Events, EbpfError> {
        Err(EbpfError::NotBuilt)
    }

    /// What has happened since.
    pub(in crate::watch) fn take(&mut self) -> Vec<Traced> {
        match *self {}
    }

    /// Events that found no room.
    pub(in crate::watch) fn lost(&self) -> u64 {
        match *self {}
    }
}
