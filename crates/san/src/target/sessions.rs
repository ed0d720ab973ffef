//! The sessions of a thread, and their connections.

use std::sync::Arc;

use wansan_iscsi::target::{Connection, Session};
use wansan_trace::{Instant, Recorder, SessionId};

use super::directory::ServedTarget;
use crate::store::Lane;

/// One session and its connections' slots.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) session: Box<Session>,
    /// The target that it has logged in to.
    pub(super) target: Arc<ServedTarget>,
    /// Distinguishes sessions that had the same number.
    pub(super) generation: u16,
    /// Store operations outstanding, in the backlog or in the queue pair.
    pub(super) at_stores: usize,
    /// Its queue in the pool.
    pub(super) lane: Lane,
    /// Number of times it was served in its thread's period.
    pub(super) turns: u64,
    /// The slots of its connections, by their index in the session.
    slots: Vec<Option<u16>>,
}

impl Served {
    /// The index and slot of each connection.
    pub(super) fn slots(&self) -> impl Iterator<Item = (usize, u16)> + '_ {
        let taken = |(place, slot): (usize, &Option<u16>)| slot.map(|slot| (place, slot));
        self.slots.iter().enumerate().filter_map(taken)
    }

    /// The slot of the connection at `place`.
    pub(super) fn slot(&self, place: usize) -> Option<u16> {
        self.slots.get(place).copied().flatten()
    }

    /// Whether it has more than one connection, or had once.
    pub(super) fn is_shared(&self) -> bool {
        self.slots.len() > 1
    }

    fn sit(&mut self, place: usize, slot: u16) {
        if self.slots.len() <= place {
            self.slots.resize(place + 1, None);
        }
        self.slots[place] = Some(slot);
    }
}

/// Membership of a connection: its session's number and its index there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Membership {
    pub(super) session: u16,
    pub(super) place: usize,
}

/// A thread's sessions by number. They are no more than the connections, so 16 bits are enough.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    table: Vec<Option<Served>>,
    generations: u16,
}

impl Sessions {
    /// Adds a session that begins with the connection at `slot`.
    pub(super) fn begin(
        &mut self,
        session: Session,
        target: Arc<ServedTarget>,
        slot: u16,
    ) -> Membership {
        let free = self.table.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            self.table.push(None);
            self.table.len() - 1
        });
        self.generations = self.generations.wrapping_add(1);
        let mut served = Served {
            session: Box::new(session),
            target,
            generation: self.generations,
            at_stores: 0,
            lane: Lane::default(),
            turns: 0,
            slots: Vec::new(),
        };
        served.sit(0, slot);
        self.table[number] = Some(served);
        Membership {
            session: number as u16,
            place: 0,
        }
    }

    /// Adds the connection at `slot` to session `number`; `None` when there is no such session.
    pub(super) fn join(
        &mut self,
        number: u16,
        connection: Connection,
        slot: u16,
    ) -> Option<Membership> {
        let served = self.get_mut(number)?;
        let place = served.session.join(connection);
        served.sit(place, slot);
        Some(Membership {
            session: number,
            place,
        })
    }

    /// Removes a connection from its session; returns its pending data, and whether the session has ended.
    pub(super) fn leave(
        &mut self,
        from: Membership,
        now: Instant,
        trace: &mut Recorder,
    ) -> (Vec<u8>, bool) {
        let Some(served) = self.get_mut(from.session) else {
            return (Vec::new(), false);
        };
        let rest = served.session.leave(from.place, now, trace);
        served.slots[from.place] = None;
        (rest, served.session.is_over())
    }

    /// Removes a session.
    pub(super) fn end(&mut self, number: u16) -> Option<Served> {
        self.table.get_mut(usize::from(number))?.take()
    }

    pub(super) fn get_mut(&mut self, number: u16) -> Option<&mut Served> {
        self.table.get_mut(usize::from(number))?.as_mut()
    }

    /// The connection with that membership.
    pub(super) fn connection(&mut self, at: Membership) -> Option<&mut Connection> {
        self.get_mut(at.session)?.session.connection(at.place)
    }

    /// The session with this ID, and its number.
    pub(super) fn find(&self, id: SessionId) -> Option<(u16, &Served)> {
        let mut all = (0..).zip(&self.table);
        all.find_map(|(number, served)| {
            let served = served.as_ref()?;
            (served.session.id() == id).then_some((number, served))
        })
    }

    /// All sessions with their numbers.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u16, &mut Served)> {
        let all = (0..).zip(&mut self.table);
        all.filter_map(|(number, served)| Some((number, served.as_mut()?)))
    }
}
