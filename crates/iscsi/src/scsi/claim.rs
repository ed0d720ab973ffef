//! How an initiator claims a unit by a key (SPC-4 5.13): what it sends, and what it may do by what is registered.
//!
//! An initiator that comes for the first time registers, and then looks who else has: of two that do so at once, at least
//! one sees the other. One that comes back renews its registration, which the target refuses once somebody has removed it.
//! Where the target has lost it, or the nexus is a new one, it looks first, as whoever removed its key meant it to stay
//! away; then it registers, and looks again whether anything came between. Until then its key is marked, and no proof that its
//! host may: else that of a nexus that is lost in just that moment would be.
//!
//! The type is Write Exclusive – All Registrants (7h). Of one for registrants only (5h, 6h) a single nexus is the holder,
//! and with that one's registration it would end while others are in use; with all registrants it lasts as long as any. Exclusive
//! Access – All Registrants (8h) would keep other hosts from reading, too, also from what they read to find their disks.
//!
//! Each route of a host has a key of its own ([`HostKey`]), so that a session that is lost can be fenced by it: PREEMPT AND
//! ABORT of that key ends what it has under way, and what of it comes later is refused.

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

/// The key by which a host is known, in the lower 56 bits; above are the route's place among those of the host, and the mark of
/// one that may have to go again. So the key of the first route, or of the only one, is the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostKey(NonZeroU64);

impl HostKey {
    const BITS: u32 = 56;
    const MOST_ROUTES: u64 = 128;
    /// Marks the key of a nexus that does not know yet whether it may be registered.
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

    /// The key of the route at a place. Of more than 128 routes some share one.
    #[must_use]
    pub fn of_route(self, place: usize) -> u64 {
        self.get() | (place as u64 % HostKey::MOST_ROUTES) << HostKey::BITS
    }

    /// The key that a route has before its own one.
    #[must_use]
    pub fn unsure(key: u64) -> u64 {
        key | HostKey::UNSURE
    }

    /// Whether a key is that of a route of this host.
    #[must_use]
    pub fn is_of(self, key: u64) -> bool {
        key & ((1 << HostKey::BITS) - 1) == self.get()
    }
}

/// A PERSISTENT RESERVE OUT of an initiator whose key is `key`. All are about Write Exclusive – All Registrants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReserveOut {
    /// Registers the nexus, whatever it was registered with.
    Register {
        /// Its key.
        key: u64,
    },
    /// Keeps the nexus registered, with the same key or another; refused where it is not any more.
    Renew {
        /// Its key.
        key: u64,
        /// Its key from now on.
        next: u64,
    },
    /// Unregisters the nexus.
    Unregister {
        /// Its key.
        key: u64,
    },
    /// Reserves the unit, or does nothing where a registered nexus has.
    Reserve {
        /// Its key.
        key: u64,
    },
    /// Unregisters all other nexuses that have a key, which may be its own. Some targets unregister this one with those.
    Preempt {
        /// Its key.
        key: u64,
        /// Theirs; 0 for all, where the reservation is one of all registrants, which becomes one of this type.
        other: u64,
        /// What they have under way is aborted, too.
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

    /// Whether it says if registrations are to outlive a loss of power: the last of these does, of whichever nexus.
    #[must_use]
    pub fn registers(self) -> bool {
        matches!(
            self,
            ReserveOut::Register { .. } | ReserveOut::Renew { .. } | ReserveOut::Unregister { .. }
        )
    }

    /// The parameter list: the nexus's key, and the one that the service action is about. If it `persists`, registrations
    /// are to outlive a loss of power (APTPL, SPC-4 5.13.5), which a target without that refuses.
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

/// What READ KEYS says (SPC-4 6.15.2): a key for each nexus that is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// Counts changes of the registrations, from 0 at each start of the target.
    pub generation: u32,
    keys: Vec<u64>,
    /// There are more than the answer had room for.
    is_cut: bool,
}

impl Keys {
    /// Room for as many keys as an answer has to bring: more hosts never share a disk.
    pub const ANSWER_BYTES: u16 = HEADER_BYTES as u16 + 1024 * 8;

    /// Reads an answer, which may be followed by zeros.
    ///
    /// # Errors
    /// [`Malformed`] when it is too short to say how many keys there are.
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

    /// Whether some nexus of `host` is registered, and knows that it may be. Where not all keys are known, one is taken to be.
    #[must_use]
    pub fn has(&self, host: HostKey) -> bool {
        let is_sure = |key: u64| host.is_of(key) && key & HostKey::UNSURE == 0;
        self.is_cut || self.keys.iter().any(|key| is_sure(*key))
    }

    /// The keys of `host`'s nexuses, of each its own, as far as all keys are known, marked or not.
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

    /// The keys that are not those of `host`, or not there, each once.
    #[must_use]
    pub fn others(&self, host: Option<HostKey>) -> Vec<u64> {
        let is_of = |key: u64| host.is_some_and(|host| host.is_of(key));
        let others = self.keys.iter().copied();
        let mut others: Vec<u64> = others.filter(|key| !is_of(*key)).collect();
        others.sort_unstable();
        others.dedup();
        others
    }

    /// Whether `host`, which had registered, may register again: a key of it is there, or nobody else has registered since
    /// the target was started, and lost it. Otherwise somebody has removed it, and may have gone since.
    #[must_use]
    pub fn lets_back(&self, host: HostKey) -> bool {
        let is_alone = self.others(Some(host)).is_empty();
        self.has(host) || is_alone && self.generation as usize == self.keys.len()
    }

    /// After a nexus has registered `key`, whether that was right: nothing has changed since `before` but by itself. Else its
    /// host's keys may have been removed after they were seen, by somebody who has gone since.
    #[must_use]
    pub fn confirm(&self, before: &Keys, key: u64) -> bool {
        let changes = self.generation.wrapping_sub(before.generation);
        !self.lacks(key) && changes <= 1
    }
}

/// Whether a unit attention says that registrations or a reservation were taken away: RESERVATIONS PREEMPTED,
/// RESERVATIONS RELEASED or REGISTRATIONS PREEMPTED. Commands of the nexus may have been aborted with them.
#[must_use]
pub fn is_about_reservations(sense: &Sense) -> bool {
    let codes = [
        AdditionalSense::RESERVATIONS_PREEMPTED,
        AdditionalSense::RESERVATIONS_RELEASED,
        AdditionalSense::REGISTRATIONS_PREEMPTED,
    ];
    sense.key == SenseKey::UnitAttention && codes.contains(&sense.additional)
}

/// The initiators that have registered a key of `host`, as the answer to READ FULL STATUS names them (SPC-4 6.15.5); those with
/// another transport than iSCSI have no name. Descriptors that have not come in full are left out.
///
/// # Errors
/// [`Malformed`] when it is too short to say how many there are.
pub fn parse_registrants(data: &[u8], host: HostKey) -> Result<Vec<Option<String>>, Malformed> {
    /// A descriptor without its TransportID, and where that one's length is.
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
        // 3 keys, of which one has come.
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
        // One of its nexuses was registering, and was lost.
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
        // The other one has preempted, and then this one has registered.
        assert!(!keys(6, &[marked, OTHER]).confirm(&before, marked));
        // Somebody may have come and gone.
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
