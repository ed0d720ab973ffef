//! The data of `NBD_REP_INFO`.

use super::bytes::Fields;
use super::string::string;
use super::{BlockSizes, ParseError, SizeAndFlags};

const MESSAGE: &str = "NBD_REP_INFO";

open_code! {
    /// Kinds of facts about an export (`NBD_REP_INFO` of "Option reply types").
    InfoCode: u16 {
        /// Size and transmission flags.
        Export = 0 "NBD_INFO_EXPORT",
        /// The name that the server has for it.
        Name = 1 "NBD_INFO_NAME",
        /// What it is, for a human being.
        Description = 2 "NBD_INFO_DESCRIPTION",
        /// Size constraints.
        BlockSize = 3 "NBD_INFO_BLOCK_SIZE",
    }
}

/// A fact about an export: the data of `NBD_REP_INFO`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Info<'a> {
    /// `NBD_INFO_EXPORT`.
    Export(SizeAndFlags),
    /// `NBD_INFO_NAME`.
    Name(&'a str),
    /// `NBD_INFO_DESCRIPTION`.
    Description(&'a str),
    /// `NBD_INFO_BLOCK_SIZE`, unchecked.
    BlockSize(BlockSizes),
    /// A fact that is not known here, which clients ignore.
    Other(u16),
}

impl<'a> Info<'a> {
    /// Parses it.
    ///
    /// # Errors
    /// [`ParseError::Length`] and [`ParseError::String`].
    pub fn parse(data: &'a [u8]) -> Result<Self, ParseError> {
        let length = ParseError::Length {
            message: MESSAGE,
            bytes: data.len(),
        };
        let mut fields = Fields(data);
        let code = InfoCode::from_wire(fields.u16().ok_or(length)?);
        Ok(match code {
            InfoCode::Export => Info::Export(SizeAndFlags::parse(
                fields.0.try_into().map_err(|_| length)?,
            )),
            InfoCode::Name => Info::Name(string(MESSAGE, fields.0)?),
            InfoCode::Description => Info::Description(string(MESSAGE, fields.0)?),
            InfoCode::BlockSize => {
                let sizes = (fields.u32(), fields.u32(), fields.u32(), fields.0);
                let (Some(minimum_bytes), Some(preferred_bytes), Some(maximum_bytes), []) = sizes
                else {
                    return Err(length);
                };
                Info::BlockSize(BlockSizes {
                    minimum_bytes,
                    preferred_bytes,
                    maximum_bytes,
                })
            }
            InfoCode::Other(code) => Info::Other(code),
        })
    }

    /// Appends it.
    pub fn emit(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.code().to_wire().to_be_bytes());
        match self {
            Info::Export(export) => to.extend_from_slice(&export.emit()),
            Info::Name(string) | Info::Description(string) => {
                to.extend_from_slice(string.as_bytes());
            }
            Info::BlockSize(sizes) => {
                for bytes in [
                    sizes.minimum_bytes,
                    sizes.preferred_bytes,
                    sizes.maximum_bytes,
                ] {
                    to.extend_from_slice(&bytes.to_be_bytes());
                }
            }
            Info::Other(_) => {}
        }
    }

    /// Which fact it is.
    #[must_use]
    pub const fn code(&self) -> InfoCode {
        match self {
            Info::Export(_) => InfoCode::Export,
            Info::Name(_) => InfoCode::Name,
            Info::Description(_) => InfoCode::Description,
            Info::BlockSize(_) => InfoCode::BlockSize,
            Info::Other(code) => InfoCode::Other(*code),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::TransmissionFlags;

    fn round_trip(info: Info<'_>) {
        let mut data = Vec::new();
        info.emit(&mut data);
        assert_eq!(Info::parse(&data), Ok(info));
        if matches!(info, Info::Export(_) | Info::BlockSize(_)) {
            data.push(0);
            assert!(Info::parse(&data).is_err());
            data.truncate(data.len() - 2);
            assert!(Info::parse(&data).is_err());
        }
    }

    proptest! {
        #[test]
        fn round_trips(size_bytes: u64, flags: u16, sizes: [u32; 3], text in "[^\0]{0,40}") {
            let flags = TransmissionFlags::from_wire(flags);
            round_trip(Info::Export(SizeAndFlags { size_bytes, flags }));
            round_trip(Info::Name(&text));
            round_trip(Info::Description(&text));
            round_trip(Info::BlockSize(BlockSizes {
                minimum_bytes: sizes[0],
                preferred_bytes: sizes[1],
                maximum_bytes: sizes[2],
            }));
            round_trip(Info::Other(77));
        }
    }
}
