//! Reservations of a logical unit: persistent ones (SPC-4 5.13) and those of RESERVE (6) (SPC-2 5.5).
//!
//! The state and its rules; the commands are in `reserve_in` and `reserve_out`.

use super::nexus::{Access, NexusId};
use super::port::InitiatorPort;

/// Most registrations of a unit.
pub(super) const MAX_REGISTRATIONS: usize = 1024;

/// TYPE of a persistent reservation (SPC-4 table 62).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    WriteExclusive = 1,
    ExclusiveAccess = 3,
    WriteExclusiveRegistrantsOnly = 5,
    ExclusiveAccessRegistrantsOnly = 6,
    WriteExclusiveAllRegistrants = 7,
    ExclusiveAccessAllRegistrants = 8,
}

impl Kind {
    pub(super) const fn from_code(code: u8) -> Option<Kind> {
        Some(match code {
            1 => Kind::WriteExclusive,
            3 => Kind::ExclusiveAccess,
            5 => Kind::WriteExclusiveRegistrantsOnly,
            6 => Kind::ExclusiveAccessRegistrantsOnly,
            7 => Kind::WriteExclusiveAllRegistrants,
            8 => Kind::ExclusiveAccessAllRegistrants,
            _ => return None,
        })
    }

    /// Every registered nexus holds it.
    pub(super) const fn is_all_registrants(self) -> bool {
        matches!(
            self,
            Kind::WriteExclusiveAllRegistrants | Kind::ExclusiveAccessAllRegistrants
        )
    }

    /// Registered nexuses have full access.
    pub(super) const fn admits_registrants(self) -> bool {
        !matches!(self, Kind::WriteExclusive | Kind::ExclusiveAccess)
    }

    /// The access that it leaves to others.
    const fn leaves(self) -> Access {
        match self {
            Kind::WriteExclusive
            | Kind::WriteExclusiveRegistrantsOnly
            | Kind::WriteExclusiveAllRegistrants => Access::Reading,
            Kind::ExclusiveAccess
            | Kind::ExclusiveAccessRegistrantsOnly
            | Kind::ExclusiveAccessAllRegistrants => Access::Registering,
        }
    }
}

/// A registered initiator port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registration {
    pub(super) port: InitiatorPort,
    /// Never 0.
    pub(super) key: u64,
}

/// A persistent reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reservation {
    pub(super) kind: Kind,
    /// Its creator; with the all-registrants kinds any registered port holds it as well.
    pub(super) holder: InitiatorPort,
}

/// The reservations of a unit.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Reservations {
    /// PRGENERATION.
    pub(super) generation: u32,
    pub(super) registrations: Vec<Registration>,
    pub(super) reservation: Option<Reservation>,
    /// APTPL: registrations and reservation survive a restart of the target.
    pub(super) persist: bool,
    /// The nexus that reserved the unit with RESERVE (6).
    pub(super) exclusive: Option<NexusId>,
}

impl Reservations {
    pub(super) fn key_of(&self, port: &InitiatorPort) -> Option<u64> {
        let mut registered = self.registrations.iter();
        let found = registered.find(|registration| registration.port == *port);
        found.map(|registration| registration.key)
    }

    /// Whether the registered `port` holds the reservation.
    pub(super) fn is_held_by(&self, port: &InitiatorPort) -> bool {
        self.reservation.as_ref().is_some_and(|reservation| {
            reservation.kind.is_all_registrants() || reservation.holder == *port
        })
    }

    /// The access of the nexus `id` of `port`.
    pub(super) fn access(&self, id: NexusId, port: &InitiatorPort) -> Access {
        if let Some(exclusive) = self.exclusive {
            return match exclusive == id {
                true => Access::Full,
                false => Access::Nothing,
            };
        }
        let Some(Reservation { kind, holder }) = &self.reservation else {
            return Access::Full;
        };
        let registered = kind.admits_registrants() && self.key_of(port).is_some();
        match *holder == *port || registered {
            true => Access::Full,
            false => kind.leaves(),
        }
    }

    /// Registers `port` with `key`, or changes its key. Returns whether there was room.
    pub(super) fn register(&mut self, port: &InitiatorPort, key: u64) -> bool {
        let mut registered = self.registrations.iter_mut();
        if let Some(found) = registered.find(|registration| registration.port == *port) {
            found.key = key;
            return true;
        }
        if self.registrations.len() >= MAX_REGISTRATIONS {
            return false;
        }
        self.registrations.push(Registration {
            port: port.clone(),
            key,
        });
        true
    }

    /// Removes registrations. A reservation that they held is released, unless it is an all-registrants one that others
    /// hold as well. Returns the removed ports, and the kind of the released reservation.
    pub(super) fn unregister(
        &mut self,
        hit: impl Fn(&Registration) -> bool,
    ) -> (Vec<InitiatorPort>, Option<Kind>) {
        let removed = self.registrations.extract_if(.., |one| hit(one));
        let removed: Vec<InitiatorPort> = removed.map(|one| one.port).collect();
        let first_left = self.registrations.first().map(|one| one.port.clone());
        let Some(reservation) = &mut self.reservation else {
            return (removed, None);
        };
        if !removed.contains(&reservation.holder) {
            return (removed, None);
        }
        if let Some(next) = first_left.filter(|_| reservation.kind.is_all_registrants()) {
            reservation.holder = next;
            return (removed, None);
        }
        let kind = reservation.kind;
        self.reservation = None;
        (removed, Some(kind))
    }

    /// The state that survives a restart, as text; empty for none.
    pub(super) fn to_text(&self) -> String {
        if !self.persist || self.registrations.is_empty() {
            return String::new();
        }
        let mut text = format!("{HEADER}\n");
        for Registration { port, key } in &self.registrations {
            text += &format!("registration {key:016x} {}\n", port.text());
        }
        if let Some(Reservation { kind, holder }) = &self.reservation {
            text += &format!("reservation {} {}\n", *kind as u8, holder.text());
        }
        text
    }

    /// Parses the output of [`Reservations::to_text`]; `None` when it is malformed.
    pub(super) fn from_text(text: &str) -> Option<Reservations> {
        let mut reservations = Reservations::default();
        if text.is_empty() {
            return Some(reservations);
        }
        let mut lines = text.lines();
        if lines.next()? != HEADER {
            return None;
        }
        reservations.persist = true;
        for line in lines {
            let mut words = line.split(' ');
            let (what, value, port) = (words.next()?, words.next()?, words.next()?);
            let port = InitiatorPort::from_text(port)?;
            match what {
                "registration" => {
                    let key = u64::from_str_radix(value, 16)
                        .ok()
                        .filter(|key| *key != 0)?;
                    reservations.register(&port, key).then_some(())?;
                }
                "reservation" => {
                    let kind = Kind::from_code(value.parse().ok()?)?;
                    reservations.key_of(&port)?;
                    reservations.reservation = Some(Reservation { kind, holder: port });
                }
                _ => return None,
            }
        }
        Some(reservations)
    }
}

/// The first line of the saved state.
const HEADER: &str = "wansan reservations 1";

#[cfg(test)]
mod tests {
    use super::super::tests::port;
    use super::*;

    fn registered() -> Reservations {
        let mut reservations = Reservations {
            persist: true,
            ..Reservations::default()
        };
        assert!(reservations.register(&port("iqn.a"), 0xa));
        assert!(reservations.register(&port("iqn.b"), 0xb));
        reservations
    }

    fn reserved(kind: Kind) -> Reservations {
        Reservations {
            reservation: Some(Reservation {
                kind,
                holder: port("iqn.a"),
            }),
            ..registered()
        }
    }

    #[test]
    fn each_kind_leaves_what_its_table_says() {
        let ports = ["iqn.a", "iqn.b", "iqn.c"];
        for (code, others) in [
            // The holder, a registered port, and one that is not.
            (1, [Access::Full, Access::Reading, Access::Reading]),
            (3, [Access::Full, Access::Registering, Access::Registering]),
            (5, [Access::Full, Access::Full, Access::Reading]),
            (6, [Access::Full, Access::Full, Access::Registering]),
            (7, [Access::Full, Access::Full, Access::Reading]),
            (8, [Access::Full, Access::Full, Access::Registering]),
        ] {
            let kind = Kind::from_code(code).expect("a kind");
            let reservations = reserved(kind);
            let left = ports.map(|name| reservations.access(NexusId::default(), &port(name)));
            assert_eq!(left, others, "{kind:?}");
        }
        assert!(
            (0..=255)
                .filter(|code| Kind::from_code(*code).is_some())
                .count()
                == 6
        );
    }

    #[test]
    fn a_reservation_goes_with_its_holder_unless_all_hold_it() {
        let mut alone = reserved(Kind::WriteExclusive);
        let (removed, released) = alone.unregister(|one| one.key == 0xa);
        assert_eq!(removed, [port("iqn.a")]);
        assert_eq!(released, Some(Kind::WriteExclusive));
        assert_eq!(alone.reservation, None);

        let mut all = reserved(Kind::WriteExclusiveAllRegistrants);
        assert_eq!(all.unregister(|one| one.key == 0xa).1, None);
        assert!(all.is_held_by(&port("iqn.b")));
        let last = all.unregister(|one| one.key == 0xb).1;
        assert_eq!(last, Some(Kind::WriteExclusiveAllRegistrants));
    }

    #[test]
    fn what_persists_reads_back() {
        for reservations in [registered(), reserved(Kind::ExclusiveAccessRegistrantsOnly)] {
            let text = reservations.to_text();
            assert_eq!(Reservations::from_text(&text), Some(reservations));
        }
        let cleared = Reservations {
            persist: true,
            ..Reservations::default()
        };
        assert_eq!(cleared.to_text(), "", "no registration, nothing to keep");
        assert_eq!(Reservations::from_text(""), Some(Reservations::default()));
        for wrong in [
            "something else\n",
            "wansan reservations 1\nregistration 0 iqn.a,i,0x800000000001\n",
            "wansan reservations 1\nreservation 1 iqn.a,i,0x800000000001\n",
            "wansan reservations 1\nregistration a\n",
        ] {
            assert_eq!(Reservations::from_text(wrong), None, "{wrong}");
        }
    }
}
