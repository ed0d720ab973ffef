//! The sessions of an initiator with its unit: a single one, or one over each of several routes.

use std::time::Duration;

use wansan_iscsi::initiator::{Command, Completion, Recoveries, Tally};
use wansan_trace::{Instant, Recorder};

use super::client::Client;
use super::initiator::{InitiatorConfig, InitiatorError};
use super::multipath::Several;
use super::socket::Sockets;

/// A single session, or several.
#[derive(Debug)]
pub(super) enum Sessions {
    /// A single session, over one or several connections (MC/S).
    One(Box<Client>),
    /// Multipath: one session per route.
    Several(Box<Several>),
}

impl Sessions {
    pub(super) fn config(&self) -> &InitiatorConfig {
        match self {
            Sessions::One(client) => &client.config,
            Sessions::Several(several) => &several.config,
        }
    }

    /// When the next timer is due.
    pub(super) fn wakes_at(&self) -> Instant {
        match self {
            Sessions::One(client) => client.wakes_at(),
            Sessions::Several(several) => several.wakes_at(),
        }
    }

    /// Does what can be done now; returns whether there was anything.
    pub(super) fn turn(&mut self, sockets: &mut Sockets) -> Result<bool, InitiatorError> {
        match self {
            Sessions::One(client) => client.turn(sockets),
            Sessions::Several(several) => several.turn(sockets),
        }
    }

    /// Queues a command.
    pub(super) fn submit(&mut self, command: Command, now: Instant) {
        match self {
            Sessions::One(client) => client.submit(command, now),
            Sessions::Several(several) => several.submit(command, now),
        }
    }

    /// The next completion.
    pub(super) fn poll_completion(&mut self, now: Instant) -> Option<Completion> {
        match self {
            Sessions::One(client) => client.poll_completion(now),
            Sessions::Several(several) => several.poll_completion(),
        }
    }

    /// Counters of each connection up to `now`, with its portal.
    pub(super) fn tallies(&self, now: Instant) -> Vec<(String, Tally)> {
        match self {
            Sessions::One(client) => client.tallies(now),
            Sessions::Several(several) => several.tallies(now),
        }
    }

    /// Recoveries so far.
    pub(super) fn recoveries(&self) -> Recoveries {
        match self {
            Sessions::One(client) => client.recoveries(),
            Sessions::Several(several) => several.recoveries(),
        }
    }

    /// How long there has been no connection at all, and how long a recovery attempt may take.
    pub(super) fn cut_off(&self, now: Instant) -> (Duration, Duration) {
        match self {
            Sessions::One(client) => client.cut_off(now),
            Sessions::Several(several) => several.cut_off(now),
        }
    }

    /// Logs out.
    pub(super) fn log_out(&mut self, now: Instant) {
        match self {
            Sessions::One(client) => client.log_out(now),
            Sessions::Several(several) => several.log_out(now),
        }
    }

    /// Closes the connections once the target has responded to the logout; returns whether all have ended.
    pub(super) fn has_left(&mut self, sockets: &mut Sockets) -> bool {
        match self {
            Sessions::One(client) => client.has_left(sockets),
            Sessions::Several(several) => several.has_left(sockets),
        }
    }

    /// Records the state of TCP on all connections.
    pub(super) fn record_tcp(&mut self, sockets: &Sockets) {
        match self {
            Sessions::One(client) => client.record_tcp(sockets),
            Sessions::Several(several) => several.record_tcp(sockets),
        }
    }

    /// The records.
    pub(super) fn into_records(self) -> Vec<Recorder> {
        match self {
            Sessions::One(client) => vec![client.into_records()],
            Sessions::Several(several) => several.into_records(),
        }
    }
}
