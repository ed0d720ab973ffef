//! The state of a unit: reservations, mode parameters and power; which commands it permits, and how commands change it
//! (SPC-4 5.13 and 6.13, SPC-2 5.5, SBC-3 clause 4).

use super::attentions::Attention;
use crate::command::key;
use crate::history::{ReserveOut, Scsi};

/// An initiator port, by its number in the run.
pub(crate) type Port = u16;

/// The state of a unit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Rights {
    /// Registered ports and their keys, by port.
    pub(crate) registrations: Vec<(Port, u64)>,
    /// TYPE and holder; for the all-registrants types, every registered port is a holder.
    pub(crate) reservation: Option<(u8, Port)>,
    /// PRGENERATION.
    pub(crate) generation: u32,
    /// APTPL was requested.
    pub(crate) persists: bool,
    /// The session that holds the unit by RESERVE (6).
    pub(crate) exclusive: Option<u32>,
    /// WCE.
    pub(crate) write_cache: bool,
    /// SWP.
    pub(crate) protected: bool,
    /// START STOP UNIT has stopped it.
    pub(crate) stopped: bool,
}

/// Classes of commands by their conflicts with reservations (SPC-4 table 66, SBC-3 table 15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Never conflicts.
    Always,
    /// Conflicts only with RESERVE (6) of others.
    AnyPersistent,
    /// Conflicts with exclusive access, too.
    Reading,
    /// Conflicts with all reservations that do not give its nexus full access.
    Writing,
    /// The standards that the target follows disagree, or it depends on the parameter list.
    Unsure,
}

/// A change of the state of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Reserve6,
    Release6,
    Mode {
        write_cache: bool,
        protected: bool,
        /// WCE can be set.
        has_cache: bool,
    },
    StartStop {
        start: bool,
    },
    ReserveOut(Out),
    /// LOGICAL UNIT RESET or TARGET WARM RESET.
    Reset {
        write_cache: bool,
    },
    /// The nexus of the session is lost.
    NexusLoss,
}

/// PERSISTENT RESERVE OUT with its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Out {
    pub(crate) action: u8,
    pub(crate) kind: u8,
    pub(crate) key: u64,
    pub(crate) action_key: u64,
    pub(crate) persist: bool,
    pub(crate) unregister: bool,
    /// Destination of REGISTER AND MOVE.
    pub(crate) to: Port,
    /// The unit can keep reservations across a restart.
    pub(crate) can_persist: bool,
}

impl Out {
    /// For a unit that cannot keep reservations; `to` is the destination of REGISTER AND MOVE.
    pub(crate) fn of(out: &ReserveOut, to: Port) -> Out {
        Out {
            action: out.action,
            kind: out.kind,
            key: key(out.key),
            action_key: key(out.action_key),
            persist: out.persist,
            unregister: out.unregister,
            to,
            can_persist: false,
        }
    }

    /// Whether it requests APTPL although the unit cannot keep reservations.
    fn asks_too_much(&self) -> bool {
        matches!(self.action, 0 | 6 | 7) && self.persist && !self.can_persist
    }
}

/// An I_T nexus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nexus {
    pub(crate) port: Port,
    pub(crate) session: u32,
}

/// How a change ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Conflict,
    Illegal,
    /// Either: the standards do not define the order of the checks.
    Either,
}

/// A unit attention, and the port whose sessions report it.
pub(crate) type Established = (Port, Attention);

/// The result of a change: the new state, the unit attentions, and the ports whose tasks are aborted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Applied {
    pub(crate) rights: Rights,
    pub(crate) established: Vec<Established>,
    pub(crate) aborted: Vec<Port>,
}

const REGISTRATIONS_PREEMPTED: Attention = Attention::RegistrationsPreempted;
const RESERVATIONS_RELEASED: Attention = Attention::ReservationsReleased;

pub(crate) const fn is_all_registrants(kind: u8) -> bool {
    matches!(kind, 7 | 8)
}

/// Registrants only, or all registrants.
const fn admits_registrants(kind: u8) -> bool {
    matches!(kind, 5..=8)
}

const fn is_write_exclusive(kind: u8) -> bool {
    matches!(kind, 1 | 5 | 7)
}

impl Rights {
    /// The state after power on.
    pub(crate) fn initial(write_cache: bool) -> Rights {
        Rights {
            registrations: Vec::new(),
            reservation: None,
            generation: 0,
            persists: false,
            exclusive: None,
            write_cache,
            protected: false,
            stopped: false,
        }
    }

    /// The state after a restart: reservations survive with APTPL (SPC-4 5.13.5).
    pub(crate) fn restarted(&self, write_cache: bool) -> Rights {
        let mut fresh = Rights::initial(write_cache);
        if self.persists {
            fresh.registrations.clone_from(&self.registrations);
            fresh.reservation = self.reservation;
            fresh.persists = !self.registrations.is_empty();
        }
        fresh
    }

    pub(super) fn key_of(&self, port: Port) -> Option<u64> {
        let mut registered = self.registrations.iter();
        registered
            .find(|(one, _)| *one == port)
            .map(|(_, key)| *key)
    }

    pub(super) fn holds(&self, port: Port) -> bool {
        self.reservation.is_some_and(|(kind, holder)| {
            holder == port || is_all_registrants(kind) && self.key_of(port).is_some()
        })
    }

    /// Whether a command of `class` conflicts; `None` if either is allowed.
    pub(crate) fn conflicts(&self, class: Class, nexus: Nexus) -> Option<bool> {
        if class == Class::Always {
            return Some(false);
        }
        if self
            .exclusive
            .is_some_and(|session| session != nexus.session)
        {
            return (class != Class::Unsure).then_some(true);
        }
        let Some((kind, holder)) = self.reservation else {
            return Some(false);
        };
        let registered = admits_registrants(kind) && self.key_of(nexus.port).is_some();
        if holder == nexus.port || registered {
            return Some(false);
        }
        match class {
            Class::Always | Class::AnyPersistent => Some(false),
            Class::Reading => Some(!is_write_exclusive(kind)),
            Class::Writing => Some(true),
            Class::Unsure => None,
        }
    }

    /// Applies a change.
    pub(crate) fn apply(&self, change: &Change, nexus: Nexus) -> Result<Applied, Outcome> {
        let mut rights = self.clone();
        let mut established = Vec::new();
        let mut aborted = Vec::new();
        match change {
            Change::Reset { write_cache } => {
                rights.exclusive = None;
                rights.write_cache = *write_cache;
                rights.protected = false;
                rights.stopped = false;
            }
            Change::NexusLoss => {
                if rights.exclusive == Some(nexus.session) {
                    rights.exclusive = None;
                }
            }
            Change::Reserve6 => {
                // SPC-4 5.13.3: not allowed with registrations.
                let taken = self
                    .exclusive
                    .is_some_and(|session| session != nexus.session);
                if taken || !self.registrations.is_empty() {
                    return Err(Outcome::Conflict);
                }
                rights.exclusive = Some(nexus.session);
            }
            Change::Release6 => {
                if !self.registrations.is_empty() {
                    return Err(Outcome::Conflict);
                }
                if self.exclusive == Some(nexus.session) {
                    rights.exclusive = None;
                }
            }
            Change::Mode {
                write_cache,
                protected,
                has_cache,
            } => {
                if self.conflicts(Class::Writing, nexus) != Some(false) {
                    return Err(Outcome::Conflict);
                }
                if *write_cache && !has_cache {
                    return Err(Outcome::Illegal);
                }
                if (self.write_cache, self.protected) != (*write_cache, *protected) {
                    established.push((Port::MAX, Attention::ModeParameters));
                }
                rights.write_cache = *write_cache;
                rights.protected = *protected;
            }
            Change::StartStop { start } => {
                // SBC-3 table 15: a start without a power condition passes every persistent
                // reservation, a stop passes none.
                let class = match start {
                    true => Class::AnyPersistent,
                    false => Class::Writing,
                };
                if self.conflicts(class, nexus) == Some(true) {
                    return Err(Outcome::Conflict);
                }
                rights.stopped = !start;
            }
            Change::ReserveOut(out) => {
                if self.exclusive.is_some() {
                    return Err(match out.asks_too_much() {
                        true => Outcome::Either,
                        false => Outcome::Conflict,
                    });
                }
                rights.reserve_out(out, nexus, &mut established, &mut aborted)?;
            }
        }
        Ok(Applied {
            rights,
            established,
            aborted,
        })
    }

    fn reserve_out(
        &mut self,
        out: &Out,
        nexus: Nexus,
        established: &mut Vec<Established>,
        aborted: &mut Vec<Port>,
    ) -> Result<(), Outcome> {
        let port = nexus.port;
        let own = self.key_of(port);
        if out.asks_too_much() {
            return Err(match own == Some(out.key) || out.action == 6 {
                true => Outcome::Illegal,
                false => Outcome::Either,
            });
        }
        if out.action != 0 && out.action != 6 && own != Some(out.key) {
            return Err(Outcome::Conflict); // SPC-4 5.13.1: unregistered, or another key.
        }
        match out.action {
            0 | 6 => {
                if out.action == 0 && own.unwrap_or(0) != out.key {
                    return Err(Outcome::Conflict);
                }
                match (out.action_key, own) {
                    (0, None) => return Ok(()),
                    (0, Some(_)) => self.remove(&[port], nexus, established),
                    (key, _) => self.register(port, key),
                }
                self.persists = out.persist;
            }
            1 => {
                match self.reservation {
                    None => self.reservation = Some((out.kind, port)),
                    Some((kind, _)) if kind == out.kind && self.holds(port) => {}
                    Some(_) => return Err(Outcome::Conflict),
                }
                return Ok(());
            }
            2 => {
                let Some((kind, _)) = self.reservation.filter(|_| self.holds(port)) else {
                    return Ok(());
                };
                if kind != out.kind {
                    return Err(Outcome::Illegal);
                }
                self.reservation = None;
                self.establish_released(kind, port, established);
                return Ok(());
            }
            3 => {
                for (other, _) in std::mem::take(&mut self.registrations) {
                    if other != port {
                        established.push((other, Attention::ReservationsPreempted));
                    }
                }
                self.reservation = None;
            }
            4 | 5 => self.preempt(out, nexus, established, aborted)?,
            _ => {
                let Some((kind, holder)) = self.reservation else {
                    return Err(Outcome::Conflict);
                };
                if holder != port || is_all_registrants(kind) {
                    return Err(Outcome::Conflict);
                }
                if out.action_key == 0 || out.to == port {
                    return Err(Outcome::Illegal);
                }
                self.register(out.to, out.action_key);
                self.reservation = Some((kind, out.to));
                if out.unregister {
                    self.registrations.retain(|(one, _)| *one != port);
                }
                self.persists = out.persist;
            }
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(())
    }

    fn register(&mut self, port: Port, key: u64) {
        match self
            .registrations
            .binary_search_by_key(&port, |(one, _)| *one)
        {
            Ok(place) => self.registrations[place].1 = key,
            Err(place) => self.registrations.insert(place, (port, key)),
        }
    }

    /// SPC-4 5.13.11.3: removing the registration of the only holder releases the reservation.
    fn remove(&mut self, gone: &[Port], nexus: Nexus, established: &mut Vec<Established>) {
        self.registrations.retain(|(one, _)| !gone.contains(one));
        let Some((kind, holder)) = self.reservation else {
            return;
        };
        if is_all_registrants(kind) && !self.registrations.is_empty() {
            if gone.contains(&holder) {
                self.reservation = Some((kind, self.registrations[0].0));
            }
            return;
        }
        if gone.contains(&holder) {
            self.reservation = None;
            self.establish_released(kind, nexus.port, established);
        }
    }

    fn establish_released(&self, kind: u8, own: Port, established: &mut Vec<Established>) {
        if admits_registrants(kind) {
            let others = self.registrations.iter().filter(|(one, _)| *one != own);
            established.extend(others.map(|(other, _)| (*other, RESERVATIONS_RELEASED)));
        }
    }

    /// PREEMPT and PREEMPT AND ABORT (SPC-4 5.13.11.4, 5.13.11.5).
    fn preempt(
        &mut self,
        out: &Out,
        nexus: Nexus,
        established: &mut Vec<Established>,
        aborted: &mut Vec<Port>,
    ) -> Result<(), Outcome> {
        let port = nexus.port;
        let held = self.reservation;
        let takes = match held {
            Some((kind, _)) if is_all_registrants(kind) => out.action_key == 0,
            Some((_, holder)) => out.action_key != 0 && self.key_of(holder) == Some(out.action_key),
            None => false,
        };
        if out.action_key == 0 && !takes {
            return Err(Outcome::Illegal);
        }
        let hit = |(one, key): &&(Port, u64)| {
            *one != port && (out.action_key == 0 || *key == out.action_key)
        };
        let gone: Vec<Port> = self
            .registrations
            .iter()
            .filter(hit)
            .map(|one| one.0)
            .collect();
        let known = self.registrations.iter().any(|one| one.1 == out.action_key);
        if !takes && !known {
            return Err(Outcome::Conflict);
        }
        self.registrations.retain(|(one, _)| !gone.contains(one));
        if takes {
            self.reservation = Some((out.kind, port));
            if let Some((kind, _)) = held.filter(|(kind, _)| *kind != out.kind) {
                self.establish_released(kind, port, established);
            }
        } else if let Some((kind, holder)) = held
            && is_all_registrants(kind)
            && gone.contains(&holder)
        {
            self.reservation = Some((kind, port));
        }
        established.extend(gone.iter().map(|one| (*one, REGISTRATIONS_PREEMPTED)));
        if out.action == 5 {
            *aborted = gone;
        }
        Ok(())
    }
}

/// The class of a command.
pub(crate) fn class_of(scsi: &Scsi) -> Class {
    match scsi {
        Scsi::Inquiry | Scsi::ReportLuns | Scsi::RequestSense => Class::Always,
        Scsi::TestUnitReady | Scsi::ReadCapacity | Scsi::TargetPortGroups => Class::AnyPersistent,
        Scsi::ReserveIn { .. } => Class::AnyPersistent,
        Scsi::Read { .. }
        | Scsi::Verify { .. }
        | Scsi::PreFetch { .. }
        | Scsi::LbaStatus { .. }
        | Scsi::DefectData => Class::Reading,
        Scsi::PreventAllow { prevent: false } => Class::Unsure,
        _ => Class::Writing,
    }
}
