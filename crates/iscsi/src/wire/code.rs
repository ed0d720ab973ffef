//! Enums of the standard's one-byte and two-byte codes.

/// An enum of codes that a peer may extend: every other value is kept as `Other`.
macro_rules! open_code {
    ($(#[$meta:meta])* $name:ident: $int:ty {
        $($(#[$variant_meta:meta])* $variant:ident = $value:literal,)+
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
            /// A reserved or vendor-specific value.
            Other($int),
        }

        impl $name {
            /// The meaning of a value on the wire.
            #[inline]
            #[must_use]
            pub const fn from_wire(value: $int) -> Self {
                match value {
                    $($value => $name::$variant,)+
                    other => $name::Other(other),
                }
            }

            /// The value on the wire.
            #[inline]
            #[must_use]
            pub const fn to_wire(self) -> $int {
                match self {
                    $($name::$variant => $value,)+
                    $name::Other(other) => other,
                }
            }
        }
    };
}

/// An enum of codes that treats all other values as errors.
macro_rules! closed_code {
    ($(#[$meta:meta])* $name:ident: $int:ty {
        $($(#[$variant_meta:meta])* $variant:ident = $value:literal,)+
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $name {
            /// The meaning of a value on the wire; `None` for an undefined one.
            #[inline]
            #[must_use]
            pub const fn from_wire(value: $int) -> Option<Self> {
                match value {
                    $($value => Some($name::$variant),)+
                    _ => None,
                }
            }

            /// The value on the wire.
            #[inline]
            #[must_use]
            pub const fn to_wire(self) -> $int {
                match self {
                    $($name::$variant => $value,)+
                }
            }
        }
    };
}
