//! Matches a kernel's I/Os to commands in packets: by LUN, CDB and time.

use std::collections::{BTreeMap, HashMap, VecDeque};

use wansan_insight::capture::CapturedCommand;

use crate::tracepoints::{BlockIo, TargetCommand};

/// Largest difference between the kernel's times and packet times, which are taken at different points.
const SLACK_NS: u64 = 1_000_000;

/// A LUN, and the significant bytes of a CDB.
type Asked = (u64, [u8; 16]);

/// A CDB's bytes, of the length that its group defines (SPC-4 §4.2.5.1); bytes after them are undefined.
fn command_bytes(cdb: [u8; 16]) -> [u8; 16] {
    let length = match cdb[0] >> 5 {
        0 => 6,
        1 | 2 => 10,
        5 => 12,
        _ => 16,
    };
    std::array::from_fn(|at| if at < length { cdb[at] } else { 0 })
}

/// Matches an initiator's block requests to commands on the wire. `luns` are those of the session's disks; `ahead_ns`
/// is how far the clock of `commands` is ahead.
#[must_use]
pub fn at_initiator<'a>(
    ios: &'a [BlockIo],
    luns: &BTreeMap<u32, u64>,
    commands: &[&'a CapturedCommand],
    ahead_ns: u64,
) -> Vec<(&'a BlockIo, &'a CapturedCommand)> {
    let known = ios.iter().filter_map(|io| {
        let asked = (*luns.get(&io.disk)?, command_bytes(io.cdb));
        Some((asked, io.dispatched_ns?, io))
    });
    let sent = commands.iter().map(|command| (asked(command), *command));
    matched(known.collect(), sent, |io, command| {
        let (sent_ns, answered_ns) = (command.sent_ns, command.answered_ns.unwrap_or(0));
        let (sent_ns, answered_ns) = (
            sent_ns.saturating_sub(ahead_ns),
            answered_ns.saturating_sub(ahead_ns),
        );
        let done_ns = io.done_ns.unwrap_or(io.completed_ns);
        Fit::of(io.dispatched_ns.unwrap_or(0), done_ns, sent_ns, answered_ns)
    })
}

/// Matches LIO's completed commands to commands on the wire.
#[must_use]
pub fn at_target<'a>(
    carried_out: &'a [TargetCommand],
    commands: &[&'a CapturedCommand],
    ahead_ns: u64,
) -> Vec<(&'a TargetCommand, &'a CapturedCommand)> {
    let known = carried_out.iter().map(|command| {
        let asked = (command.lun, command_bytes(command.cdb));
        ((command.tag, asked), command.began_ns, command)
    });
    let sent = commands
        .iter()
        .map(|command| ((command.tag.0, asked(command)), *command));
    matched(known.collect(), sent, |done, command| {
        let came_ns = command.came_ns.unwrap_or(0).saturating_sub(ahead_ns);
        let ready_ns = command.ready_ns.unwrap_or(0).saturating_sub(ahead_ns);
        // Here the interval in packets contains the kernel's.
        Fit::of(came_ns, ready_ns, done.began_ns, done.done_ns).other_way()
    })
}

fn asked(command: &CapturedCommand) -> Asked {
    (command.lun, command_bytes(command.cdb))
}

/// Whether an interval lies within another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// The kernel's I/O is older: it matches none of the remaining commands.
    Older,
    Within,
    /// The command is older.
    Newer,
}

impl Fit {
    fn of(outer_from_ns: u64, outer_to_ns: u64, from_ns: u64, to_ns: u64) -> Fit {
        match (
            from_ns + SLACK_NS >= outer_from_ns,
            to_ns <= outer_to_ns + SLACK_NS,
        ) {
            (false, _) => Fit::Newer,
            (true, false) => Fit::Older,
            (true, true) => Fit::Within,
        }
    }

    fn other_way(self) -> Fit {
        match self {
            Fit::Older => Fit::Newer,
            Fit::Newer => Fit::Older,
            Fit::Within => Fit::Within,
        }
    }
}

/// Pairs I/Os and commands of equal content in time order.
fn matched<'a, K: std::hash::Hash + Eq, T>(
    mut known: Vec<(K, u64, &'a T)>,
    commands: impl Iterator<Item = (K, &'a CapturedCommand)>,
    fit: impl Fn(&T, &CapturedCommand) -> Fit,
) -> Vec<(&'a T, &'a CapturedCommand)> {
    known.sort_by_key(|(_, at_ns, _)| *at_ns);
    let mut waiting: HashMap<K, VecDeque<&'a T>> = HashMap::new();
    for (key, _, io) in known {
        waiting.entry(key).or_default().push_back(io);
    }
    let mut commands: Vec<_> = commands.collect();
    commands.sort_by_key(|(_, command)| command.sent_ns);
    let pairs = commands.into_iter().filter_map(|(key, command)| {
        let ios = waiting.get_mut(&key)?;
        while let Some(io) = ios.front().copied() {
            match fit(io, command) {
                Fit::Newer => return None,
                Fit::Older => ios.pop_front(),
                Fit::Within => {
                    ios.pop_front();
                    return Some((io, command));
                }
            };
        }
        None
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracepoints::device_number;

    const READ_10: u8 = 0x28;

    fn cdb(block: u8, behind: u8) -> [u8; 16] {
        let mut cdb = [behind; 16];
        cdb[..10].copy_from_slice(&[READ_10, 0, 0, 0, 0, block, 0, 0, 8, 0]);
        cdb
    }

    fn command(tag: u32, lun: u64, block: u8, times: (u64, u64)) -> CapturedCommand {
        let ms = |ms: u64| 1_000_000_000 + ms * 1_000_000;
        let (from, to) = times;
        CapturedCommand {
            tag: wansan_trace::TaskTag(tag),
            lun,
            cdb: cdb(block, 0),
            sent_ns: ms(from),
            answered_ns: Some(ms(to)),
            came_ns: Some(ms(from)),
            ready_ns: Some(ms(to)),
            ..CapturedCommand::default()
        }
    }

    fn io(disk: u32, block: u8, (from_ms, to_ms): (u64, u64)) -> BlockIo {
        BlockIo {
            disk,
            cdb: cdb(block, 0xee),
            dispatched_ns: Some(from_ms * 1_000_000),
            done_ns: Some(to_ms * 1_000_000),
            completed_ns: to_ms * 1_000_000,
            ..BlockIo::default()
        }
    }

    #[test]
    fn requests_are_found_by_lun_cdb_and_time() {
        let (one, other) = (device_number(8, 0), device_number(8, 16));
        let luns = BTreeMap::from([(one, 0), (other, 3)]);
        let commands = [
            command(1, 0, 7, (11, 39)),
            command(2, 3, 7, (11, 39)),
            // The same block again, later.
            command(1, 0, 7, (101, 139)),
            // The kernel did not report this one.
            command(3, 0, 9, (11, 39)),
        ];
        let ios = [
            io(other, 7, (10, 40)),
            // Before the first packet.
            io(one, 7, (1, 5)),
            io(one, 7, (10, 40)),
            io(one, 7, (100, 140)),
        ];
        let all: Vec<&CapturedCommand> = commands.iter().collect();
        let pairs = at_initiator(&ios, &luns, &all, 1_000_000_000);
        let mut pairs: Vec<_> = pairs
            .iter()
            .map(|(io, command)| (io.disk, io.completed_ns / 1_000_000, command.tag.0))
            .collect();
        pairs.sort_unstable();
        assert_eq!(pairs, [(one, 40, 1), (one, 140, 1), (other, 40, 2)]);
    }

    #[test]
    fn what_a_target_carried_out_is_found_by_its_tag_too() {
        let done = |tag: u32, from_ms: u64, to_ms: u64| TargetCommand {
            tag,
            lun: 0,
            began_ns: from_ms * 1_000_000,
            done_ns: to_ms * 1_000_000,
            cdb: cdb(7, 0),
        };
        let carried_out = [done(1, 2, 3), done(2, 12, 38), done(1, 13, 37)];
        let commands = [command(1, 0, 7, (11, 39)), command(2, 0, 7, (11, 39))];
        let all: Vec<&CapturedCommand> = commands.iter().collect();
        let pairs = at_target(&carried_out, &all, 1_000_000_000);
        let began: Vec<_> = pairs
            .iter()
            .map(|(done, command)| (done.began_ns / 1_000_000, command.tag.0))
            .collect();
        assert_eq!(began, [(13, 1), (12, 2)]);
    }
}
