//! Commands about a unit as a whole: TEST UNIT READY, START STOP UNIT, PREVENT ALLOW MEDIUM REMOVAL,
//! READ DEFECT DATA (SPC-4, SBC-3) and REPORT TARGET PORT GROUPS (SPC-4 5.15).

use super::answer::{Reply, cut};
use super::command::{Call, Delivery, Outcome, Refused};
use super::fence::Fence;
use super::nexus::Access;
use super::{Sense, be16, be32};

/// TEST UNIT READY: that the unit is started has been checked before.
pub(super) fn test_ready(_: &mut Call<'_>) -> Outcome {
    Ok(Reply::DONE)
}

/// START STOP UNIT. There is nothing to load or eject, and no power condition; a stop flushes the cache first, unless
/// NO_FLUSH is set. A reservation allows everybody to start the unit (SBC-3 table 15), but only its holders to stop it.
pub(super) fn start_stop(call: &mut Call<'_>, _: Delivery) -> Outcome {
    let flags = call.cdb[4];
    if flags & 0xf0 != 0 {
        return Err(Sense::invalid_field(4, Some(7)).into());
    }
    if flags & 0x02 != 0 {
        return Err(Sense::invalid_field(4, Some(1)).into());
    }
    let stops = flags & 0x01 == 0;
    if stops && call.nexus.view(call.place).access < Access::Full {
        return Err(Refused::Conflict);
    }
    let flushes = stops && flags & 0x04 == 0 && call.unit.write_cache && !call.unit.read_only;
    let (place, own) = (call.place, call.nexus.id());
    let (change, fence) = call.change(|state| {
        state.check_unchanging(place)?;
        let change = flushes.then(|| state.begin_change(place, own));
        state.units[place].stopped = stops;
        // Outstanding store operations are to be flushed, too, and nothing lands later.
        let fence = match stops {
            true => state.fence(place, |_| true),
            false => Fence::default(),
        };
        Ok::<_, Refused>((change, fence))
    })?;
    call.nexus.wait_for(fence);
    Ok(match change {
        Some(number) => call.flush_for(number),
        None => Reply::DONE,
    })
}

/// PREVENT ALLOW MEDIUM REMOVAL: no effect, as the medium is not removable.
pub(super) fn prevent_allow(_: &mut Call<'_>) -> Outcome {
    Ok(Reply::DONE)
}

/// READ DEFECT DATA (10): the header of an empty list in the requested format, because stores report no defective
/// blocks.
pub(super) fn read_defect_data_10(call: &mut Call<'_>) -> Outcome {
    let data = vec![0, call.cdb[2] & 0x1f, 0, 0];
    Ok(Reply::Data(cut(data, be16(call.cdb, 7))))
}

/// READ DEFECT DATA (12), likewise.
pub(super) fn read_defect_data_12(call: &mut Call<'_>) -> Outcome {
    let data = vec![0, call.cdb[1] & 0x1f, 0, 0, 0, 0, 0, 0];
    Ok(Reply::Data(cut(data, be32(call.cdb, 6))))
}

/// REPORT TARGET PORT GROUPS: one group with one port, which is the portal group's, always in the state
/// active/optimized.
pub(super) fn report_target_port_groups(call: &mut Call<'_>) -> Outcome {
    let identity = &call.unit.identity;
    let [high, low] = identity.portal_group_tag.to_be_bytes();
    let port = identity.relative_port().to_be_bytes();
    // Active/optimized, the only supported state; the group, STATUS CODE 0 (no change yet), TARGET PORT COUNT 1 and the
    // port.
    let group = [0x00, 0x01, high, low, 0, 0, 0, 1, 0, 0, port[0], port[1]];
    // PARAMETER DATA FORMAT: 001b is the extended header, with IMPLICIT TRANSITION TIME 0.
    let header: &[u8] = match call.cdb[1] >> 5 {
        0 => &[],
        1 => &[0x10, 0, 0, 0],
        _ => return Err(Sense::invalid_field(1, Some(7)).into()),
    };
    let body = [header, &group].concat();
    let length = (body.len() as u32).to_be_bytes();
    let data = [&length[..], &body].concat();
    Ok(Reply::Data(cut(data, be32(call.cdb, 6))))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{data, decode, device, nexus, sense};
    use super::super::{
        AdditionalSense, Answer, Decoded, Executed, MediumOperation, Nexus, SenseKey, TargetDevice,
    };
    use super::*;
    use crate::wire::Lun;

    /// The outcome of START STOP UNIT with these flags.
    fn start_stop(device: &TargetDevice, flags: u8, nexus: &mut Nexus) -> Executed {
        let mut cdb = [0; 16];
        (cdb[0], cdb[4]) = (0x1b, flags);
        match device.decode(Lun::default(), &cdb, nexus) {
            Decoded::Store { unit: 0, .. } => device.execute(0, &cdb, (Vec::new(), 0), nexus),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_stopped_unit_is_flushed_and_gives_no_data_to_anybody() {
        let device = device();
        let done = Executed::Answer(Answer::good(Vec::new()));
        let not_ready = Sense::new(SenseKey::NotReady, AdditionalSense::COMMAND_REQUIRED);
        let read = [0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0];
        let mut nexus = nexus(&device);
        for flags in [0, 0x04] {
            let stopped = start_stop(&device, flags, &mut nexus);
            if flags == 0 {
                let Executed::Medium(operation) = stopped else {
                    panic!("{stopped:?}");
                };
                let MediumOperation::FlushFor(change) = *operation else {
                    panic!("{operation:?}");
                };
                // A change that may still be rolled back excludes others.
                let busy = start_stop(&device, 1, &mut nexus);
                assert_eq!(busy, Executed::Answer(Refused::Busy.into()));
                change.end(true);
            } else {
                assert_eq!(stopped, done);
            }
            assert_eq!(sense(&device, &read), not_ready);
            assert_eq!(sense(&device, &[0x00; 6]), not_ready);
            assert!(!data(&device, &[0x12, 0, 0, 0, 36, 0]).is_empty());
            assert_eq!(start_stop(&device, 1, &mut nexus), done);
            assert!(matches!(decode(&device, &read), Decoded::Store { .. }));
        }
    }

    #[test]
    fn a_unit_whose_cache_cannot_be_written_is_not_stopped() {
        let device = device();
        drop(start_stop(&device, 0, &mut nexus(&device)));
        let read = [0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0];
        assert!(matches!(decode(&device, &read), Decoded::Store { .. }));
    }

    #[test]
    fn there_is_nothing_to_eject_and_no_power_condition() {
        let device = device();
        let refused = |flags, bit| {
            let answer = start_stop(&device, flags, &mut nexus(&device));
            let sense = Sense::invalid_field(4, Some(bit));
            assert_eq!(answer, Executed::Answer(Answer::check_condition(sense)));
        };
        refused(0x02, 1);
        refused(0x30, 7);
        assert_eq!(data(&device, &[0x00; 6]), [0; 0], "it was not stopped");
    }

    #[test]
    fn one_port_group_is_active_and_optimized() {
        let device = device();
        let group = [0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1];
        let cdb = |format: u8| [0xa3, format | 0x0a, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
        assert_eq!(
            data(&device, &cdb(0)),
            [&[0, 0, 0, 12], &group[..]].concat()
        );
        assert_eq!(
            data(&device, &cdb(0x20)),
            [&[0, 0, 0, 16, 0x10, 0, 0, 0], &group[..]].concat()
        );
        assert_eq!(sense(&device, &cdb(0x40)), Sense::invalid_field(1, Some(7)));
    }

    #[test]
    fn no_block_is_bad() {
        let device = device();
        let ten = [0x37, 0, 0x1d, 0, 0, 0, 0, 0, 8, 0];
        assert_eq!(data(&device, &ten), [0, 0x1d, 0, 0]);
        let twelve = [0xb7, 0x1d, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0];
        assert_eq!(data(&device, &twelve), [0, 0x1d, 0, 0, 0, 0, 0, 0]);
    }
}
