//! Which connection to drop when too many wait to log in.
//!
//! Everybody may connect, so connections that have not logged in have a limit of their own, and a new one never waits
//! for an old one: it replaces the one that has been slowest. An address with many connections loses its own first, so
//! that it cannot use up the slots of others.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use wansan_trace::Instant;

/// Connections of all threads that may wait to log in, or to close without having done so. Each costs a descriptor and
/// some tens of KiB.
pub(super) const MAX_WAITING: usize = 1024;

/// One address may use 1 in this many of all slots, or as many as one session may have connections: an initiator opens
/// them all at once.
const SHARE: usize = 4;

/// A connection that has not logged in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    /// Its slot in the thread's connections.
    pub(super) slot: u16,
    pub(super) address: IpAddr,
    pub(super) came: Instant,
    /// Its progress.
    pub(super) progress: Progress,
}

/// Progress of a connection that has not logged in; earlier variants are dropped first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Progress {
    /// Failed, and closing.
    Closing,
    /// No complete PDU received yet.
    Silent,
    /// Login in progress.
    LoggingIn,
}

/// The slot of the connection to drop for a new one from `newcomer`, on a thread with `places` for waiting connections,
/// where a session may have `connections`; `None` when there is room.
pub(super) fn makes_room(
    waiting: &[Waiting],
    newcomer: IpAddr,
    places: usize,
    connections: usize,
) -> Option<u16> {
    let newcomer = site(newcomer);
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for one in waiting {
        *counts.entry(site(one.address)).or_default() += 1;
    }
    let of_newcomer = counts.get(&newcomer).copied().unwrap_or(0);
    let crowded = if of_newcomer >= (places / SHARE).max(connections).min(places) {
        newcomer
    } else if waiting.len() >= places {
        counts.into_iter().max_by_key(|(_, count)| *count)?.0
    } else {
        return None;
    };
    let of_crowd = waiting.iter().filter(|one| site(one.address) == crowded);
    let first_to_go = of_crowd.min_by_key(|one| (one.progress, one.came))?;
    Some(first_to_go.slot)
}

/// Slots of each of `threads`, where the process may open `descriptors`: at most a quarter of them are for connections
/// that have not logged in. A thread has at least one.
pub(super) fn places(threads: usize, descriptors: usize) -> usize {
    (MAX_WAITING.min(descriptors / 4) / threads.max(1)).max(1)
}

/// What counts as one address: an IPv6 host has all addresses of its network.
fn site(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(slot: u16, address: &str, came_s: u64, progress: Progress) -> Waiting {
        Waiting {
            slot,
            address: address.parse().unwrap(),
            came: Instant::from_ns(came_s * 1_000_000_000),
            progress,
        }
    }

    fn goes(all: &[Waiting], newcomer: &str, places: usize) -> Option<u16> {
        makes_room(all, newcomer.parse().unwrap(), places, 1)
    }

    #[test]
    fn whoever_holds_most_places_makes_room() {
        use Progress::{Closing, LoggingIn, Silent};
        let mut all = vec![
            waiting(0, "192.0.2.1", 1, LoggingIn),
            waiting(1, "192.0.2.9", 2, LoggingIn),
            waiting(2, "192.0.2.9", 4, Silent),
            waiting(3, "192.0.2.9", 3, Silent),
        ];
        assert_eq!(goes(&all, "192.0.2.1", 16), None);
        // All slots are taken: the slowest of the largest group.
        assert_eq!(goes(&all, "192.0.2.1", 4), Some(0));
        assert_eq!(goes(&all, "192.0.2.2", 4), Some(3));
        // There is room, but not for more from this address.
        assert_eq!(goes(&all, "192.0.2.9", 12), Some(3));
        assert_eq!(goes(&all, "192.0.2.2", 12), None);
        all.push(waiting(4, "192.0.2.9", 9, Closing));
        assert_eq!(goes(&all, "192.0.2.9", 12), Some(4));
    }

    #[test]
    fn all_connections_of_a_session_may_log_in_at_once() {
        let all: Vec<Waiting> = (0..3)
            .map(|slot| waiting(slot, "192.0.2.9", 1, Progress::LoggingIn))
            .collect();
        let newcomer = "192.0.2.9".parse().unwrap();
        assert_eq!(makes_room(&all, newcomer, 12, 3), Some(0));
        assert_eq!(makes_room(&all, newcomer, 12, 4), None);
        // No more than all slots.
        assert_eq!(makes_room(&all, newcomer, 3, 4), Some(0));
    }

    #[test]
    fn an_ipv6_network_is_one_address() {
        use Progress::Silent;
        let all = [
            waiting(0, "2001:db8::1", 1, Silent),
            waiting(1, "2001:db8::2:0:0:1", 2, Silent),
        ];
        assert_eq!(goes(&all, "2001:db8::9", 8), Some(0));
        assert_eq!(goes(&all, "2001:db8:0:1::9", 8), None);
    }

    #[test]
    fn few_descriptors_leave_few_places() {
        assert_eq!(places(4, 1 << 20), MAX_WAITING / 4);
        assert_eq!(places(2, 1024), 128);
        assert_eq!(places(64, 1024), 4);
        assert_eq!(places(64, 16), 1);
        for threads in [1, 7, 100, 1024] {
            assert!(threads * places(threads, 1 << 20) <= MAX_WAITING);
        }
    }
}
