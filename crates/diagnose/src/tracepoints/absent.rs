//! A build without eBPF has no tracepoints.

use std::collections::BTreeSet;

use wansan_tcp::ebpf::EbpfError;

use super::{BlockIo, TargetCommand, TracingError};

macro_rules! absent {
    ($(#[$doc:meta])* $name:ident, $of:ty, ($($argument:ident: $type:ty)?)) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name {}

        impl $name {
            /// Says why not.
            ///
            /// # Errors
            /// Always.
            pub fn open($($argument: $type)?) -> Result<$name, TracingError> {
                $(let _ = $argument;)?
                Err(EbpfError::NotBuilt.into())
            }

            /// Empties the ring.
            pub fn drain(&mut self) {
                match *self {}
            }

            /// What was reported, and how much was lost.
            pub fn take(&mut self) -> (Vec<$of>, u64) {
                match *self {}
            }

            /// Stops for a while.
            pub fn pause(&mut self) {
                match *self {}
            }

            /// Goes on.
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
    /// Nothing: it cannot be had.
    BlockTracing, BlockIo, (disks: &BTreeSet<u32>)
}
absent! {
    /// Nothing: it cannot be had.
    TargetTracing, TargetCommand, ()
}
