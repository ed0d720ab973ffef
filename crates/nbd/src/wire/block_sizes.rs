//! Block sizes of an export ("Size constraints").

use super::MAX_PAYLOAD_BYTES;

/// The lengths and offsets that requests to an export may have ("Size constraints").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths are multiples of it, bytes: a power of two up to 64 KiB.
    pub minimum_bytes: u32,
    /// Aligned requests of it are served well, bytes: a power of two, at least 512 and the minimum.
    pub preferred_bytes: u32,
    /// The longest read or write, bytes: at least the preferred size.
    pub maximum_bytes: u32,
}

/// What is wrong with block sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BlockSizesError {
    /// The minimum.
    #[error("minimum block size {0} is no power of two up to 65536")]
    Minimum(u32),
    /// The preferred size.
    #[error(
        "preferred block size {preferred_bytes} is no power of two of at least 512 and of the minimum {minimum_bytes}"
    )]
    Preferred {
        /// The preferred size.
        preferred_bytes: u32,
        /// The minimum.
        minimum_bytes: u32,
    },
    /// The maximum.
    #[error(
        "maximum payload {maximum_bytes} is less than the preferred block size {preferred_bytes}"
    )]
    Maximum {
        /// The maximum.
        maximum_bytes: u32,
        /// The preferred size.
        preferred_bytes: u32,
    },
}

impl BlockSizes {
    /// What holds where a server says nothing.
    pub const DEFAULT: Self = BlockSizes {
        minimum_bytes: 1,
        preferred_bytes: 4096,
        maximum_bytes: MAX_PAYLOAD_BYTES,
    };

    /// Holds the sizes to the standard.
    ///
    /// # Errors
    /// [`BlockSizesError`].
    pub const fn check(&self) -> Result<(), BlockSizesError> {
        let BlockSizes {
            minimum_bytes,
            preferred_bytes,
            maximum_bytes,
        } = *self;
        if !minimum_bytes.is_power_of_two() || minimum_bytes > 1 << 16 {
            return Err(BlockSizesError::Minimum(minimum_bytes));
        }
        if !preferred_bytes.is_power_of_two()
            || preferred_bytes < 512
            || preferred_bytes < minimum_bytes
        {
            return Err(BlockSizesError::Preferred {
                preferred_bytes,
                minimum_bytes,
            });
        }
        if maximum_bytes < preferred_bytes {
            return Err(BlockSizesError::Maximum {
                maximum_bytes,
                preferred_bytes,
            });
        }
        Ok(())
    }

    /// Whether an offset or a length is a multiple of the minimum.
    #[must_use]
    pub fn is_aligned(&self, bytes: u64) -> bool {
        bytes.is_multiple_of(u64::from(self.minimum_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(minimum: u32, preferred: u32, maximum: u32) -> Result<(), BlockSizesError> {
        BlockSizes {
            minimum_bytes: minimum,
            preferred_bytes: preferred,
            maximum_bytes: maximum,
        }
        .check()
    }

    #[test]
    fn sizes_are_held_to_the_standard() {
        assert_eq!(BlockSizes::DEFAULT.check(), Ok(()));
        assert_eq!(checked(1 << 16, 1 << 16, u32::MAX), Ok(()));
        for minimum in [0, 3, 1 << 17] {
            assert_eq!(
                checked(minimum, 1 << 20, 1 << 20),
                Err(BlockSizesError::Minimum(minimum))
            );
        }
        for preferred in [0, 256, 1000, 2048] {
            let error = checked(4096, preferred, 1 << 20).unwrap_err();
            assert!(matches!(error, BlockSizesError::Preferred { .. }));
        }
        let error = checked(1, 4096, 4095).unwrap_err();
        assert!(matches!(error, BlockSizesError::Maximum { .. }));
    }
}
