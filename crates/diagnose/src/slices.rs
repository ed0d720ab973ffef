//! Combines several slices: selects a representative one, and measures how much they differ.
//!
//! As in a capture explained in parts, the result describes one slice, so that its numbers are consistent: of the
//! slices whose limit accounts for the most I/O time, the one with the most I/O. Statistics over all slices accompany
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde::Serialize;

use crate::diagnosis::{Diagnosis, SessionDiagnosis};
use crate::host::Ends;

/// Most sessions with statistics. The least recently seen ones are dropped: over an endless diagnosis, most of them
/// have ended.
const MOST_SESSIONS: usize = 1024;

/// Statistics of a session over all slices.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sampled {
    /// Slices with I/Os of the session.
    pub slices: u64,
    /// Of these, slices with the same limit.
    pub alike: u64,
    /// I/Os per second, mean over the slices.
    pub iops: f64,
    /// Mean latency over these, in ns.
    pub latency_ns: f64,
    /// Standard error of that mean, in ns, as time between slices is not observed. Unreliable for few slices.
    pub error_ns: f64,
}

/// Accumulates slices.
#[derive(Debug, Default)]
pub struct Slices {
    count: u64,
    looked_seconds: f64,
    sessions: BTreeMap<Key, Sums>,
    /// Connections that had only incomplete I/Os in a slice, and the number of the last such slice.
    unfinished: BTreeMap<Ends, u64>,
    /// For each limit of the busiest session, the slice with the most I/O time.
    best: BTreeMap<&'static str, Best>,
    /// The latest slice without I/Os.
    idle: Option<Diagnosis>,
}

/// The representative slice for a limit.
#[derive(Debug)]
struct Best {
    /// Total I/O time of all slices with this limit.
    all_ns: f64,
    /// I/O time of this slice.
    most_ns: f64,
    /// Its number, from 1.
    number: u64,
    slice: Diagnosis,
}

/// A session's connections.
type Key = Vec<(SocketAddr, SocketAddr)>;

/// Sums over slices.
#[derive(Debug, Default)]
struct Sums {
    /// Number of the last slice with the session's I/Os.
    last: u64,
    slices: u64,
    limits: BTreeMap<&'static str, u64>,
    iops: f64,
    latency_ns: f64,
    squares: f64,
}

impl Slices {
    /// Adds a slice.
    pub fn add(&mut self, slice: Diagnosis) {
        self.count += 1;
        self.looked_seconds += slice.looked_seconds;
        for session in &slice.sessions {
            let latency_ns = session.judgement.latency_ns;
            let sums = self.sessions.entry(key(session)).or_default();
            sums.last = self.count;
            sums.slices += 1;
            *sums
                .limits
                .entry(session.judgement.verdict.name())
                .or_default() += 1;
            sums.iops += session.iops;
            sums.latency_ns += latency_ns;
            sums.squares += latency_ns * latency_ns;
        }
        let unfinished = slice.unfinished.iter();
        self.unfinished
            .extend(unfinished.map(|ends| (*ends, self.count)));
        self.choose(slice);
        self.forget();
    }

    /// Keeps a slice that may become the representative one.
    fn choose(&mut self, slice: Diagnosis) {
        // Sessions are sorted by I/O, busiest first.
        let Some(busiest) = slice.sessions.first() else {
            self.idle = Some(slice);
            return;
        };
        let kind = busiest.judgement.verdict.name();
        let io_ns = busiest.iops * busiest.judgement.latency_ns * slice.looked_seconds;
        let best = self.best.remove(kind);
        let all_ns = best.as_ref().map_or(0.0, |best| best.all_ns) + io_ns;
        let best = best.filter(|best| best.most_ns >= io_ns);
        let best = best.unwrap_or(Best {
            all_ns,
            most_ns: io_ns,
            number: self.count,
            slice,
        });
        self.best.insert(kind, Best { all_ns, ..best });
    }

    /// Number of the currently representative slice, from 1; `None` if none had I/Os.
    #[must_use]
    pub fn shown(&self) -> Option<u64> {
        Some(most(self.best.values())?.number)
    }

    /// Number of slices.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Drops the least recently seen sessions above the limit. Sessions of slices that may be shown are kept; there is
    /// one such slice per limit.
    fn forget(&mut self) {
        while self.unfinished.len() > MOST_SESSIONS
            && let Some((&ends, _)) = self.unfinished.iter().min_by_key(|(_, last)| **last)
        {
            self.unfinished.remove(&ends);
        }
        if self.sessions.len() <= MOST_SESSIONS {
            return;
        }
        let shown = self.best.values().flat_map(|best| &best.slice.sessions);
        let shown: BTreeSet<Key> = shown.map(key).collect();
        let sessions = self
            .sessions
            .iter()
            .filter(|(key, _)| !shown.contains(*key));
        let mut seen: Vec<u64> = sessions.map(|(_, sums)| sums.last).collect();
        seen.sort_unstable_by(|one, other| other.cmp(one));
        let Some(&oldest) = seen.get(MOST_SESSIONS / 2) else {
            return;
        };
        self.sessions
            .retain(|key, sums| sums.last > oldest || shown.contains(key));
    }

    /// The combined diagnosis of `seconds` of watching; `None` before the first slice.
    #[must_use]
    pub fn diagnosis(self, seconds: f64) -> Option<Diagnosis> {
        let most = most(self.best.into_values());
        let chosen = most.map(|best| best.slice).or(self.idle)?;
        let mut diagnosis = Diagnosis {
            seconds,
            looked_seconds: self.looked_seconds,
            slices: self.count,
            ..chosen
        };
        // An I/O that takes longer than a slice may have no packets in the representative one.
        let whole: BTreeSet<_> = self.sessions.keys().flatten().collect();
        let unfinished = { self.unfinished.into_keys() }
            .filter(|ends| !whole.contains(&(ends.initiator, ends.target)));
        diagnosis.unfinished = unfinished.collect();
        let unfinished = &diagnosis.unfinished;
        let has_ios = |ends: &Ends| {
            unfinished.contains(ends) || whole.contains(&(ends.initiator, ends.target))
        };
        diagnosis.quiet.retain(|ends| !has_ios(ends));
        if self.count > 1 {
            for session in &mut diagnosis.sessions {
                let sums = self.sessions.get(&key(session));
                session.sampled = sums.map(|sums| sums.of(session.judgement.verdict.name()));
            }
        }
        Some(diagnosis)
    }
}

/// The one whose limit accounts for the most I/O time.
fn most<B: std::borrow::Borrow<Best>>(all: impl Iterator<Item = B>) -> Option<B> {
    all.max_by(|one, other| one.borrow().all_ns.total_cmp(&other.borrow().all_ns))
}

impl Sums {
    fn of(&self, kind: &'static str) -> Sampled {
        let count = self.slices.max(1) as f64;
        let mean = self.latency_ns / count;
        let variance =
            (self.squares / count - mean * mean).max(0.0) * count / (count - 1.0).max(1.0);
        Sampled {
            slices: self.slices,
            alike: self.limits.get(kind).copied().unwrap_or(0),
            iops: self.iops / count,
            latency_ns: mean,
            error_ns: (variance / count).sqrt(),
        }
    }
}

fn key(session: &SessionDiagnosis) -> Key {
    let mut key = session.connections.clone();
    key.sort_unstable();
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Role;
    use crate::judge::{Judgement, Verdict};
    use crate::software::Software;

    /// A slice of one second with one session.
    fn slice(verdict: Verdict, iops: f64, latency_ns: f64) -> Diagnosis {
        let session = SessionDiagnosis {
            role: Role::Initiator,
            connections: vec![(([10, 0, 0, 1], 40_000).into(), ([10, 0, 0, 2], 3260).into())],
            initiator_name: None,
            target_name: None,
            initiator: Software::Unknown,
            target: Software::Unknown,
            process: None,
            kernel: None,
            iops,
            outstanding: 1.0,
            outstanding_max: 1,
            sampled: None,
            both_ends: None,
            shares: Vec::new(),
            disks: Vec::new(),
            stores: Vec::new(),
            bounds: Vec::new(),
            judgement: Judgement {
                verdict,
                counts_ns: latency_ns,
                latency_ns,
                host_ns: 0.0,
                target_share: 0.0,
            },
            finding: String::new(),
            changes: Vec::new(),
        };
        Diagnosis {
            seconds: 1.0,
            looked_seconds: 1.0,
            slices: 1,
            sources: Vec::new(),
            sessions: vec![session],
            multipaths: Vec::new(),
            unfinished: Vec::new(),
            quiet: Vec::new(),
        }
    }

    #[test]
    fn the_limit_of_most_io_time_is_said_with_the_numbers_of_one_slice() {
        let mut slices = Slices::default();
        slices.add(slice(Verdict::Target, 1000.0, 1e6));
        slices.add(slice(Verdict::TooFewIos, 1200.0, 1.1e6));
        slices.add(slice(Verdict::Target, 1100.0, 0.9e6));
        assert_eq!((slices.shown(), slices.count()), (Some(1), 3));
        let told = slices.diagnosis(10.0).unwrap();
        assert_eq!((told.slices, told.looked_seconds), (3, 3.0));
        let session = &told.sessions[0];
        assert_eq!(session.judgement.verdict, Verdict::Target);
        assert!((session.iops - 1000.0).abs() < 1e-9);
        let sampled = session.sampled.unwrap();
        assert_eq!((sampled.slices, sampled.alike), (3, 2));
        assert!((sampled.latency_ns - 1e6).abs() < 1.0, "{sampled:?}");
        // 100 µs between slices, divided by the root of three.
        assert!((sampled.error_ns - 57_735.0).abs() < 1.0, "{sampled:?}");
    }

    #[test]
    fn sessions_that_were_not_seen_for_long_make_room_but_those_that_are_told() {
        let of_port = |port: u16, iops: f64| {
            let mut slice = slice(Verdict::Target, iops, 1e6);
            slice.sessions[0].connections[0].0.set_port(port);
            slice
        };
        let mut slices = Slices::default();
        slices.add(of_port(1, 9000.0));
        for port in 2..=10 * MOST_SESSIONS as u16 {
            slices.add(of_port(port, 10.0));
            assert!(slices.sessions.len() <= MOST_SESSIONS + 1);
        }
        slices.add(of_port(1, 9000.0));
        let told = slices.diagnosis(10.0).unwrap();
        assert_eq!(told.slices, 10 * MOST_SESSIONS as u64 + 1);
        let sampled = told.sessions[0].sampled.unwrap();
        assert_eq!((sampled.slices, sampled.alike), (2, 2));
    }

    #[test]
    fn an_io_that_ends_in_no_slice_is_said_to_be_seen_in_part() {
        let ends = |port: u16| Ends {
            initiator: ([10, 0, 0, 1], port).into(),
            target: ([10, 0, 0, 2], 3260).into(),
        };
        let [parts, idle, shown, whole] = [1, 2, 40_000, 3].map(ends);
        let mut slices = Slices::default();
        let mut add = |unfinished: &[Ends], quiet: &[Ends], port: u16, iops: f64| {
            let mut slice = slice(Verdict::Target, iops, 1e6);
            slice.unfinished = unfinished.to_vec();
            slice.quiet = quiet.to_vec();
            slice.sessions[0].connections[0].0.set_port(port);
            slices.add(slice);
        };
        add(&[parts, whole], &[idle], 40_000, 1000.0);
        // No packet passes in the middle of that I/O.
        add(&[], &[parts, idle], 40_000, 9000.0);
        add(&[shown], &[parts, idle, whole], 3, 10.0);
        let told = slices.diagnosis(10.0).unwrap();
        assert_eq!(told.sessions[0].connections[0].0.port(), 40_000);
        assert_eq!((told.unfinished, told.quiet), (vec![parts], vec![idle]));
    }

    #[test]
    fn connections_with_parts_of_ios_are_bounded() {
        let mut slices = Slices::default();
        for port in 1..=3 * MOST_SESSIONS as u16 {
            let mut slice = slice(Verdict::Target, 10.0, 1e6);
            slice.unfinished.push(Ends {
                initiator: ([10, 0, 0, 1], port).into(),
                target: ([10, 0, 0, 2], 3260).into(),
            });
            slices.add(slice);
            assert!(slices.unfinished.len() <= MOST_SESSIONS);
        }
        let told = slices.diagnosis(10.0).unwrap().unfinished;
        let newest = told.iter().map(|ends| ends.initiator.port()).max();
        assert_eq!(newest, Some(3 * MOST_SESSIONS as u16));
    }

    #[test]
    fn one_slice_is_all_there_is() {
        let mut slices = Slices::default();
        slices.add(slice(Verdict::Idle, 1.0, 1e6));
        let told = slices.diagnosis(1.0).unwrap();
        assert_eq!(told.sessions[0].sampled, None);
        assert!(Slices::default().diagnosis(1.0).is_none());
    }
}
