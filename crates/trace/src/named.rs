//! Types with a fixed set of names.

/// Defines an enum with names: `ALL`, `name`, `from_name`, and the field implementation. In memory a value is its
/// index; in files, JSON and output it is its name.
macro_rules! named {
    ($(#[$meta:meta])* $type:ident { $($(#[$doc:meta])* $value:ident = $name:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $type {
            $($(#[$doc])* $value),*
        }

        impl $type {
            const NAMES: &[&str] = &[$($name),*];

            /// Every value in the order of definition.
            pub const ALL: [$type; Self::NAMES.len()] = [$($type::$value),*];

            /// Its name in files and output.
            #[must_use]
            pub const fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }

            /// The value with that name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.name() == name)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                let unknown = || serde::de::Error::unknown_variant(&name, Self::NAMES);
                Self::from_name(&name).ok_or_else(unknown)
            }
        }

        impl $crate::field::Field for $type {
            const BLANK: Self = Self::ALL[0];
            const PARTS: [u32; 3] = [u8::BITS, 0, 0];
            #[inline]
            fn parts(self) -> [u64; 3] {
                [self as u64, 0, 0]
            }
            fn of_parts([place, ..]: [u64; 3]) -> Self {
                Self::ALL[usize::from(place as u8)]
            }
            const CELL: $crate::field::Cell =
                $crate::field::Cell::Text($crate::names::Vocabulary::Fixed(Self::NAMES));
            const JSON: Option<$crate::field::Json> = Some($crate::field::Json::Names(Self::NAMES));
            fn serialize<S: serde::Serializer>(self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    };
}

pub(crate) use named;
