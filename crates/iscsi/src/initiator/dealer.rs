//! Deals out commands to the connections of a session.

use super::connection::Connection;
use super::schedule::{Load, Schedule};
use super::tally::Carriage;

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

    /// The place of the connection that takes the next command, or `None` if that has to wait.
    pub(super) fn choose(
        &mut self,
        connections: &[Connection],
        carriage: &Carriage,
    ) -> Option<usize> {
        let place = match connections {
            [only] => only.link.takes_commands().then_some(0),
            several => self.choose_by_load(several, carriage),
        }?;
        self.turn = place + 1;
        Some(place)
    }

    fn choose_by_load(&mut self, connections: &[Connection], carriage: &Carriage) -> Option<usize> {
        self.loads.clear();
        self.loads.extend(connections.iter().map(|connection| {
            let carried = carriage.of(connection.link.id);
            Load {
                has_room: connection.link.takes_commands(),
                commands: carried.in_flight.count(),
                bytes: carried.in_flight_bytes,
            }
        }));
        self.schedule.choose(self.turn, &self.loads)
    }
}
