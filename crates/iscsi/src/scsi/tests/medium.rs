//! READ, WRITE and SYNCHRONIZE CACHE decode to byte ranges, and COMPARE AND WRITE takes exactly the data of its length.

use super::*;
use crate::scsi::{Executed, MediumOperation};

fn read(offset_bytes: u64, len_bytes: u32, fua: bool) -> StoreOperation {
    StoreOperation::Read {
        offset_bytes,
        len_bytes,
        fua,
    }
}

fn write(offset_bytes: u64, len_bytes: u32, fua: bool) -> StoreOperation {
    StoreOperation::Write {
        offset_bytes,
        len_bytes,
        fua,
    }
}

fn flush(offset_bytes: u64, len_bytes: u64, immediate: bool) -> StoreOperation {
    StoreOperation::Flush {
        offset_bytes,
        len_bytes,
        immediate,
    }
}

#[test]
fn six_bytes() {
    let device = device();
    let at = |cdb: &[u8]| operation(&device, cdb);
    assert_eq!(
        at(&[0x08, 0x01, 0x02, 0x03, 4, 0]),
        read(0x10203 * 512, 4 * 512, false)
    );
    assert_eq!(
        at(&[0x0a, 0x1f, 0xff, 0xff, 1, 0]),
        write(0x1f_ffff * 512, 512, false)
    );
    // The three high bits of byte 1 are not part of the LBA, and a length of 0 means 256 blocks.
    assert_eq!(at(&[0x08, 0xe0, 0, 1, 0, 0]), read(512, 256 * 512, false));
}

#[test]
fn ten_twelve_and_sixteen_bytes() {
    let device = device_of(unit(0, 1 << 40, 4096));
    let at = |cdb: &[u8]| operation(&device, cdb);
    assert_eq!(
        at(&[0x28, 0x10, 1, 2, 3, 4, 0, 0, 8, 0]),
        read(0x0102_0304 * 4096, 8 * 4096, false),
        "DPO needs no action"
    );
    assert_eq!(
        at(&[0x2a, 0x18, 0, 0, 0, 1, 0, 1, 0, 0]),
        write(4096, 256 * 4096, true)
    );
    assert_eq!(
        at(&[0xa8, 0x08, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0]),
        read(4096, 256 * 4096, true)
    );
    assert_eq!(
        at(&[0xaa, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0]),
        write(0xffff_ffff * 4096, 4096, false)
    );
    assert_eq!(
        at(&[0x88, 0, 0, 0, 0, 0x12, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0]),
        read(0x12_0000_0003 * 4096, 2 * 4096, false)
    );
    assert_eq!(
        at(&[0x8a, 0x08, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]),
        write(0, 4096, true)
    );
}

#[test]
fn ranges_end_with_the_unit() {
    let device = device_of(unit(0, 100, 512));
    let out = illegal(AdditionalSense::LBA_OUT_OF_RANGE);
    assert_eq!(
        operation(&device, &[0x28, 0, 0, 0, 0, 99, 0, 0, 1, 0]),
        read(99 * 512, 512, false)
    );
    for cdb in [
        &[0x28, 0, 0, 0, 0, 99, 0, 0, 2, 0][..],
        &[0x28, 0, 0, 0, 0, 100, 0, 0, 1, 0],
        &[0x28, 0, 0, 0, 0, 100, 0, 0, 0, 0], // no blocks, but an LBA out of range
        &[0x2a, 0, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0],
        &[0x08, 0, 0, 0, 0, 0], // 256 blocks
        &[
            0x88, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0,
        ],
        &[0x35, 0, 0, 0, 0, 50, 0, 0, 51, 0],
        &[0x91, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ] {
        assert_eq!(sense(&device, cdb), out, "{cdb:02x?}");
    }
}

#[test]
fn no_blocks_are_nothing_to_do() {
    for opcode in [0x28, 0x2a, 0xa8, 0xaa, 0x88, 0x8a] {
        assert_eq!(data(&device(), &[opcode]), [0; 0]);
    }
}

#[test]
fn protection_information_is_refused() {
    for opcode in [0x28, 0x2a, 0xa8, 0xaa, 0x88, 0x8a] {
        let refused = sense(&device(), &[opcode, 0x20]);
        assert_eq!(refused, Sense::invalid_field(1, Some(7)));
    }
}

#[test]
fn no_transfer_exceeds_the_maximum() {
    let device = device_of(unit(0, 1 << 20, 512));
    let most = 16 << 20;
    assert_eq!(
        operation(&device, &[0xa8, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0]),
        read(0, most, false)
    );
    assert_eq!(
        sense(&device, &[0xa8, 0, 0, 0, 0, 0, 0, 0, 0x80, 1, 0, 0]),
        Sense::invalid_field(6, None)
    );
    assert_eq!(
        sense(
            &device,
            &[0x8a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 1, 0, 0]
        ),
        Sense::invalid_field(10, None)
    );
}

#[test]
fn synchronize_cache_takes_a_range_or_the_rest() {
    let device = device_of(unit(0, 100, 512));
    let at = |cdb: &[u8]| operation(&device, cdb);
    assert_eq!(
        at(&[0x35, 0, 0, 0, 0, 10, 0, 0, 5, 0]),
        flush(5120, 2560, false)
    );
    assert_eq!(at(&[0x35, 0x02]), flush(0, 51_200, true));
    assert_eq!(
        at(&[0x91, 0, 0, 0, 0, 0, 0, 0, 0, 90]),
        flush(90 * 512, 5120, false)
    );
}

/// SBC-3 5.3: the Data-Out Buffer holds twice NUMBER OF LOGICAL BLOCKS. For every number, every announced length of
/// whole blocks and the neighbours of the correct one.
#[test]
fn compare_and_write_takes_twice_its_number_of_blocks() {
    const BLOCK_BYTES: u32 = 512;
    let device = device();
    let mut nexus = nexus(&device);
    for number in 0..=255 {
        let mut cdb = padded(&[0x89]);
        cdb[13] = number;
        let right = 2 * u32::from(number) * BLOCK_BYTES;
        let beside = [right.saturating_sub(1), right + 1];
        let whole = (0..=514).map(|blocks| blocks * BLOCK_BYTES);
        for announced in whole.chain(beside).chain([u32::MAX]) {
            let decoded = device.decode(Lun::default(), &cdb, &mut nexus);
            let Decoded::Store { operation, .. } = decoded else {
                panic!("{decoded:?}");
            };
            let takes = match operation {
                StoreOperation::Deferred { data_out_bytes, .. } => data_out_bytes,
                other => panic!("{other:?}"),
            };
            let data = vec![0; takes.min(announced) as usize];
            let executed = device.execute(0, &cdb, (data, announced), &mut nexus);
            let as_it_should = match executed {
                Executed::Medium(operation) => {
                    announced == right
                        && matches!(*operation, MediumOperation::CompareAndWrite { data, .. }
                            if data.len() == right as usize)
                }
                Executed::Answer(answer) if announced == right => {
                    right == 0 && answer.status == ScsiStatus::Good
                }
                Executed::Answer(answer) => answer.sense == Some(Sense::invalid_field(13, None)),
            };
            assert!(as_it_should, "{number} blocks, {announced} bytes announced");
        }
    }
}
