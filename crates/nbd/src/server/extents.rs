//! What a reply may say of what is allocated.

use super::command::CONTEXT_ID;
use crate::Extent;
use crate::rules::Rules;
use crate::wire::{CommandFlags, Descriptor, MAX_DESCRIPTORS, RequestHeader, StateFlags, Status};

/// As much of `extents` as a reply to `request` may say (`NBD_REPLY_TYPE_BLOCK_STATUS` of "Structured reply types").
pub(super) fn fit(extents: &[Extent], request: &RequestHeader, rules: &Rules) -> Status {
    let export = &rules.export;
    let wanted_bytes = request.length_bytes;
    let is_one = request.flags.has(CommandFlags::REQ_ONE);
    let to_end_bytes = export.size_bytes - request.offset_bytes;
    let bound_bytes = if is_one { wanted_bytes } else { to_end_bytes };
    let longest_bytes = longest_bytes(rules);
    let most = if is_one { 1 } else { most_descriptors(rules) };
    let mut descriptors = Vec::new();
    let mut covered_bytes = 0;
    for extent in extents {
        if covered_bytes >= wanted_bytes || descriptors.len() == most {
            break;
        }
        // Whatever is cut off here lies behind the range, so no other extent follows.
        let length_bytes = extent
            .length_bytes
            .min(bound_bytes - covered_bytes)
            .min(longest_bytes);
        if length_bytes == 0 {
            continue;
        }
        descriptors.push(Descriptor {
            length_bytes,
            ..extent.descriptor()
        });
        covered_bytes += length_bytes;
    }
    if descriptors.is_empty() {
        descriptors.push(Descriptor {
            length_bytes: wanted_bytes.min(longest_bytes),
            state: StateFlags::NONE,
        });
    }
    Status {
        context_id: CONTEXT_ID,
        descriptors,
    }
}

/// The longest extent that a descriptor can have: structured replies have 32 bits for it.
fn longest_bytes(rules: &Rules) -> u64 {
    if rules.is_extended() {
        u64::MAX
    } else {
        let minimum_bytes = rules.export.block.minimum_bytes;
        u64::from(u32::MAX - u32::MAX % minimum_bytes)
    }
}

/// How many descriptors fit: a chunk is no longer than the maximum payload.
fn most_descriptors(rules: &Rules) -> usize {
    let descriptor_bytes = Status::descriptor_bytes(rules.is_extended());
    let maximum_bytes = rules.export.block.maximum_bytes as usize;
    (maximum_bytes / descriptor_bytes).min(MAX_DESCRIPTORS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{CommandCode, Replies};
    use crate::{Abilities, BlockSizes, Export};

    fn rules(replies: Replies) -> Rules {
        let export = Export {
            name: String::new(),
            description: String::new(),
            size_bytes: 1 << 40,
            block: BlockSizes {
                minimum_bytes: 512,
                preferred_bytes: 4096,
                maximum_bytes: 4096,
            },
            abilities: Abilities::default(),
        };
        Rules {
            export,
            replies,
            has_status: true,
        }
    }

    fn fitted(replies: Replies, flags: CommandFlags, wanted: u64, lengths: &[u64]) -> Vec<u64> {
        let extents: Vec<Extent> = lengths
            .iter()
            .map(|length_bytes| Extent {
                length_bytes: *length_bytes,
                is_hole: true,
                reads_zero: false,
            })
            .collect();
        let request = RequestHeader {
            flags,
            command: CommandCode::BlockStatus,
            cookie: 0,
            offset_bytes: (1 << 40) - (1 << 34),
            length_bytes: wanted,
        };
        let status = fit(&extents, &request, &rules(replies));
        status
            .descriptors
            .iter()
            .map(|one| one.length_bytes)
            .collect()
    }

    #[test]
    fn a_reply_says_what_the_protocol_has_room_for() {
        let none = CommandFlags::NONE;
        let one = CommandFlags::REQ_ONE;
        for replies in [Replies::Structured, Replies::Extended] {
            // The last extent may go beyond what was asked for; nothing follows it.
            assert_eq!(
                fitted(replies, none, 1024, &[512, 0, 1024, 512]),
                [512, 1024]
            );
            assert_eq!(fitted(replies, one, 1024, &[4096, 512]), [1024]);
            assert_eq!(fitted(replies, one, 1024, &[512, 512]), [512]);
            assert_eq!(fitted(replies, none, 1024, &[]), [1024]);
        }
        let long = [1 << 33, 1 << 35];
        let longest = u64::from(u32::MAX) - 511;
        assert_eq!(fitted(Replies::Structured, none, 1024, &long), [longest]);
        // Nothing lies beyond the export's end.
        let wanted = 1 << 34;
        assert_eq!(
            fitted(Replies::Extended, none, wanted, &long),
            [1 << 33, 1 << 33]
        );
        let many = [512; 1000];
        assert_eq!(fitted(Replies::Structured, none, wanted, &many).len(), 512);
        assert_eq!(fitted(Replies::Extended, none, wanted, &many).len(), 256);
    }
}
