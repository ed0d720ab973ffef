//! How numbers of the standard become types.

/// An enum of codes that later versions of the standard may extend: every other value is kept as `Other`.
macro_rules! open_code {
    ($(#[$meta:meta])* $name:ident: $int:ty {
        $($(#[$variant_meta:meta])* $variant:ident = $value:literal $text:literal,)+
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[doc = concat!("`", $text, "`.")] $(#[$variant_meta])* $variant,)+
            /// A value that is not known here.
            Other($int),
        }

        impl $name {
            /// The meaning of a value on the wire.
            #[must_use]
            pub const fn from_wire(value: $int) -> Self {
                match value {
                    $($value => $name::$variant,)+
                    other => $name::Other(other),
                }
            }

            /// The value on the wire.
            #[must_use]
            pub const fn to_wire(self) -> $int {
                match self {
                    $($name::$variant => $value,)+
                    $name::Other(other) => other,
                }
            }
        }

        /// By the standard's name, or as a number.
        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self {
                    $($name::$variant => f.write_str($text),)+
                    $name::Other(other) => write!(f, "{other:#x}"),
                }
            }
        }
    };
}

/// A set of flags; unknown ones are kept.
macro_rules! flags {
    ($(#[$meta:meta])* $name:ident: $int:ty {
        $($(#[$flag_meta:meta])* $flag:ident = $bit:literal,)+
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name($int);

        impl $name {
            /// No flag.
            pub const NONE: Self = Self(0);
            $($(#[$flag_meta])* pub const $flag: Self = Self(1 << $bit);)+

            /// The flags on the wire.
            #[must_use]
            pub const fn from_wire(value: $int) -> Self {
                Self(value)
            }

            /// The value on the wire.
            #[must_use]
            pub const fn to_wire(self) -> $int {
                self.0
            }

            /// Whether all of `flags` are set.
            #[must_use]
            pub const fn has(self, flags: Self) -> bool {
                self.0 & flags.0 == flags.0
            }

            /// These flags and `flags`, the latter if `condition` holds.
            #[must_use]
            pub const fn with_if(self, condition: bool, flags: Self) -> Self {
                if condition { self.with(flags) } else { self }
            }

            /// These flags and `flags`.
            #[must_use]
            pub const fn with(self, flags: Self) -> Self {
                Self(self.0 | flags.0)
            }

            /// These flags less `flags`.
            #[must_use]
            pub const fn without(self, flags: Self) -> Self {
                Self(self.0 & !flags.0)
            }
        }
    };
}
