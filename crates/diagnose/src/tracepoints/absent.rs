//! Stubs for a build without eBPF.

use std::collections::BTreeSet;

use wansan_tcp::ebpf::EbpfError;

use super::{BlockIo, TargetCommand, TracingError};

macro_rules! absent {
    ($(#[$doc:meta])* $name:ident, $of:ty, ($($argument:ident: $type:ty)?)) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name {}

        impl $name {
            /// Returns the reason.
            ///
            /// # Errors
            /// Always.
            pub fn open($($argument: $type)?) -> Result<$name, TracingError> {
                $(let _ = $argument;)?
                Err(EbpfError::NotBuilt.into())
            }

            /// Drains the ring.
            pub fn drain(&mut self) {
                match *self {}
            }

            /// The records since the last call, and the number lost.
            pub fn take(&mut self) -> (Vec<$of>, u64) {
                match *self {}
            }

            /// Pauses.
            pub fn pause(&mut self) {
                match *self {}
            }

            /// Resumes.
            ///
            /// # Errors
            /// Never.
            pub fn resume(&mut self) -> Result<(), TracingError> {
                match *self {}
            }
        }
    };
}

absent! {
    /// Stub: not available.
    BlockTracing, BlockIo, (disks: &BTreeSet<u32>)
}
absent! {
    /// Stub: not available.
    TargetTracing, TargetCommand, ()
}
