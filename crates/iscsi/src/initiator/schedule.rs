//! Distribution of commands over the connections of a session.

use serde::{Deserialize, Serialize};

/// Which connection takes the next command. CmdSNs are assigned in the order of the session's queue under every
/// schedule, and a command's data and status stay on its connection (RFC 7143 §4.2.2.1, §4.2.5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Round-robin. If the next connection's send buffer is full, the others wait too.
    RoundRobin,
    /// The connection with the fewest outstanding commands: a slow one gets fewer, so that it does not fill the shared
    /// command window. Ties are broken round-robin. The default: it equals round-robin on equal paths and is better on
    /// unequal ones.
    #[default]
    LeastInFlight,
    /// The connection with the least outstanding data, for I/Os of unequal length. Ties are broken
    /// round-robin.
    LeastBytes,
    /// The connection on which the command is expected to complete first, judged by earlier commands
    /// ([`wansan_multipath::Lane`]): for routes of unequal rate and delay. The delay that a write adds to others
    /// counts, too. Ties are broken by outstanding commands. If its send buffer is full, the others wait too: a command
    /// elsewhere would complete later.
    Earliest,
}

/// The state of a connection that a schedule decides by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Load {
    /// Whether it takes commands at all: it is not about to close.
    pub(super) stays: bool,
    /// Whether it can take a command now.
    pub(super) has_room: bool,
    /// Outstanding commands on it.
    pub(super) commands: u64,
    /// Outstanding data on it, in bytes.
    pub(super) bytes: u64,
    /// Expected duration of the command on it, plus the delay added to others, in ns.
    pub(super) costs_ns: f64,
}

impl Schedule {
    /// The index in `loads` of the connection that takes the next command, or `None` if it has to wait. `turn` is the
    /// next index in turn.
    pub(super) fn choose(self, turn: usize, loads: &[Load]) -> Option<usize> {
        let places = (0..loads.len()).map(|step| (turn + step) % loads.len());
        let mut in_turn = places.map(|place| (place, loads[place]));
        let chosen = match self {
            Schedule::RoundRobin => in_turn.next().filter(|(_, load)| load.has_room),
            Schedule::LeastInFlight => in_turn
                .filter(|(_, load)| load.has_room)
                .min_by_key(|(_, load)| load.commands),
            Schedule::LeastBytes => in_turn
                .filter(|(_, load)| load.has_room)
                .min_by_key(|(_, load)| load.bytes),
            Schedule::Earliest => in_turn
                .filter(|(_, load)| load.stays)
                .min_by(|(_, a), (_, b)| {
                    let by_time = a.costs_ns.total_cmp(&b.costs_ns);
                    by_time.then(a.commands.cmp(&b.commands))
                })
                .filter(|(_, load)| load.has_room),
        };
        chosen.map(|(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(has_room: bool, commands: u64, bytes: u64) -> Load {
        Load {
            stays: true,
            has_room,
            commands,
            bytes,
            costs_ns: bytes as f64,
        }
    }

    #[test]
    fn round_robin_waits_for_whose_turn_it_is() {
        let loads = [load(true, 9, 9), load(false, 0, 0), load(true, 0, 0)];
        assert_eq!(Schedule::RoundRobin.choose(0, &loads), Some(0));
        assert_eq!(Schedule::RoundRobin.choose(1, &loads), None);
        assert_eq!(Schedule::RoundRobin.choose(2, &loads), Some(2));
    }

    #[test]
    fn the_least_loaded_one_with_room_is_taken() {
        let loads = [load(true, 3, 1), load(false, 0, 0), load(true, 2, 5)];
        assert_eq!(Schedule::LeastInFlight.choose(0, &loads), Some(2));
        assert_eq!(Schedule::LeastBytes.choose(0, &loads), Some(0));
    }

    #[test]
    fn the_earliest_is_waited_for() {
        let loads = [load(true, 3, 9), load(false, 1, 5), load(true, 2, 9)];
        assert_eq!(Schedule::Earliest.choose(0, &loads), None);
        // One that is about to close is not.
        let leaves = Load {
            stays: false,
            ..load(false, 0, 0)
        };
        assert_eq!(Schedule::Earliest.choose(0, &[loads[0], leaves]), Some(0));
        let loads = [load(true, 3, 9), load(true, 2, 9)];
        assert_eq!(Schedule::Earliest.choose(0, &loads), Some(1));
    }

    #[test]
    fn equal_ones_take_turns() {
        let loads = [load(true, 1, 1); 3];
        for schedule in [Schedule::LeastInFlight, Schedule::LeastBytes] {
            let chosen: Vec<_> = (0..4)
                .map(|turn| schedule.choose(turn % 3, &loads))
                .collect();
            assert_eq!(chosen, [Some(0), Some(1), Some(2), Some(0)]);
        }
        assert_eq!(Schedule::RoundRobin.choose(0, &[]), None);
    }
}
