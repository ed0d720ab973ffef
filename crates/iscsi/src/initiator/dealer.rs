//! Distributes commands over the connections of a session.

use wansan_trace::Instant;

use super::connection::Connection;
use super::schedule::{Load, Schedule};
use super::tally::Carriage;
use super::task::Transfer;

/// Chooses a connection with room for each command, by a [`Schedule`].
#[derive(Debug, Default)]
pub(super) struct Dealer {
    schedule: Schedule,
    /// The next connection in turn.
    turn: usize,
    /// The schedule's input; kept to reuse its memory.
    loads: Vec<Load>,
}

impl Dealer {
    /// Sets the schedule.
    pub(super) fn set_policy(&mut self, schedule: Schedule) {
        self.schedule = schedule;
    }

    /// The index of the connection that takes the next command, with data `transfer`; `None` if the command, one of
    /// `waiting`, has to wait.
    pub(super) fn choose(
        &mut self,
        connections: &[Connection],
        carriage: &mut Carriage,
        transfer: &Transfer,
        waiting: usize,
        now: Instant,
    ) -> Option<usize> {
        if let [only] = connections {
            return only.link.takes_commands().then_some(0);
        }
        if self.schedule == Schedule::Earliest {
            let unanswered = |id| {
                let mut links = connections.iter().map(|connection| &connection.link);
                let link = links.find(|link| link.id == id && link.stays());
                link.map(|link| link.liveness.unanswered(now))
            };
            carriage.choose(transfer, waiting, unanswered, now);
        }
        self.loads.clear();
        self.loads.extend(connections.iter().map(|connection| {
            let id = connection.link.id;
            let carried = carriage.of(id);
            let costs_ns = match carriage.is_worth_taking(id) {
                true => carriage.costs_ns(id, transfer, now).min(f64::MAX),
                false => f64::INFINITY,
            };
            Load {
                stays: connection.link.stays(),
                has_room: connection.link.takes_commands() && carriage.has_room(id, transfer),
                commands: carried.in_flight.count(),
                bytes: carried.in_flight_bytes,
                costs_ns,
            }
        }));
        let place = self.schedule.choose(self.turn, &self.loads)?;
        self.turn = place + 1;
        Some(place)
    }
}
