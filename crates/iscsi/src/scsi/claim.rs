//! How an initiator claims a unit by a reservation key (SPC-4 5.13): the commands to send, and what the registrations
//! allow.
//!
//! A new initiator registers, and then reads which others have: of two that do so at once, at least one sees the other.
//! A returning one renews its registration, which the target rejects once another initiator has removed it. Where the
//! target has lost the registration, or the nexus is new, it reads the keys first, because an initiator that removed
//! its key meant to exclude it; then it registers, and checks whether anything changed in between. Until then its key
//! is marked, and does not prove that its host may register: otherwise the key of a nexus lost at just that moment
//! would.
//!
//! The type is Write Exclusive – All Registrants (7h). A reservation for registrants only (5h, 6h) has a single nexus
//! as holder, and would end with its registration while others are in use; with all registrants it lasts as long as
//! any. Exclusive Access – All Registrants (8h) would exclude other hosts from reads, too, including those by which
//! they find their disks.
//!
//! Each route of a host has its own key ([`HostKey`]), by which a lost session can be fenced: PREEMPT AND ABORT of that
//! key aborts its tasks, and later commands from it are rejected.

use core::num::NonZeroU64;

use super::cdb::Cdb;
use super::port::initiator_name;
use super::reservation::Kind;
use super::reserve_out::{
    APTPL, PREEMPT, PREEMPT_AND_ABORT, REGISTER, REGISTER_AND_IGNORE, RESERVE,
};
use super::{AdditionalSense, Malformed, Sense, SenseKey, be32, be64, opcode};

/// The parameter list of PERSISTENT RESERVE OUT.
const LIST_BYTES: u8 = 24;

/// PRGENERATION and ADDITIONAL LENGTH of READ KEYS.
const HEADER_BYTES: usize = 8;

/// A host's key, in the lower 56 bits; above are the route's index among those of the host, and the mark of a
/// provisional key. So the key of the first route, or of the only one, is the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostKey(NonZeroU64);

impl HostKey {
    const BITS: u32 = 56;
    const MOST_ROUTES: u64 = 128;
    /// Marks the key of a nexus that does not know yet whether it may register.
    const UNSURE: u64 = 1 << 63;

    /// `None` if it is 0 or has more than 56 bits.
    #[must_use]
    pub fn new(key: u64) -> Option<HostKey> {
        let key = NonZeroU64::new(key).filter(|key| key.get() >> HostKey::BITS == 0);
        key.map(HostKey)
    }

    /// As a number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0.get()
    }

    /// The key of the route at an index. With more than 128 routes some share one.
    #[must_use]
    pub fn of_route(self, place: usize) -> u64 {
        self.get() | (place as u64 % HostKey::MOST_ROUTES) << HostKey::BITS
    }

    /// The provisional key of a route.
    #[must_use]
    pub fn unsure(key: u64) -> u64 {
        key | HostKey::UNSURE
    }

    /// Whether a key belongs to a route of this host.
    #[must_use]
    pub fn is_of(self, key: u64) -> bool {
        key & ((1 << HostKey::BITS) - 1) == self.get()
    }
}

/// A PERSISTENT RESERVE OUT of an initiator with key `key`, always for Write Exclusive – All Registrants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReserveOut {
    /// Registers the nexus, whatever key it had registered.
    Register {
        /// Its key.
        key: u64,
    },
    /// Keeps the nexus registered, with the same key or another; rejected if it no longer is.
    Renew {
        /// Its key.
        key: u64,
        /// Its new key.
        next: u64,
    },
    /// Unregisters the nexus.
    Unregister {
        /// Its key.
        key: u64,
    },
    /// Reserves the unit; no effect if a registered nexus already holds the reservation.
    Reserve {
        /// Its key.
        key: u64,
    },
    /// Unregisters all other nexuses with a key, possibly its own key. Some targets unregister this one along with
    /// them.
    Preempt {
        /// Its key.
        key: u64,
        /// Their key; 0 for all, if the reservation is of an all registrants type; it changes to this type.
        other: u64,
        /// Abort their tasks, too.
        aborts: bool,
    },
}

impl ReserveOut {
    /// The CDB.
    #[must_use]
    pub fn cdb(self) -> Cdb {
        let action = match self {
            ReserveOut::Register { .. } => REGISTER_AND_IGNORE,
            ReserveOut::Renew { .. } | ReserveOut::Unregister { .. } => REGISTER,
            ReserveOut::Reserve { .. } => RESERVE,
            ReserveOut::Preempt { aborts: true, .. } => PREEMPT_AND_ABORT,
            ReserveOut::Preempt { aborts: false, .. } => PREEMPT,
        };
        let mut cdb = [0; 16];
        cdb[0] = opcode::PERSISTENT_RESERVE_OUT;
        cdb[1] = action;
        if let ReserveOut::Reserve { .. } | ReserveOut::Preempt { .. } = self {
            cdb[2] = Kind::WriteExclusiveAllRegistrants as u8;
        }
        cdb[8] = LIST_BYTES;
        cdb
    }

    /// Whether it sets if registrations survive a power loss: the last such command decides, of any nexus.
    #[must_use]
    pub fn registers(self) -> bool {
        matches!(
            self,
            ReserveOut::Register { .. } | ReserveOut::Renew { .. } | ReserveOut::Unregister { .. }
        )
    }

    /// The parameter list: the nexus's key, and the service action key. If it `persists`, registrations survive a power
    /// loss (APTPL, SPC-4 5.13.5); a target without support rejects that.
    #[must_use]
    pub fn list(self, persists: bool) -> Vec<u8> {
        let (key, action_key) = match self {
            ReserveOut::Register { key } => (0, key),
            ReserveOut::Renew { key, next } => (key, next),
            ReserveOut::Unregister { key } | ReserveOut::Reserve { key } => (key, 0),
            ReserveOut::Preempt { key, other, .. } => (key, other),
        };
        let mut list = vec![0; LIST_BYTES.into()];
        list[..8].copy_from_slice(&key.to_be_bytes());
        list[8..16].copy_from_slice(&action_key.to_be_bytes());
        if persists && self.registers() {
            list[20] = APTPL;
        }
        list
    }
}

/// The data of READ KEYS (SPC-4 6.15.2): a key per registered nexus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// Counts changes of the registrations, from 0 at each start of the target.
    pub generation: u32,
    keys: Vec<u64>,
    /// There are more keys than the data had room for.
    is_cut: bool,
}

impl Keys {
    /// Room for as many keys as needed: more hosts never share a disk.
    pub const ANSWER_BYTES: u16 = HEADER_BYTES as u16 + 1024 * 8;

    /// Parses the data, which may be followed by zeros.
    ///
    /// # Errors
    /// [`Malformed`] when it is too short for the number of keys.
    pub fn parse(data: &[u8]) -> Result<Keys, Malformed> {
        Malformed::check_bytes("READ KEYS answer", data, HEADER_BYTES)?;
        let count = be32(data, 4) as usize / 8;
        let (keys, _) = data[HEADER_BYTES..].as_chunks::<8>();
        let keys: Vec<u64> = keys.iter().take(count).map(|key| be64(key, 0)).collect();
        Ok(Keys {
            generation: be32(data, 0),
            is_cut: keys.len() < count,
            keys,
        })
    }

    /// Whether some nexus of `host` is registered with an unmarked key. Assumed if not all keys are known.
    #[must_use]
    pub fn has(&self, host: HostKey) -> bool {
        let is_sure = |key: u64| host.is_of(key) && key & HostKey::UNSURE == 0;
        self.is_cut || self.keys.iter().any(|key| is_sure(*key))
    }

    /// The keys of `host`'s nexuses, each once per nexus, as far as all keys are known, marked or not.
    #[must_use]
    pub fn of(&self, host: HostKey) -> Vec<u64> {
        let own = self.keys.iter().copied();
        own.filter(|key| host.is_of(*key)).collect()
    }

    /// Whether no nexus has registered `key`, as far as all keys are known.
    #[must_use]
    pub fn lacks(&self, key: u64) -> bool {
        !self.is_cut && !self.keys.contains(&key)
    }

    /// The keys that are not those of `host`, if given, each once.
    #[must_use]
    pub fn others(&self, host: Option<HostKey>) -> Vec<u64> {
        let is_of = |key: u64| host.is_some_and(|host| host.is_of(key));
        let others = self.keys.iter().copied();
        let mut others: Vec<u64> = others.filter(|key| !is_of(*key)).collect();
        others.sort_unstable();
        others.dedup();
        others
    }

    /// Whether `host`, which was registered, may register again: one of its keys is registered, or nobody else has
    /// registered since the target restarted and lost it. Otherwise another host has removed it, and may have
    /// unregistered since.
    #[must_use]
    pub fn lets_back(&self, host: HostKey) -> bool {
        let is_alone = self.others(Some(host)).is_empty();
        self.has(host) || is_alone && self.generation as usize == self.keys.len()
    }

    /// After a nexus registered `key`: whether that was right, because nothing else has changed since `before`.
    /// Otherwise another host, which may have unregistered since, may have removed its host's keys after they were
    /// read.
    #[must_use]
    pub fn confirm(&self, before: &Keys, key: u64) -> bool {
        let changes = self.generation.wrapping_sub(before.generation);
        !self.lacks(key) && changes <= 1
    }
}

/// Whether a unit attention reports the removal of registrations or a reservation: RESERVATIONS PREEMPTED, RESERVATIONS
/// RELEASED or REGISTRATIONS PREEMPTED. Commands of the nexus may have been aborted with them.
#[must_use]
pub fn is_about_reservations(sense: &Sense) -> bool {
    let codes = [
        AdditionalSense::RESERVATIONS_PREEMPTED,
        AdditionalSense::RESERVATIONS_RELEASED,
        AdditionalSense::REGISTRATIONS_PREEMPTED,
    ];
    sense.key == SenseKey::UnitAttention && codes.contains(&sense.additional)
}

/// The initiators that have registered a key of `host`, as named by READ FULL STATUS (SPC-4 6.15.5); those with another
/// transport than iSCSI have no name. Incomplete descriptors are left out.
///
/// # Errors
/// [`Malformed`] when it is too short for their number.
pub fn parse_registrants(data: &[u8], host: HostKey) -> Result<Vec<Option<String>>, Malformed> {
    /// A descriptor without its TransportID, and the offset of the TransportID's length.
    const DESCRIPTOR_BYTES: usize = 24;
    const LENGTH_AT: usize = 20;
    Malformed::check_bytes("READ FULL STATUS answer", data, HEADER_BYTES)?;
    let (header, all) = data.split_at(HEADER_BYTES);
    let mut left = &all[..all.len().min(be32(header, 4) as usize)];
    let mut found = Vec::new();
    while let Some((descriptor, rest)) = left.split_at_checked(DESCRIPTOR_BYTES) {
        let id_bytes = be32(descriptor, LENGTH_AT) as usize;
        let Some((id, rest)) = rest.split_at_checked(id_bytes) else {
            break;
        };
        if host.is_of(be64(descriptor, 0)) {
            found.push(initiator_name(id));
        }
        left = rest;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u64 = 0xa;
    const OTHER: u64 = 0xb;

    fn host() -> HostKey {
        HostKey::new(OWN).expect("it has few bits")
    }

    #[test]
    fn each_route_has_a_key_by_which_its_host_is_known() {
        let host = host();
        assert_eq!(host.of_route(0), OWN);
        assert_eq!(host.of_route(3), 0x0300_0000_0000_000a);
        for place in 0..256 {
            let key = host.of_route(place);
            let marked = HostKey::unsure(key);
            assert!(host.is_of(key) && host.is_of(marked) && key != marked);
            assert!(!host.is_of(key ^ 1));
        }
        assert!(HostKey::new(0).is_none());
        assert!(HostKey::new(1 << 56).is_none());
        assert_eq!(
            HostKey::new((1 << 56) - 1).map(HostKey::get),
            Some((1 << 56) - 1)
        );
    }

    fn keys(generation: u32, keys: &[u64]) -> Keys {
        let mut data = generation.to_be_bytes().to_vec();
        data.extend((8 * keys.len() as u32).to_be_bytes());
        data.extend(keys.iter().flat_map(|key| key.to_be_bytes()));
        data.extend([0; 16]);
        Keys::parse(&data).unwrap()
    }

    #[test]
    fn known_bytes() {
        let register = ReserveOut::Register { key: 0x0102 };
        assert_eq!(register.cdb()[..10], [0x5f, 6, 0, 0, 0, 0, 0, 0, 24, 0]);
        let expected = [[0; 8], [0, 0, 0, 0, 0, 0, 1, 2], [0; 8]].concat();
        assert_eq!(register.list(false), expected);
        let unregister = ReserveOut::Unregister { key: 0x0102 };
        assert_eq!(unregister.cdb()[..3], [0x5f, 0, 0]);
        let expected = [[0, 0, 0, 0, 0, 0, 1, 2], [0; 8], [0; 8]].concat();
        assert_eq!(unregister.list(false), expected);
        let renew = ReserveOut::Renew { key: 1, next: 2 };
        assert_eq!(renew.cdb()[..3], [0x5f, 0, 0]);
        assert_eq!(renew.list(false)[7..16], [1, 0, 0, 0, 0, 0, 0, 0, 2]);
        for out in [register, unregister, renew] {
            assert_eq!(out.list(true)[16..], [0, 0, 0, 0, 1, 0, 0, 0]);
        }
        let reserve = ReserveOut::Reserve { key: 1 };
        assert_eq!(reserve.cdb()[..3], [0x5f, 1, 7]);
        assert_eq!(reserve.list(true), reserve.list(false));
        for (aborts, action) in [(true, 5), (false, 4)] {
            let (key, other) = (1, 2);
            let preempt = ReserveOut::Preempt { key, other, aborts };
            assert_eq!(preempt.cdb()[..3], [0x5f, action, 7]);
            assert_eq!(preempt.list(true)[7..16], [1, 0, 0, 0, 0, 0, 0, 0, 2]);
        }
    }

    #[test]
    fn keys_are_read_as_far_as_they_go() {
        let second = host().of_route(1);
        let some = keys(7, &[OTHER, second, OTHER, OWN]);
        assert_eq!(some.generation, 7);
        let another = HostKey::new(0xc).expect("it has few bits");
        assert!(some.has(host()) && !some.has(another));
        assert_eq!(some.of(host()), [second, OWN]);
        assert_eq!(some.others(Some(host())), [OTHER]);
        assert_eq!(some.others(None), [OWN, OTHER, second]);
        assert!(!some.lacks(OTHER) && some.lacks(OTHER + 1));
        assert!(Keys::parse(&[0; 7]).is_err());
        // 3 keys, of which one was received.
        let cut = [&[0, 0, 0, 1, 0, 0, 0, 24][..], &OTHER.to_be_bytes()].concat();
        let cut = Keys::parse(&cut).unwrap();
        assert!(cut.has(host()), "it may be among those that have not come");
        assert_eq!(cut.others(Some(host())), [OTHER]);
        assert!(!cut.lacks(OWN), "nor is it known to be missing");
    }

    #[test]
    fn who_was_removed_stays_away() {
        assert!(keys(1, &[OWN, OWN]).lets_back(host()));
        assert!(keys(1, &[OTHER, OWN]).lets_back(host()));
        assert!(!keys(1, &[OTHER]).lets_back(host()));
        assert!(keys(0, &[]).lets_back(host()), "the target was restarted");
        assert!(!keys(3, &[]).lets_back(host()), "who removed it has left");
        // One of its nexuses was lost while registering.
        let marked = HostKey::unsure(OWN);
        assert!(keys(9, &[marked, OWN]).lets_back(host()));
        assert!(!keys(9, &[marked]).lets_back(host()), "that proves nothing");
        assert!(!keys(1, &[marked, OTHER]).lets_back(host()));
        assert!(
            keys(1, &[marked]).lets_back(host()),
            "nobody else has registered"
        );
    }

    #[test]
    fn what_came_between_is_noticed() {
        let before = keys(4, &[OWN, OTHER]);
        let marked = HostKey::unsure(OWN);
        assert!(keys(5, &[OWN, marked, OTHER]).confirm(&before, marked));
        assert!(!keys(5, &[OWN, OTHER]).confirm(&before, marked));
        // The other one preempted, and then this one registered.
        assert!(!keys(6, &[marked, OTHER]).confirm(&before, marked));
        // Another host may have registered and unregistered.
        assert!(!keys(9, &[OWN, marked]).confirm(&before, marked));
        let wraps = keys(u32::MAX, &[OTHER, OWN]);
        assert!(keys(0, &[OTHER, OWN, marked]).confirm(&wraps, marked));
    }

    #[test]
    fn registrants_are_named() {
        let descriptor = |key: u64, id: &[u8]| {
            let length = (id.len() as u32).to_be_bytes();
            [&key.to_be_bytes(), &[0; 12][..], &length, id].concat()
        };
        let own = super::super::tests::port("iqn.a").transport_id();
        // FORMAT CODE 00b: without an ISID; and SAS.
        let device = *b"\x05\0\0\x14iqn.2026-01.net.b\0\0\0";
        let sas = [6; 24];
        let all = [
            descriptor(OWN, &own),
            descriptor(OTHER, &own),
            descriptor(host().of_route(2), &device),
            descriptor(OWN, &sas),
        ];
        let all = all.concat();
        let length = (all.len() as u32).to_be_bytes();
        let answer = [&[0, 0, 0, 7], &length, &all[..], &[0; 9]].concat();
        let name = |name: &str| Some(name.to_owned());
        let expected = [name("iqn.a"), name("iqn.2026-01.net.b"), None];
        assert_eq!(parse_registrants(&answer, host()).unwrap(), expected);
        assert_eq!(parse_registrants(&answer[..8], host()).unwrap(), []);
        for end in 8..answer.len() - 9 {
            assert!(parse_registrants(&answer[..end], host()).unwrap().len() < 3);
        }
        assert!(parse_registrants(&answer[..7], host()).is_err());
    }

    #[test]
    fn only_attentions_about_reservations_are_such() {
        let attention = |code, qualifier| Sense {
            key: SenseKey::UnitAttention,
            additional: AdditionalSense { code, qualifier },
            ..Sense::illegal(AdditionalSense::INVALID_FIELD_IN_CDB)
        };
        for qualifier in 0..=7 {
            let expected = (3..=5).contains(&qualifier);
            assert_eq!(is_about_reservations(&attention(0x2a, qualifier)), expected);
        }
        assert!(!is_about_reservations(&attention(0x29, 3)));
    }
}
