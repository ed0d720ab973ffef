//! What is allocated of an export ("`base:allocation` metadata context").

use crate::wire::{Descriptor, StateFlags};

/// Consecutive bytes of an export that are allocated alike ("`base:allocation` metadata context").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// How many.
    pub length_bytes: u64,
    /// Nothing is allocated for them, so a write may run out of space.
    pub is_hole: bool,
    /// They read as zeros. If not, their content is not known.
    pub reads_zero: bool,
}

impl Extent {
    /// As the protocol has it.
    pub(crate) const fn descriptor(self) -> Descriptor {
        Descriptor {
            length_bytes: self.length_bytes,
            state: StateFlags::NONE
                .with_if(self.is_hole, StateFlags::HOLE)
                .with_if(self.reads_zero, StateFlags::ZERO),
        }
    }
}

impl From<Descriptor> for Extent {
    fn from(descriptor: Descriptor) -> Self {
        Extent {
            length_bytes: descriptor.length_bytes,
            is_hole: descriptor.state.has(StateFlags::HOLE),
            reads_zero: descriptor.state.has(StateFlags::ZERO),
        }
    }
}
