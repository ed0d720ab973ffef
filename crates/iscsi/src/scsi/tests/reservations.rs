//! Reservations between initiators, and their effects on other commands.

use std::sync::Arc;

use super::*;
use crate::scsi::{Executed, MediumOperation, ReservationChange, SenseKey};

const READ: [u8; 10] = [0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0];
const WRITE: [u8; 10] = [0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0];

/// PERSISTENT RESERVE OUT with the basic parameter list.
fn reserve_out(
    device: &TargetDevice,
    nexus: &mut Nexus,
    (action, kind): (u8, u8),
    (key, action_key): (u64, u64),
    flags: u8,
) -> Executed {
    let cdb = padded(&[0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0]);
    let mut list = [key.to_be_bytes(), action_key.to_be_bytes()].concat();
    list.extend([0, 0, 0, 0, flags, 0, 0, 0]);
    match device.decode(Lun::default(), &cdb, nexus) {
        Decoded::Store { unit, .. } => device.execute(unit, &cdb, (list, 24), nexus),
        Decoded::Answer(answer) => Executed::Answer(answer),
    }
}

fn status(executed: &Executed) -> ScsiStatus {
    match executed {
        Executed::Answer(answer) => answer.status,
        Executed::Medium(_) => ScsiStatus::Good,
    }
}

fn good(executed: &Executed) {
    assert_eq!(status(executed), ScsiStatus::Good, "{executed:?}");
}

fn conflicts(executed: &Executed) {
    assert_eq!(status(executed), ScsiStatus::ReservationConflict);
}

/// Whether `cdb` reaches the store.
fn passes(device: &TargetDevice, nexus: &mut Nexus, cdb: &[u8]) -> bool {
    match device.decode(Lun::default(), &padded(cdb), nexus) {
        Decoded::Store { .. } => true,
        Decoded::Answer(answer) => {
            assert_eq!(answer.status, ScsiStatus::ReservationConflict, "{answer:?}");
            false
        }
    }
}

/// The pending unit attention, as ASC and ASCQ.
fn attention(device: &TargetDevice, nexus: &mut Nexus) -> Option<(u8, u8)> {
    let answer = device.decode(Lun::default(), &padded(&[0x00]), nexus);
    match answer {
        Decoded::Answer(Answer { sense: None, .. }) => None,
        other => {
            let sense = bad_sense(other);
            assert_eq!(sense.key, SenseKey::UnitAttention);
            Some((sense.additional.code, sense.additional.qualifier))
        }
    }
}

fn two(device: &TargetDevice) -> (Nexus, Nexus) {
    (device.nexus(port("iqn.one")), device.nexus(port("iqn.two")))
}

#[test]
fn only_holders_and_registrants_get_through() {
    for (kind, reads, registrant_writes) in [
        (1, true, false),
        (3, false, false),
        (5, true, true),
        (6, false, true),
        (7, true, true),
        (8, false, true),
    ] {
        let device = device();
        let (mut one, mut two) = two(&device);
        good(&reserve_out(&device, &mut one, (0, 0), (0, 1), 0));
        good(&reserve_out(&device, &mut one, (1, kind), (1, 0), 0));
        assert!(passes(&device, &mut one, &WRITE));
        assert_eq!(passes(&device, &mut two, &READ), reads, "kind {kind}");
        assert!(!passes(&device, &mut two, &WRITE));
        assert!(!passes(&device, &mut two, &[0x35]), "SYNCHRONIZE CACHE");
        assert_eq!(attention(&device, &mut two), None, "TEST UNIT READY");
        good(&reserve_out(&device, &mut two, (0, 0), (0, 2), 0));
        assert_eq!(passes(&device, &mut two, &WRITE), registrant_writes);
        good(&reserve_out(&device, &mut one, (2, kind), (1, 0), 0));
        let told = (kind >= 5).then_some((0x2a, 0x04));
        assert_eq!(attention(&device, &mut two), told, "kind {kind}");
        assert!(passes(&device, &mut two, &WRITE));
    }
}

#[test]
fn keys_are_needed() {
    let device = device();
    let (mut one, mut two) = two(&device);
    conflicts(&reserve_out(&device, &mut one, (1, 1), (0, 0), 0));
    conflicts(&reserve_out(&device, &mut one, (0, 0), (9, 1), 0));
    good(&reserve_out(&device, &mut one, (0, 0), (0, 1), 0));
    conflicts(&reserve_out(&device, &mut one, (0, 0), (2, 3), 0));
    conflicts(&reserve_out(&device, &mut one, (1, 1), (2, 0), 0));
    conflicts(&reserve_out(&device, &mut two, (3, 0), (1, 0), 0));
    good(&reserve_out(&device, &mut one, (6, 0), (0, 5), 0));
    good(&reserve_out(&device, &mut one, (0, 0), (5, 0), 0));
    let keys = [0x5e, 0, 0, 0, 0, 0, 0, 0, 255, 0];
    // Three changes of the registrations, and none is left.
    assert_eq!(
        good_data(device.decode(Lun::default(), &padded(&keys), &mut two)),
        [0, 0, 0, 3, 0, 0, 0, 0]
    );
}

#[test]
fn preempting_takes_the_reservation_over() {
    let device = device();
    let (mut one, mut two) = two(&device);
    good(&reserve_out(&device, &mut one, (0, 0), (0, 1), 0));
    good(&reserve_out(&device, &mut one, (1, 3), (1, 0), 0));
    good(&reserve_out(&device, &mut two, (0, 0), (0, 2), 0));
    conflicts(&reserve_out(&device, &mut two, (4, 3), (2, 7), 0));
    good(&reserve_out(&device, &mut two, (5, 1), (2, 1), 0));
    assert_eq!(one.take_aborts(), [0]);
    assert_eq!(two.take_aborts(), [0; 0]);
    assert_eq!(attention(&device, &mut one), Some((0x2a, 0x05)));
    assert!(!passes(&device, &mut one, &WRITE));
    assert!(passes(&device, &mut two, &WRITE));
    let held = [0x5e, 1, 0, 0, 0, 0, 0, 0, 255, 0];
    let data = good_data(device.decode(Lun::default(), &padded(&held), &mut one));
    assert_eq!(data[8..], [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1, 0, 0]);
}

#[test]
fn everybody_may_start_a_reserved_unit_and_only_its_holder_stops_it() {
    // SBC-3 table 15.
    let device = device();
    let (mut one, mut two) = two(&device);
    good(&reserve_out(&device, &mut one, (0, 0), (0, 1), 0));
    good(&reserve_out(&device, &mut one, (1, 1), (1, 0), 0));
    let start_stop = |nexus: &mut Nexus, flags| {
        let cdb = padded(&[0x1b, 0, 0, 0, flags]);
        device.decode(Lun::default(), &cdb, nexus);
        device.execute(0, &cdb, (Vec::new(), 0), nexus)
    };
    let no_flush = 0x04;
    conflicts(&start_stop(&mut two, no_flush));
    good(&start_stop(&mut two, 0x01));
    good(&start_stop(&mut one, no_flush));
    good(&start_stop(&mut two, 0x01));
}

#[test]
fn six_byte_reservations_go_with_their_nexus() {
    let device = device();
    let (mut one, mut two) = two(&device);
    good_data(device.decode(Lun::default(), &padded(&[0x16]), &mut one));
    assert!(!passes(&device, &mut two, &READ));
    good_data(device.decode(Lun::default(), &padded(&[0x12, 0, 0, 0, 36]), &mut two));
    good_data(device.decode(Lun::default(), &padded(&[0x17]), &mut two));
    assert!(!passes(&device, &mut two, &READ), "that of another stays");
    conflicts(&reserve_out(&device, &mut two, (0, 0), (0, 2), 0));
    drop(one);
    assert!(passes(&device, &mut two, &READ));
    good_data(device.decode(Lun::default(), &padded(&[0x16]), &mut two));
    assert!(device.reset(0, two.id()).is_down());
    let mut three = device.nexus(port("iqn.three"));
    assert!(passes(&device, &mut three, &WRITE));
}

/// A device whose reservations can survive a restart.
fn keeping() -> TargetDevice {
    device_of(LogicalUnit {
        keeps_reservations: true,
        ..unit(0, 100, 512)
    })
}

fn keeps(executed: Executed) -> Arc<ReservationChange> {
    match executed {
        Executed::Medium(operation) => match *operation {
            MediumOperation::KeepReservations(change) => change,
            other => panic!("other work: {other:?}"),
        },
        Executed::Answer(answer) => panic!("nothing to keep: {answer:?}"),
    }
}

#[test]
fn what_could_not_be_kept_has_not_happened() {
    let device = keeping();
    let (mut one, mut two) = two(&device);
    keeps(reserve_out(&device, &mut one, (0, 0), (0, 1), 1)).end(true);
    let reserve = keeps(reserve_out(&device, &mut one, (1, 3), (1, 0), 0));
    assert!(!passes(&device, &mut two, &READ), "it holds at once");
    // A change that may still be rolled back excludes others.
    let register = reserve_out(&device, &mut two, (0, 0), (0, 2), 0);
    assert_eq!(status(&register), ScsiStatus::Busy);
    let reserve_6 = device.decode(Lun::default(), &padded(&[0x16]), &mut one);
    assert!(matches!(reserve_6, Decoded::Answer(answer) if answer.status == ScsiStatus::Busy));
    reserve.end(false);
    assert!(passes(&device, &mut two, &READ));
    // Access granted by a change takes effect once it is saved.
    keeps(reserve_out(&device, &mut one, (1, 3), (1, 0), 0)).end(true);
    let release = keeps(reserve_out(&device, &mut one, (2, 3), (1, 0), 0));
    assert!(
        !passes(&device, &mut two, &READ),
        "it may still be taken back"
    );
    release.end(true);
    assert!(passes(&device, &mut two, &READ));
    // A change whose session ends is not saved either.
    drop(keeps(reserve_out(&device, &mut one, (1, 1), (1, 0), 0)));
    assert!(passes(&device, &mut two, &WRITE));
    good(&reserve_out(&device, &mut one, (1, 1), (1, 0), 0));
}

#[test]
fn a_preempt_and_abort_that_could_not_be_kept_harms_nobody() {
    let device = keeping();
    let (mut one, mut two) = two(&device);
    keeps(reserve_out(&device, &mut one, (0, 0), (0, 1), 1)).end(true);
    keeps(reserve_out(&device, &mut two, (0, 0), (0, 2), 1)).end(true);
    two.refresh();
    let at_store = two.enter(0, &[]).unwrap();
    let failed = keeps(reserve_out(&device, &mut one, (5, 3), (1, 2), 0));
    failed.end(false);
    assert!(failed.take_fence().is_down());
    assert_eq!(two.take_aborts(), [0; 0]);
    assert_eq!(attention(&device, &mut two), None);
    let kept = keeps(reserve_out(&device, &mut one, (5, 3), (1, 2), 0));
    assert_eq!(two.take_aborts(), [0; 0], "it may still fail");
    kept.end(true);
    assert_eq!(two.take_aborts(), [0]);
    assert_eq!(attention(&device, &mut two), Some((0x2a, 0x05)));
    let mut fence = kept.take_fence();
    assert!(!fence.is_down(), "the store still works");
    two.leave(at_store);
    assert!(fence.is_down());
}

#[test]
fn what_persists_is_restored() {
    let device = keeping();
    let (mut one, _) = two(&device);
    let kept = keeps(reserve_out(&device, &mut one, (0, 0), (0, 1), 1));
    kept.end(true);
    let newer = keeps(reserve_out(&device, &mut one, (1, 3), (1, 0), 0));
    // The older one has no effect any more.
    drop(kept);
    newer.end(true);
    let again = keeping();
    assert!(again.restore(0, newer.text()));
    let (mut one, mut two) = self::two(&again);
    assert!(passes(&again, &mut one, &WRITE));
    assert!(!passes(&again, &mut two, &READ));
    assert!(!again.restore(0, "nonsense"));
    // A unit that cannot save reservations does not claim to.
    let other = self::device();
    let (mut one, _) = self::two(&other);
    assert_eq!(
        status(&reserve_out(&other, &mut one, (0, 0), (0, 1), 1)),
        ScsiStatus::CheckCondition
    );
}

#[test]
fn mode_parameters_are_common() {
    let device = device();
    let (mut one, mut two) = two(&device);
    let cdb = padded(&[0x15, 0x10, 0, 0, 16, 0]);
    let mut list = vec![0, 0, 0, 0, 0x0a, 0x0a, 0, 0x10, 0x08, 0, 0, 0, 0, 0, 0, 0];
    let select = |nexus: &mut Nexus, list: &[u8]| {
        device.decode(Lun::default(), &cdb, nexus);
        device.execute(0, &cdb, (list.to_vec(), 16), nexus)
    };
    let change = |executed| match executed {
        Executed::Medium(operation) => match *operation {
            MediumOperation::FlushFor(change) => change,
            other => panic!("other work: {other:?}"),
        },
        Executed::Answer(answer) => panic!("no cache to write: {answer:?}"),
    };
    // If the cache cannot be flushed, nothing has changed.
    drop(change(select(&mut one, &list)));
    assert_eq!(attention(&device, &mut two), None);
    assert!(passes(&device, &mut two, &WRITE));
    let protected = change(select(&mut one, &list));
    assert_eq!(status(&select(&mut two, &list)), ScsiStatus::Busy);
    protected.end(true);
    assert_eq!(attention(&device, &mut two), Some((0x2a, 0x01)));
    let refused = bad_sense(device.decode(Lun::default(), &padded(&WRITE), &mut two));
    assert_eq!(refused.key, SenseKey::DataProtect);
    assert!(passes(&device, &mut two, &READ));
    list[9] = 1; // not changeable
    assert_eq!(status(&select(&mut one, &list)), ScsiStatus::CheckCondition);
    list.truncate(10);
    assert_eq!(status(&select(&mut one, &list)), ScsiStatus::CheckCondition);
}

/// With any parameter data, a command is answered or executed inside the unit.
#[test]
fn parameter_data_of_any_kind_is_taken() {
    use proptest::prelude::*;
    proptest!(|(
        opcode in proptest::sample::select(vec![0x15u8, 0x55, 0x5f, 0x83, 0x42, 0x41, 0x93, 0x89]),
        mut cdb in any::<Cdb>(),
        small in 0..4u8,
        list in proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..600),
    )| {
        cdb[0] = opcode;
        cdb[1] &= 0x17;
        cdb[2..10].fill(0);
        cdb[8] = small;
        let device = thin_device();
        let mut nexus = nexus(&device);
        if let Decoded::Store { unit, .. } = device.decode(Lun::default(), &cdb, &mut nexus) {
            let announced = list.len() as u32;
            if let Executed::Medium(operation) = device.execute(unit, &cdb, (list, announced), &mut nexus)
                && let MediumOperation::Deallocate { ranges } = *operation
            {
                for (offset, len) in ranges {
                    prop_assert!(offset + len <= 1 << 30);
                }
            }
        }
    });
}

#[test]
fn a_unit_goes_on_in_another_device_with_what_no_session_owns() {
    let device = device();
    let (mut one, mut two) = two(&device);
    good(&reserve_out(&device, &mut one, (0, 0), (0, 1), 0));
    good(&reserve_out(&device, &mut one, (1, 3), (1, 0), 0));
    drop((one, two));
    let next = TargetDevice::new(vec![unit(0, 100, 512), unit(5, 100, 512)]).unwrap();
    next.inherit(0, &device, 0);
    next.inherit(9, &device, 0);
    next.inherit(0, &device, 9);
    (one, two) = self::two(&next);
    assert!(passes(&next, &mut one, &WRITE));
    assert!(!passes(&next, &mut two, &READ));
}
