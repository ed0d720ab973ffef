//! REPORT SUPPORTED OPERATION CODES and REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS (SPC-4).

use super::answer::{Reply, cut};
use super::command::{COMMANDS, Call, Command, Outcome, rows};
use super::{Sense, be16, be32};

/// RCTD: timeouts are requested. wansan recommends none, which zeros in the descriptor mean.
const RCTD: u8 = 0x80;
const TIMEOUTS: [u8; 12] = [0, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// SUPPORT: not supported; supported in conformance with the standard.
const NOT_SUPPORTED: u8 = 0x01;
const SUPPORTED: u8 = 0x03;

/// REPORT SUPPORTED OPERATION CODES.
pub(super) fn operation_codes(call: &mut Call<'_>) -> Outcome {
    let cdb = call.cdb;
    let timeouts: &[u8] = match cdb[2] & RCTD {
        0 => &[],
        _ => &TIMEOUTS,
    };
    let is_there = |command: &&Command| command.is_there(call.unit);
    let wanted = be16(cdb, 4);
    let with_action = rows(cdb[3]).iter().find(|row| {
        is_there(row)
            && row
                .service_action
                .is_some_and(|action| wanted == u16::from(action))
    });
    let has_actions = rows(cdb[3]).iter().any(|row| row.service_action.is_some());
    let alone = rows(cdb[3])
        .iter()
        .find(|row| is_there(row) && !has_actions);
    let data = match cdb[2] & 0x07 {
        0 => all(COMMANDS.iter().filter(is_there), timeouts),
        1 if has_actions => return Err(Sense::invalid_field(2, Some(2)).into()),
        1 => one(alone, timeouts),
        2 if !has_actions => return Err(Sense::invalid_field(2, Some(2)).into()),
        2 => one(with_action, timeouts),
        // Either, for initiators that do not know which.
        3 => one(with_action.or(alone.filter(|_| wanted == 0)), timeouts),
        _ => return Err(Sense::invalid_field(2, Some(2)).into()),
    };
    Ok(Reply::Data(cut(data, be32(cdb, 6))))
}

/// The all_commands parameter data.
fn all<'a>(commands: impl Iterator<Item = &'a Command>, timeouts: &[u8]) -> Vec<u8> {
    let mut data = vec![0; 4];
    for command in commands {
        // CTDP, then SERVACTV.
        let flags =
            u8::from(!timeouts.is_empty()) << 1 | u8::from(command.service_action.is_some());
        let action = command.service_action.unwrap_or(0);
        let length = command.usage.len() as u8;
        data.extend([command.opcode, 0, 0, action, 0, flags, 0, length]);
        data.extend(timeouts);
    }
    let length = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&length.to_be_bytes());
    data
}

/// The one_command parameter data.
fn one(command: Option<&Command>, timeouts: &[u8]) -> Vec<u8> {
    let Some(command) = command else {
        return vec![0, NOT_SUPPORTED, 0, 0];
    };
    let described = u8::from(!timeouts.is_empty()) << 7;
    let mut data = vec![0, described | SUPPORTED, 0, command.usage.len() as u8];
    data.extend(command.usage);
    if let Some(action) = command.service_action {
        // The service action itself is in its field, like the operation code.
        data[5] = data[5] & !0x1f | action;
    }
    data.extend(timeouts);
    data
}

/// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS.
pub(super) fn task_management(call: &mut Call<'_>) -> Outcome {
    // ABORT TASK, ABORT TASK SET, CLEAR TASK SET, LOGICAL UNIT RESET, target reset.
    let mut data = vec![0x80 | 0x40 | 0x10 | 0x08 | 0x02, 0, 0, 0];
    if call.cdb[2] & 0x80 != 0 {
        // REPD: the extended form, without recommended timeouts.
        data[3] = 0x0c;
        data.extend([0; 12]);
    }
    Ok(Reply::Data(cut(data, be32(call.cdb, 6))))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{data, device, sense, thin_device};
    use super::*;

    fn cdb(options: u8, opcode: u8, action: u8) -> [u8; 12] {
        [
            0xa3, 0x0c, options, opcode, 0, action, 0, 0, 0xff, 0xff, 0, 0,
        ]
    }

    #[test]
    fn the_list_has_every_row_once() {
        let listed = data(&thin_device(), &cdb(0, 0, 0));
        assert_eq!(be32(&listed, 0) as usize, listed.len() - 4);
        assert_eq!((listed.len() - 4) / 8, COMMANDS.len());
        let with_timeouts = data(&thin_device(), &cdb(RCTD, 0, 0));
        assert_eq!((with_timeouts.len() - 4) / 20, COMMANDS.len());
        // Only thin units support UNMAP.
        assert_eq!(data(&device(), &cdb(0, 0, 0)).len(), listed.len() - 8);
        assert_eq!(data(&device(), &cdb(1, 0x42, 0)), [0, 1, 0, 0]);
    }

    #[test]
    fn one_command_has_its_usage() {
        let read = data(&device(), &cdb(1, 0x28, 0));
        assert_eq!(
            read,
            [
                0, 3, 0, 10, 0x28, 0x18, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0
            ]
        );
        let capacity = data(&device(), &cdb(2, 0x9e, 0x10));
        assert_eq!(capacity[..6], [0, 3, 0, 16, 0x9e, 0x10]);
        assert_eq!(data(&device(), &cdb(3, 0x9e, 0x10)), capacity);
        assert_eq!(data(&device(), &cdb(3, 0x28, 0)), read);
        assert_eq!(data(&device(), &cdb(2, 0x9e, 0x1f)), [0, 1, 0, 0]);
        assert_eq!(data(&device(), &cdb(1, 0xff, 0)), [0, 1, 0, 0]);
        for wrong in [cdb(1, 0x9e, 0), cdb(2, 0x28, 0), cdb(4, 0x28, 0)] {
            assert_eq!(
                sense(&device(), &wrong),
                Sense::invalid_field(2, Some(2)),
                "{wrong:02x?}"
            );
        }
    }

    #[test]
    fn rows_with_one_code_stand_together() {
        for (row, command) in COMMANDS.iter().enumerate() {
            let found = rows(command.opcode)
                .iter()
                .find(|other| other.service_action == command.service_action);
            assert!(
                found.is_some_and(|found| core::ptr::eq(found, command)),
                "row {row} is not found, or stands twice"
            );
            assert!(matches!(command.usage.len(), 6 | 10 | 12 | 16));
        }
    }
}
