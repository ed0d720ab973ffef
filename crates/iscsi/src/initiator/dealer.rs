//! Deals out commands to the connections of a session.

use wansan_trace::Instant;

use super::connection::Connection;
use super::schedule::{Load, Schedule};
use super::tally::Carriage;
use super::task::Transfer;

/// Chooses a connection with room for each command, by a [`Schedule`].
#[derive(Debug, Default)]
pub(super) struct Dealer {
    schedule: Schedule,
    /// Whose turn it is to get a command.
    turn: usize,
    /// The schedule's input; kept to reuse its memory.
    loads: Vec<Load>,
}

impl Dealer {
    /// Deals by `schedule` from now on.
    pub(super) fn set_policy(&mut self, schedule: Schedule) {
        self.schedule = schedule;
    }

    /// The place of the connection that takes the next command, with data `transfer`; `None` if the command has to wait.
    pub(super) fn choose(
        &mut self,
        connections: &[Connection],
        carriage: &Carriage,
        transfer: &Transfer,
        now: Instant,
    ) -> Option<usize> {
        if let [only] = connections {
            return only.link.takes_commands().then_some(0);
        }
        self.loads.clear();
        self.loads.extend(connections.iter().map(|connection| {
            let carried = carriage.of(connection.link.id);
            Load {
                stays: connection.link.stays(),
                has_room: connection.link.takes_commands(),
                commands: carried.in_flight.count(),
                bytes: carried.in_flight_bytes,
                costs_ns: carriage.costs_ns(connection.link.id, transfer, now),
            }
        }));
        let place = self.schedule.choose(self.turn, &self.loads)?;
        self.turn = place + 1;
        Some(place)
    }
}
