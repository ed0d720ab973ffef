//! EXTENDED COPY: valid and invalid parameter lists.

use super::*;
use crate::scsi::{CopySegment, Executed, MediumOperation, SenseKey};

/// LUN 0 with 100 blocks of 512 bytes, and LUN 1 with 100 of 4096.
fn two_units() -> TargetDevice {
    TargetDevice::new(vec![unit(0, 100, 512), unit(1, 100, 4096)]).expect("two units")
}

/// The CSCD descriptor of a unit (SPC-4 6.4.5.1), with the NAA name of page 83h.
fn cscd(identity: &Identity) -> Vec<u8> {
    let mut descriptor = vec![0xe4, 0, 0, 0, 0x01, 0x03, 0, 8];
    descriptor.extend(identity.naa().to_be_bytes());
    descriptor.resize(32, 0);
    descriptor
}

/// Block to block: `blocks` of the source.
fn segment((from, to): (u8, u8), (from_lba, to_lba): (u8, u8), blocks: u16) -> Vec<u8> {
    let mut descriptor = vec![0x02, 0, 0, 24, 0, from, 0, to, 0, 0];
    descriptor.extend(blocks.to_be_bytes());
    for lba in [from_lba, to_lba] {
        descriptor.extend(u64::from(lba).to_be_bytes());
    }
    descriptor
}

fn list(targets: &[u8], segments: &[u8]) -> Vec<u8> {
    let mut list = vec![0; 16];
    list[2..4].copy_from_slice(&(targets.len() as u16).to_be_bytes());
    list[8..12].copy_from_slice(&(segments.len() as u32).to_be_bytes());
    [&list, targets, segments].concat()
}

fn execute(device: &TargetDevice, nexus: &mut Nexus, list: Vec<u8>) -> Executed {
    let mut cdb = padded(&[0x83]);
    cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
    let announced = list.len() as u32;
    let decoded = device.decode(Lun::default(), &cdb, nexus);
    assert!(
        matches!(decoded, Decoded::Store { unit: 0, .. }),
        "{decoded:?}"
    );
    device.execute(0, &cdb, (list, announced), nexus)
}

/// Key, ASC and ASCQ of an invalid list.
fn wrong(list: Vec<u8>) -> (SenseKey, AdditionalSense) {
    let device = two_units();
    match execute(&device, &mut nexus(&device), list) {
        Executed::Answer(Answer {
            sense: Some(sense), ..
        }) => (sense.key, sense.additional),
        other => panic!("no CHECK CONDITION: {other:?}"),
    }
}

fn cscds(device: &TargetDevice) -> Vec<u8> {
    let units = device.units().iter();
    units.flat_map(|unit| cscd(&unit.identity)).collect()
}

#[test]
fn segments_come_out_in_bytes() {
    let device = two_units();
    let mut nexus = nexus(&device);
    let segments = [segment((0, 1), (16, 2), 8), segment((1, 1), (0, 1), 0)].concat();
    let Executed::Medium(operation) =
        execute(&device, &mut nexus, list(&cscds(&device), &segments))
    else {
        panic!("no copy");
    };
    let MediumOperation::Copy(job) = *operation else {
        panic!("other work: {operation:?}");
    };
    // 8 blocks of 512 bytes are one block of the destination; no blocks are no segment.
    let expected = CopySegment {
        from_unit: 0,
        from_bytes: 16 * 512,
        to_unit: 1,
        to_bytes: 2 * 4096,
        len_bytes: 4096,
    };
    assert_eq!(job.segments, [expected]);

    // RECEIVE COPY STATUS reports its progress.
    let status = |nexus: &mut Nexus| {
        let cdb = padded(&[0x84, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12]);
        good_data(device.decode(Lun::default(), &cdb, nexus))
    };
    assert_eq!(status(&mut nexus)[4], 0, "in progress");
    job.progress.copied(4096);
    job.progress.segment_done();
    job.progress.end(true);
    assert_eq!(status(&mut nexus), [0, 0, 0, 8, 1, 0, 1, 1, 0, 0, 0, 4]);
}

#[test]
fn what_a_list_may_not_say() {
    let aborted = |additional| (SenseKey::CopyAborted, additional);
    let illegal = |additional| (SenseKey::IllegalRequest, additional);
    let targets = cscds(&two_units());
    let mut foreign = targets.clone();
    foreign[15] ^= 1;
    let mut kind = targets.clone();
    kind[0] = 0xe0;
    let good = segment((0, 1), (0, 0), 8);
    let mut to_tape = good.clone();
    to_tape[0] = 0x00;
    let mut short = list(&targets, &good);
    short.truncate(short.len() - 1);
    let mut inline = list(&targets, &good);
    inline[15] = 1;
    let unreachable = aborted(AdditionalSense::COPY_TARGET_NOT_REACHABLE);
    for (list, expected) in [
        // An unknown unit, and a descriptor that is not in the list.
        (list(&foreign, &good), unreachable),
        (list(&targets, &segment((0, 2), (0, 0), 8)), unreachable),
        // Beyond the end of the source, and of the destination.
        (
            list(&targets, &segment((0, 1), (93, 0), 8)),
            aborted(AdditionalSense::NONE),
        ),
        (
            list(&targets, &segment((0, 1), (0, 100), 8)),
            aborted(AdditionalSense::NONE),
        ),
        // Less than a block of the destination.
        (
            list(&targets, &segment((0, 1), (0, 0), 7)),
            aborted(AdditionalSense::INEXACT_SEGMENT),
        ),
        (
            list(&kind, &good),
            illegal(AdditionalSense::UNSUPPORTED_TARGET_DESCRIPTOR),
        ),
        (
            list(&targets, &to_tape),
            illegal(AdditionalSense::UNSUPPORTED_SEGMENT_DESCRIPTOR),
        ),
        (
            list(&targets[1..], &good),
            illegal(AdditionalSense::PARAMETER_LIST_LENGTH),
        ),
        (
            list(&targets.repeat(9), &good),
            illegal(AdditionalSense::TOO_MANY_TARGET_DESCRIPTORS),
        ),
        (short, illegal(AdditionalSense::PARAMETER_LIST_LENGTH)),
        (
            inline,
            illegal(AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST),
        ),
    ] {
        let said = wrong(list.clone());
        assert_eq!(said, expected, "{list:?}");
    }
}
