//! Properties of every CDB.

use proptest::prelude::*;

use super::*;
use crate::scsi::cdb;
use crate::scsi::command::COMMANDS;

const SMALL_BLOCKS: u64 = 1 << 21;

/// CDBs of known commands with random fields, and fully random ones.
fn any_cdb() -> impl Strategy<Value = Cdb> {
    let opcodes: Vec<u8> = COMMANDS.iter().map(|command| command.opcode).collect();
    let known = (proptest::sample::select(opcodes), any::<Cdb>()).prop_map(|(opcode, mut cdb)| {
        cdb[0] = opcode;
        cdb
    });
    prop_oneof![any::<Cdb>(), known]
}

/// ALLOCATION LENGTH of the commands that have it.
fn allocation_bytes(cdb: &Cdb) -> Option<usize> {
    let wide = |at: usize| u32::from_be_bytes([cdb[at], cdb[at + 1], cdb[at + 2], cdb[at + 3]]);
    Some(match cdb[0] {
        0x03 | 0x1a => usize::from(cdb[4]),
        0x12 => usize::from(u16::from_be_bytes([cdb[3], cdb[4]])),
        0x5a => usize::from(u16::from_be_bytes([cdb[7], cdb[8]])),
        0x9e => wide(10) as usize,
        0xa0 => wide(6) as usize,
        _ => return None,
    })
}

fn check_inside(operation: StoreOperation, size_bytes: u64) -> Result<(), TestCaseError> {
    let (offset_bytes, len_bytes) = match operation {
        StoreOperation::Read {
            offset_bytes,
            len_bytes,
            ..
        }
        | StoreOperation::Write {
            offset_bytes,
            len_bytes,
            ..
        } => {
            prop_assert!(len_bytes <= Geometry::MAX_TRANSFER_BYTES);
            (offset_bytes, u64::from(len_bytes))
        }
        StoreOperation::Flush {
            offset_bytes,
            len_bytes,
            ..
        } => (offset_bytes, len_bytes),
        StoreOperation::Deferred { data_out_bytes, .. } => {
            prop_assert!(data_out_bytes <= Geometry::MAX_TRANSFER_BYTES);
            return Ok(());
        }
    };
    prop_assert!(len_bytes > 0);
    prop_assert!(offset_bytes + len_bytes <= size_bytes);
    Ok(())
}

proptest! {
    #[test]
    fn every_cdb_is_answered_within_its_bounds(
        cdb in any_cdb(),
        lun in prop_oneof![Just([0; 8]), any::<[u8; 8]>()],
        large in any::<bool>(),
    ) {
        let unit = if large { unit(0, 1 << 50, 4096) } else { unit(0, 3, 512) };
        let size_bytes = unit.geometry.blocks() * u64::from(unit.geometry.block_bytes());
        let device = device_of(unit);
        match device.decode(Lun(lun), &cdb, &mut nexus(&device)) {
            Decoded::Store { unit, operation } => {
                prop_assert_eq!(unit, 0);
                check_inside(operation, size_bytes)?;
            }
            Decoded::Answer(answer) => {
                if let Some(allocation_bytes) = allocation_bytes(&cdb) {
                    prop_assert!(answer.data.len() <= allocation_bytes);
                }
                prop_assert_eq!(answer.status == ScsiStatus::Good, answer.sense.is_none());
            }
        }
    }

    /// A short allocation length returns the beginning of the complete data.
    #[test]
    fn allocation_lengths_only_cut(mut cdb in any_cdb(), short in 0..300u16) {
        let [high, low] = short.to_be_bytes();
        let mut whole = cdb;
        match cdb[0] {
            0x12 => {
                cdb[3..5].copy_from_slice(&[high, low]);
                whole[3..5].fill(0xff);
            }
            0x5a => {
                cdb[7..9].copy_from_slice(&[high, low]);
                whole[7..9].fill(0xff);
            }
            0x9e => {
                cdb[10..14].copy_from_slice(&[0, 0, high, low]);
                whole[10..14].fill(0xff);
            }
            0x03 | 0x1a => {
                cdb[4] = low;
                whole[4] = 0xff;
            }
            _ => {}
        }
        let device = device();
        match (decode(&device, &cdb), decode(&device, &whole)) {
            (Decoded::Answer(cut), Decoded::Answer(whole)) => {
                prop_assert!(whole.data.starts_with(&cut.data));
                prop_assert_eq!(cut.sense, whole.sense);
                let allowed = allocation_bytes(&cdb).unwrap_or(usize::MAX);
                prop_assert_eq!(cut.data.len(), whole.data.len().min(allowed));
            }
            // They complete later, and contain their parameters.
            (
                Decoded::Store { operation: StoreOperation::Deferred { .. }, .. },
                Decoded::Store { operation: StoreOperation::Deferred { .. }, .. },
            ) => {}
            (cut, whole) => prop_assert_eq!(cut, whole),
        }
    }

    /// CDBs that the initiator builds decode to the requested operation.
    #[test]
    fn builders_are_understood(
        lba in prop_oneof![0..SMALL_BLOCKS, (1u64 << 32)..(1 << 34)],
        blocks in prop_oneof![1..512u32, 0xff00..0x1_0100u32],
        flag in any::<bool>(),
    ) {
        let device = device_of(unit(0, 1 << 35, 512));
        let offset_bytes = lba * 512;
        let len_bytes = blocks * 512;
        if len_bytes <= Geometry::MAX_TRANSFER_BYTES {
            prop_assert_eq!(
                operation(&device, &cdb::read(lba, blocks, flag)),
                StoreOperation::Read { offset_bytes, len_bytes, fua: flag }
            );
            prop_assert_eq!(
                operation(&device, &cdb::write(lba, blocks, flag)),
                StoreOperation::Write { offset_bytes, len_bytes, fua: flag }
            );
        }
        prop_assert_eq!(
            operation(&device, &cdb::synchronize_cache(lba, blocks, flag)),
            StoreOperation::Flush { offset_bytes, len_bytes: len_bytes.into(), immediate: flag }
        );
    }

    #[test]
    fn builders_of_questions_are_answered(bytes in 0..=255u8, page in 0..=255u8) {
        let device = device();
        let wide = u32::from(bytes);
        for cdb in [
            cdb::test_unit_ready(),
            cdb::request_sense(bytes),
            cdb::inquiry(bytes.into()),
            cdb::inquiry_page(0x83, bytes.into()),
            cdb::read_capacity_10(),
            cdb::read_capacity_16(wide),
            cdb::report_luns(wide),
        ] {
            let data = data(&device, &cdb);
            prop_assert!(cdb[0] == 0x25 || data.len() <= usize::from(bytes));
        }
        let known = [0x00, 0x80, 0x83, 0x8f, 0xb0, 0xb1, 0xb2].contains(&page);
        match decode(&device, &cdb::inquiry_page(page, 255)) {
            Decoded::Answer(answer) => prop_assert_eq!(answer.sense.is_none(), known),
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn parsers_take_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..128)) {
        use crate::scsi::{capacity::Capacity, inquiry::Inquiry, report_luns::LunList};
        let _ = Inquiry::parse(&bytes);
        let _ = Capacity::parse_10(&bytes);
        if let Ok(capacity) = Capacity::parse_16(&bytes) {
            let _ = capacity.size_bytes();
        }
        if let Ok(list) = LunList::parse(&bytes) {
            prop_assert!(list.luns.len() <= bytes.len() / 8);
        }
    }
}
