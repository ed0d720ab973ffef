//! The device server as a whole: known answers, and properties over all CDBs.

mod answers;
mod copies;
mod medium;
mod properties;
mod reservations;

use super::{
    AdditionalSense, Answer, Cdb, Decoded, Geometry, Identity, InitiatorPort, LogicalUnit, Nexus,
    Sense, StoreOperation, TargetDevice,
};
use crate::wire::{Lun, ScsiStatus};

const NAME: &str = "iqn.2026-01.net.example:disk";

/// Unit `number` with `blocks` blocks.
fn unit(number: u16, blocks: u64, block_bytes: u32) -> LogicalUnit {
    LogicalUnit {
        identity: Identity {
            target_name: NAME.to_owned(),
            portal_group_tag: 1,
            number,
        },
        geometry: Geometry::new(blocks * u64::from(block_bytes), block_bytes, 1 << 20)
            .expect("a good geometry"),
        write_cache: true,
        read_only: false,
        thin: false,
        keeps_reservations: false,
    }
}

/// A nexus of `device`, for the tests' usual initiator.
pub(super) fn nexus(device: &TargetDevice) -> Nexus {
    device.nexus(port("iqn.2026-01.net.example:one"))
}

pub(super) fn port(name: &str) -> InitiatorPort {
    InitiatorPort {
        name: name.to_owned(),
        isid: [0x80, 0, 0, 0, 0, 1],
    }
}

/// A device of one unit, LUN 0, of 1 GiB in blocks of 512 bytes.
pub(super) fn device() -> TargetDevice {
    device_of(unit(0, 1 << 21, 512))
}

/// The same, thin.
pub(super) fn thin_device() -> TargetDevice {
    device_of(LogicalUnit {
        thin: true,
        ..unit(0, 1 << 21, 512)
    })
}

fn device_of(unit: LogicalUnit) -> TargetDevice {
    TargetDevice::new(vec![unit]).expect("one unit")
}

/// `bytes`, padded to a CDB.
fn padded(bytes: &[u8]) -> Cdb {
    let mut cdb = [0; 16];
    cdb[..bytes.len()].copy_from_slice(bytes);
    cdb
}

/// The decoding of `cdb` at LUN 0 by `device`, with nothing pending.
pub(super) fn decode(device: &TargetDevice, cdb: &[u8]) -> Decoded {
    device.decode(
        Lun::default(),
        &padded(cdb),
        &mut device.nexus(port("iqn.2026-01.net.example:any")),
    )
}

/// The data of a response that must be GOOD.
pub(super) fn data(device: &TargetDevice, cdb: &[u8]) -> Vec<u8> {
    good_data(decode(device, cdb))
}

fn good_data(decoded: Decoded) -> Vec<u8> {
    match decoded {
        Decoded::Answer(Answer {
            status: ScsiStatus::Good,
            data,
            sense: None,
        }) => data,
        other => panic!("no GOOD answer: {other:?}"),
    }
}

/// The sense data of a response that must be CHECK CONDITION.
pub(super) fn sense(device: &TargetDevice, cdb: &[u8]) -> Sense {
    bad_sense(decode(device, cdb))
}

fn bad_sense(decoded: Decoded) -> Sense {
    match decoded {
        Decoded::Answer(Answer {
            status: ScsiStatus::CheckCondition,
            data,
            sense: Some(sense),
        }) if data.is_empty() => sense,
        other => panic!("no CHECK CONDITION: {other:?}"),
    }
}

/// The expected store operation.
fn operation(device: &TargetDevice, cdb: &[u8]) -> StoreOperation {
    match decode(device, cdb) {
        Decoded::Store { unit: 0, operation } => operation,
        other => panic!("no store operation: {other:?}"),
    }
}

fn illegal(additional: AdditionalSense) -> Sense {
    Sense::illegal(additional)
}
