//! Deals out commands to the connections of a session.

use wansan_multipath::{Pipe, worth_taking_ns};
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
    /// The schedule's input; kept to reuse its memory, as are the lengths and rates of connections.
    loads: Vec<Load>,
    pipes: Vec<Pipe>,
}

impl Dealer {
    /// Deals by `schedule` from now on.
    pub(super) fn set_policy(&mut self, schedule: Schedule) {
        self.schedule = schedule;
    }

    /// The place of the connection that takes the next command, with data `transfer`; `None` if the command has to wait,
    /// of `waiting` ones.
    pub(super) fn choose(
        &mut self,
        connections: &[Connection],
        carriage: &Carriage,
        transfer: &Transfer,
        waiting: usize,
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
        if let (Schedule::Earliest, Transfer::Write(data)) = (self.schedule, transfer) {
            let waiting_bytes = (waiting * data.len()) as u64;
            self.keep_to_worthy(connections, carriage, waiting_bytes, now);
        }
        let place = self.schedule.choose(self.turn, &self.loads)?;
        self.turn = place + 1;
        Some(place)
    }

    /// Prices out connections that are not worth taking for writes, as what one carries waits for what others bring. Data of
    /// reads wait for no order.
    fn keep_to_worthy(
        &mut self,
        connections: &[Connection],
        carriage: &Carriage,
        waiting_bytes: u64,
        now: Instant,
    ) {
        let pipe = |connection: &Connection| carriage.pipe(connection.link.id, now);
        let stay = connections
            .iter()
            .filter(|connection| connection.link.stays());
        self.pipes.clear();
        self.pipes.extend(stay.filter_map(pipe));
        let under_way: u64 = self.loads.iter().map(|load| load.bytes).sum();
        let worth = worth_taking_ns(&mut self.pipes, under_way + waiting_bytes);
        for (load, connection) in self.loads.iter_mut().zip(connections) {
            if pipe(connection).is_some_and(|pipe| !worth.contains(&pipe.length_ns)) {
                load.costs_ns = f64::INFINITY;
            }
        }
    }
}
