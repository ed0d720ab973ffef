//! Error numbers ("Error values").

use core::fmt;

macro_rules! errnos {
    ($($(#[$meta:meta])* $variant:ident = $value:literal $name:literal $meaning:literal,)+) => {
        /// Why a request failed ("Error values").
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Errno {
            $(#[doc = concat!("`", $name, "`: ", $meaning, ".")] $(#[$meta])* $variant,)+
        }

        impl Errno {
            /// Every error number of the standard.
            pub const ALL: &[Errno] = &[$(Errno::$variant,)+];

            /// The meaning of a reply's error field: `None` when it is 0, which is success. Unknown values are taken
            /// for `NBD_EINVAL`, as the standard recommends.
            #[must_use]
            pub const fn from_wire(value: u32) -> Option<Self> {
                match value {
                    0 => None,
                    $($value => Some(Errno::$variant),)+
                    _ => Some(Errno::Inval),
                }
            }

            /// The value on the wire; never 0.
            #[must_use]
            pub const fn to_wire(self) -> u32 {
                match self {
                    $(Errno::$variant => $value,)+
                }
            }
        }

        /// The standard's name and what it means.
        impl fmt::Display for Errno {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Errno::$variant => concat!($name, " (", $meaning, ")"),)+
                })
            }
        }
    };
}

errnos! {
    /// A write to a read-only export.
    Perm = 1 "NBD_EPERM" "operation not permitted",
    Io = 5 "NBD_EIO" "input/output error",
    NoMem = 12 "NBD_ENOMEM" "cannot allocate memory",
    /// A request that is not allowed, or unknown.
    Inval = 22 "NBD_EINVAL" "invalid argument",
    /// A write beyond the export's end, too.
    NoSpc = 28 "NBD_ENOSPC" "no space left on device",
    /// A request that is too long.
    Overflow = 75 "NBD_EOVERFLOW" "value too large",
    /// A fast `NBD_CMD_WRITE_ZEROES` that would not be fast.
    NotSup = 95 "NBD_ENOTSUP" "operation not supported",
    Shutdown = 108 "NBD_ESHUTDOWN" "server is in the process of being shut down",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_standard() {
        let numbers: Vec<u32> = Errno::ALL.iter().map(|errno| errno.to_wire()).collect();
        assert_eq!(numbers, [1, 5, 12, 22, 28, 75, 95, 108]);
        for errno in Errno::ALL {
            assert_eq!(Errno::from_wire(errno.to_wire()), Some(*errno));
        }
        assert_eq!(Errno::from_wire(0), None);
        assert_eq!(Errno::from_wire(2), Some(Errno::Inval));
        assert_eq!(Errno::Io.to_string(), "NBD_EIO (input/output error)");
    }
}
