//! Payloads about what is allocated (`NBD_CMD_BLOCK_STATUS`).

use super::bytes::Fields;
use super::{ParseError, StateFlags};

/// Servers put no more descriptors into a chunk ("Structured reply types").
pub const MAX_DESCRIPTORS: usize = 1 << 20;

/// An extent and its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// Its length; never 0. 32 bits in structured replies.
    pub length_bytes: u64,
    /// Its state; 32 bits in structured replies.
    pub state: StateFlags,
}

/// The payload of `NBD_REPLY_TYPE_BLOCK_STATUS` and `NBD_REPLY_TYPE_BLOCK_STATUS_EXT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The metadata context.
    pub context_id: u32,
    /// Consecutive extents from the request's offset on; at least one.
    pub descriptors: Vec<Descriptor>,
}

impl Status {
    /// Length of its header in structured replies.
    const HEADER_BYTES: usize = 4;

    /// Length of its header in extended replies.
    const EXTENDED_HEADER_BYTES: usize = 8;

    /// Length of a payload with so many descriptors.
    #[must_use]
    pub const fn payload_bytes(is_extended: bool, descriptors: usize) -> usize {
        if is_extended {
            Self::EXTENDED_HEADER_BYTES + Self::descriptor_bytes(true) * descriptors
        } else {
            Self::HEADER_BYTES + Self::descriptor_bytes(false) * descriptors
        }
    }

    /// Length of a descriptor.
    #[must_use]
    pub const fn descriptor_bytes(is_extended: bool) -> usize {
        if is_extended { 16 } else { 8 }
    }

    /// Parses it.
    ///
    /// # Errors
    /// [`ParseError::Length`], also when there is no descriptor; [`ParseError::Value`] for an empty extent.
    pub fn parse(is_extended: bool, payload: &[u8]) -> Result<Self, ParseError> {
        let message = "what is allocated";
        let bytes = payload.len();
        let length = ParseError::Length { message, bytes };
        let mut fields = Fields(payload);
        let context_id = fields.u32().ok_or(length)?;
        let descriptor_bytes = Self::descriptor_bytes(is_extended);
        let count = if is_extended {
            fields.u32().ok_or(length)? as usize
        } else {
            fields.0.len() / descriptor_bytes
        };
        if count == 0 || bytes != Self::payload_bytes(is_extended, count) {
            return Err(length);
        }
        let mut descriptors = Vec::with_capacity(count);
        for _ in 0..count {
            let (length_bytes, state) = if is_extended {
                (fields.u64(), fields.u64())
            } else {
                (fields.u32().map(u64::from), fields.u32().map(u64::from))
            };
            let (length_bytes, state) = length_bytes.zip(state).ok_or(length)?;
            if length_bytes == 0 {
                return Err(ParseError::Value {
                    message,
                    field: "an extent's length",
                    value: 0,
                });
            }
            descriptors.push(Descriptor {
                length_bytes,
                state: StateFlags::from_wire(state),
            });
        }
        Ok(Status {
            context_id,
            descriptors,
        })
    }

    /// Appends it. Structured replies have 32 bits of lengths and states.
    pub fn emit(&self, is_extended: bool, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.context_id.to_be_bytes());
        if is_extended {
            to.extend_from_slice(&(self.descriptors.len() as u32).to_be_bytes());
        }
        for descriptor in &self.descriptors {
            for field in [descriptor.length_bytes, descriptor.state.to_wire()] {
                if is_extended {
                    to.extend_from_slice(&field.to_be_bytes());
                } else {
                    to.extend_from_slice(&(field as u32).to_be_bytes());
                }
            }
        }
    }
}

/// The payload of an extended `NBD_CMD_BLOCK_STATUS` that asks about one context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusQuery {
    /// How much of the export it asks about.
    pub length_bytes: u64,
    /// The metadata context.
    pub context_id: u32,
}

impl StatusQuery {
    /// Its length.
    pub const BYTES: usize = 12;

    /// Parses it; `None` when it has another length, so asks about no context or several.
    #[must_use]
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let mut fields = Fields(payload);
        let query = StatusQuery {
            length_bytes: fields.u64()?,
            context_id: fields.u32()?,
        };
        fields.0.is_empty().then_some(query)
    }

    /// As bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        super::bytes::put(&mut bytes, 0, self.length_bytes.to_be_bytes());
        super::bytes::put(&mut bytes, 8, self.context_id.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn round_trips(
            context_id: u32,
            extents in proptest::collection::vec((1..=u32::MAX, 0..8u32), 1..9),
        ) {
            let descriptors = extents
                .iter()
                .map(|(length, state)| Descriptor {
                    length_bytes: u64::from(*length),
                    state: StateFlags::from_wire(u64::from(*state)),
                })
                .collect();
            let mut status = Status { context_id, descriptors };
            for is_extended in [false, true] {
                let mut payload = Vec::new();
                status.emit(is_extended, &mut payload);
                let bytes = Status::payload_bytes(is_extended, status.descriptors.len());
                prop_assert_eq!(payload.len(), bytes);
                prop_assert_eq!(Status::parse(is_extended, &payload), Ok(status.clone()));
                payload.push(0);
                prop_assert!(Status::parse(is_extended, &payload).is_err());
                // Only extended replies have room for this.
                status.descriptors[0].length_bytes |= 1 << 40;
            }
            let length_bytes = status.descriptors[0].length_bytes;
            let query = StatusQuery { length_bytes, context_id };
            prop_assert_eq!(StatusQuery::parse(&query.emit()), Some(query));
        }
    }

    #[test]
    fn a_count_is_no_reason_to_take_memory() {
        let claim = [0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff];
        assert!(matches!(
            Status::parse(true, &claim),
            Err(ParseError::Length { bytes: 8, .. })
        ));
        assert!(Status::parse(false, &claim[..4]).is_err());
        assert!(StatusQuery::parse(&[0; 16]).is_none());
    }
}
