//! Disks that a server offers.

use crate::wire::{
    BlockSizes, BlockSizesError, MAX_PAYLOAD_BYTES, StringProblem, TransmissionFlags, check_string,
};

/// A disk that a server offers: a range of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// By which clients ask for it: at most 4096 bytes. An empty name is that of the default export.
    pub name: String,
    /// What it is, for a human being: at most 4096 bytes, may be empty.
    pub description: String,
    /// Its size, a multiple of the minimum block size.
    pub size_bytes: u64,
    /// The lengths and offsets that requests may have.
    pub block: BlockSizes,
    /// What it can do.
    pub abilities: Abilities,
}

/// What an export can do ("Transmission flags").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Abilities {
    /// Writes of any kind fail with `NBD_EPERM` (`NBD_FLAG_READ_ONLY`).
    pub read_only: bool,
    /// It takes `NBD_CMD_FLUSH` (`NBD_FLAG_SEND_FLUSH`).
    pub flush: bool,
    /// Writes can ask to be on stable storage before their reply (`NBD_FLAG_SEND_FUA`).
    pub fua: bool,
    /// It takes `NBD_CMD_TRIM` (`NBD_FLAG_SEND_TRIM`).
    pub trim: bool,
    /// It takes `NBD_CMD_WRITE_ZEROES` (`NBD_FLAG_SEND_WRITE_ZEROES`).
    pub write_zeroes: bool,
    /// `NBD_CMD_WRITE_ZEROES` can ask to be faster than a write, or to fail (`NBD_FLAG_SEND_FAST_ZERO`).
    pub fast_zero: bool,
    /// It takes `NBD_CMD_CACHE` (`NBD_FLAG_SEND_CACHE`).
    pub cache: bool,
    /// A flush on one connection covers what other connections wrote (`NBD_FLAG_CAN_MULTI_CONN`).
    pub multi_conn: bool,
}

/// Why an export cannot be offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// Its name.
    #[error("the name {0}")]
    Name(StringProblem),
    /// Its description.
    #[error("the description {0}")]
    Description(StringProblem),
    /// Its block sizes.
    #[error(transparent)]
    Block(#[from] BlockSizesError),
    /// Payloads that this crate would not hold.
    #[error("maximum payload {0} is more than {MAX_PAYLOAD_BYTES} bytes")]
    Maximum(u32),
    /// Clients could not reach its last bytes.
    #[error("size {size_bytes} is no multiple of the minimum block size {minimum_bytes}")]
    Size {
        /// Its size.
        size_bytes: u64,
        /// Its minimum block size.
        minimum_bytes: u32,
    },
}

impl Export {
    /// Whether it can be offered.
    ///
    /// # Errors
    /// [`ExportError`].
    pub fn check(&self) -> Result<(), ExportError> {
        check_string(self.name.as_bytes()).map_err(ExportError::Name)?;
        check_string(self.description.as_bytes()).map_err(ExportError::Description)?;
        self.block.check()?;
        if self.block.maximum_bytes > MAX_PAYLOAD_BYTES {
            return Err(ExportError::Maximum(self.block.maximum_bytes));
        }
        if !self.block.is_aligned(self.size_bytes) {
            return Err(ExportError::Size {
                size_bytes: self.size_bytes,
                minimum_bytes: self.block.minimum_bytes,
            });
        }
        Ok(())
    }

    /// Whether a range lies within it.
    #[must_use]
    pub fn contains(&self, offset_bytes: u64, length_bytes: u64) -> bool {
        let end = offset_bytes.checked_add(length_bytes);
        end.is_some_and(|end| end <= self.size_bytes)
    }
}

impl Abilities {
    /// What transmission flags say of an export.
    #[must_use]
    pub const fn from_flags(flags: TransmissionFlags) -> Self {
        Abilities {
            read_only: flags.has(TransmissionFlags::READ_ONLY),
            flush: flags.has(TransmissionFlags::SEND_FLUSH),
            fua: flags.has(TransmissionFlags::SEND_FUA),
            trim: flags.has(TransmissionFlags::SEND_TRIM),
            write_zeroes: flags.has(TransmissionFlags::SEND_WRITE_ZEROES),
            fast_zero: flags.has(TransmissionFlags::SEND_FAST_ZERO),
            cache: flags.has(TransmissionFlags::SEND_CACHE),
            multi_conn: flags.has(TransmissionFlags::CAN_MULTI_CONN),
        }
    }

    /// As transmission flags. Of a read-only export they offer no writes, and fast zeros only where there are zeros.
    #[must_use]
    pub const fn to_flags(self) -> TransmissionFlags {
        let writes = !self.read_only;
        let zeroes = writes && self.write_zeroes;
        TransmissionFlags::HAS_FLAGS
            .with_if(self.read_only, TransmissionFlags::READ_ONLY)
            .with_if(self.flush, TransmissionFlags::SEND_FLUSH)
            .with_if(self.fua, TransmissionFlags::SEND_FUA)
            .with_if(writes && self.trim, TransmissionFlags::SEND_TRIM)
            .with_if(zeroes, TransmissionFlags::SEND_WRITE_ZEROES)
            .with_if(zeroes && self.fast_zero, TransmissionFlags::SEND_FAST_ZERO)
            .with_if(self.cache, TransmissionFlags::SEND_CACHE)
            .with_if(self.multi_conn, TransmissionFlags::CAN_MULTI_CONN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export() -> Export {
        Export {
            name: "disk".into(),
            description: String::new(),
            size_bytes: 1 << 20,
            block: BlockSizes::DEFAULT,
            abilities: Abilities::default(),
        }
    }

    #[test]
    fn exports_that_clients_cannot_use_are_refused() {
        assert_eq!(export().check(), Ok(()));
        let mut long = export();
        long.name = "n".repeat(4097);
        assert!(matches!(long.check(), Err(ExportError::Name(_))));
        let mut odd = export();
        odd.block.minimum_bytes = 512;
        odd.size_bytes += 1;
        assert!(matches!(odd.check(), Err(ExportError::Size { .. })));
        let mut greedy = export();
        greedy.block.maximum_bytes += 1;
        assert!(matches!(greedy.check(), Err(ExportError::Maximum(_))));
    }

    #[test]
    fn ranges_may_end_at_the_end_but_not_behind_it() {
        assert!(export().contains(0, 1 << 20));
        assert!(!export().contains(1, 1 << 20));
        assert!(!export().contains(u64::MAX, 2));
    }

    #[test]
    fn abilities_round_trip_but_for_what_read_only_exports_cannot_do() {
        let all = Abilities {
            read_only: false,
            flush: true,
            fua: true,
            trim: true,
            write_zeroes: true,
            fast_zero: true,
            cache: true,
            multi_conn: true,
        };
        assert_eq!(Abilities::from_flags(all.to_flags()), all);
        let read_only = Abilities {
            read_only: true,
            ..all
        };
        let told = Abilities::from_flags(read_only.to_flags());
        assert!(told.read_only && told.flush && told.cache);
        assert!(!told.trim && !told.write_zeroes && !told.fast_zero);
    }
}
