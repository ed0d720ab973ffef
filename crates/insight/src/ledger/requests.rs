//! The waits of programs' requests to attached disks.

use std::collections::BTreeMap;

use foldhash::HashMap;
use serde::{Deserialize, Serialize};
use wansan_trace::event::{Request, RequestKind, RequestWait};
use wansan_trace::{Layer, NameId, SessionId, TaskTag};

use super::usage::Adding;
use super::{Account, Ledger, Source, Wait, WaitUse};
use crate::cause::Cause;
use crate::latency::Latency;
use crate::population::Population;

/// One request's waits: each moment from its arrival to its reply is counted once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestAccount {
    /// The operation requested.
    pub kind: RequestKind,
    /// Its length in bytes.
    pub length_bytes: u64,
    /// When it arrived.
    pub from_ns: u64,
    /// When it was answered.
    pub to_ns: u64,
    /// What it waited for, and for how long, in ns.
    pub stretches: Vec<(RequestWait, u64)>,
    /// Its waits, which are contiguous.
    pub waits: Vec<Wait>,
}

/// What requests of one kind waited for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestUse {
    /// The operation requested.
    pub kind: RequestKind,
    /// Requests that were answered in the window.
    pub requests: u64,
    /// The same per second.
    pub per_s: f64,
    /// Their bytes per second.
    pub bytes_per_s: f64,
    /// Mean number outstanding.
    pub in_flight_mean: f64,
    /// Their latency.
    pub latency: Latency,
    /// Share of them that the cache or the journal answered without waiting for anything, 0 to 1.
    pub hit_share: f64,
    /// Share of their time spent waiting, by what they waited for, 0 to 1; zeros are omitted.
    pub waits_for: BTreeMap<RequestWait, f64>,
    /// The same by cause: while requests waited for the disk, the causes of the I/Os that carried them. Without requests
    /// from a sample of the I/Os, of which most carriers are not part.
    pub waits: WaitUse,
}

impl Ledger<'_> {
    /// The accounts of the requests that were answered in the window.
    fn requests(&self) -> Vec<RequestAccount> {
        let Some(table) = &self.cell.request else {
            return Vec::new();
        };
        let mut requests: BTreeMap<(NameId, NameId, u64, u64), Vec<&Request>> = BTreeMap::new();
        for row in &table.rows {
            if self.window.contains(row.record.time.ns()) {
                let Request {
                    disk,
                    request,
                    time,
                    ..
                } = row.record;
                // A disk that is attached again numbers its requests from the start.
                let key = (row.host, disk, request, time.ns());
                requests.entry(key).or_default().push(&row.record);
            }
        }
        let tasks = self.cell.joined.tasks.iter();
        let tasks: HashMap<(SessionId, TaskTag), _> =
            tasks.map(|task| ((task.session, task.tag), task)).collect();
        let carrier = |request: &Request| {
            let task = tasks.get(&(request.session, request.task))?;
            self.account(task)
        };
        let accounts = requests.into_values();
        accounts
            .filter_map(|stretches| account(&stretches, carrier))
            .collect()
    }
}

/// The account of a request with these intervals; `carrier` returns the account of the I/O that ended one.
fn account(
    stretches: &[&Request],
    carrier: impl Fn(&Request) -> Option<Account>,
) -> Option<RequestAccount> {
    let first = stretches.first()?;
    let to_ns = first.time.ns();
    let from_ns = to_ns.checked_sub(first.before_ns)?;
    let mut account = RequestAccount {
        kind: first.kind,
        length_bytes: first.length_bytes,
        from_ns,
        to_ns,
        stretches: Vec::new(),
        waits: Vec::new(),
    };
    let mut at_ns = from_ns;
    for stretch in stretches {
        // The recorder was full and dropped the others.
        if to_ns.checked_sub(stretch.before_ns) != Some(at_ns) {
            return None;
        }
        let end_ns = at_ns.checked_add(stretch.length_ns);
        let end_ns = end_ns.filter(|end_ns| *end_ns <= to_ns)?;
        account
            .stretches
            .push((stretch.waits_for, stretch.length_ns));
        add_waits(&mut account.waits, (at_ns, end_ns), stretch, &carrier);
        at_ns = end_ns;
    }
    (at_ns == to_ns).then_some(account)
}

/// Adds the waits of one interval.
fn add_waits(
    waits: &mut Vec<Wait>,
    (from_ns, to_ns): (u64, u64),
    stretch: &Request,
    carrier: impl Fn(&Request) -> Option<Account>,
) {
    let own = |from_ns, to_ns, cause| Wait {
        from_ns,
        to_ns,
        layer: Layer::Cache,
        way: None,
        cause,
        source: Source::Crossings,
        uncertain_ns: 0,
    };
    let cause = match stretch.waits_for {
        RequestWait::Nothing => Cause::Initiator,
        RequestWait::WriteBehind => Cause::WriteBehindLimit,
        RequestWait::Merge => Cause::Merge,
        RequestWait::Backlog => Cause::Backlog,
        RequestWait::Journal => Cause::Journal,
        RequestWait::JournalRoom => Cause::JournalRoom,
        RequestWait::Disk | RequestWait::ReadAhead => match carrier(stretch) {
            None => Cause::Unknown,
            Some(carrier) => {
                let mut at_ns = from_ns;
                for wait in carrier.waits {
                    let (start_ns, end_ns) = (wait.from_ns.max(at_ns), wait.to_ns.min(to_ns));
                    if start_ns >= end_ns {
                        continue;
                    }
                    // Before its command was passed to the session.
                    waits
                        .extend((at_ns < start_ns).then(|| own(at_ns, start_ns, Cause::Initiator)));
                    waits.push(Wait {
                        from_ns: start_ns,
                        to_ns: end_ns,
                        uncertain_ns: wait.uncertain_ns.min(end_ns - start_ns),
                        ..wait
                    });
                    at_ns = end_ns;
                }
                waits.extend((at_ns < to_ns).then(|| own(at_ns, to_ns, Cause::Initiator)));
                return;
            }
        },
    };
    waits.extend((from_ns < to_ns).then(|| own(from_ns, to_ns, cause)));
}

/// What the requests of a ledger waited for, by operation.
#[must_use]
pub fn request_uses(ledger: &Ledger<'_>) -> Vec<RequestUse> {
    let mut by_kind: BTreeMap<RequestKind, Vec<RequestAccount>> = BTreeMap::new();
    for account in ledger.requests() {
        by_kind.entry(account.kind).or_default().push(account);
    }
    let seconds = ledger.window.seconds().max(1e-9);
    let uses = by_kind.into_iter().map(|(kind, accounts)| {
        let latencies_ns = || accounts.iter().map(|one| one.to_ns - one.from_ns);
        let all_ns = latencies_ns().fold(0.0, |all_ns, ns| all_ns + ns as f64);
        let mut waits_for: BTreeMap<RequestWait, f64> = BTreeMap::new();
        let mut waits = Adding::default();
        for account in &accounts {
            if ledger.cell.joined.is_complete() {
                waits.add(account.to_ns - account.from_ns, &account.waits);
            }
            for (wait, length_ns) in &account.stretches {
                if *length_ns > 0 {
                    *waits_for.entry(*wait).or_default() +=
                        *length_ns as f64 / f64::max(all_ns, 1.0);
                }
            }
        }
        let bytes = accounts.iter().map(|one| one.length_bytes as f64);
        let bytes = bytes.fold(0.0, |all, bytes| all + bytes);
        let spans = accounts.iter().map(|one| (one.from_ns, one.to_ns));
        let hits = accounts.iter().filter(|one| {
            let mut waits = one.stretches.iter();
            waits.all(|(wait, _)| *wait == RequestWait::Nothing)
        });
        RequestUse {
            kind,
            requests: accounts.len() as u64,
            per_s: accounts.len() as f64 / seconds,
            bytes_per_s: bytes / seconds,
            in_flight_mean: Population::of(spans).mean(ledger.window),
            latency: Latency::of(latencies_ns().collect()),
            hit_share: hits.count() as f64 / accounts.len() as f64,
            waits_for,
            waits: waits.finish(),
        }
    });
    uses.collect()
}

#[cfg(test)]
mod tests {
    use wansan_trace::{ConnectionId, Instant};

    use super::*;
    use crate::traffic::FlowDirection;

    fn stretch(waits_for: RequestWait, before_ns: u64, length_ns: u64) -> Request {
        Request {
            time: Instant::from_ns(1000),
            kind: RequestKind::Read,
            length_bytes: 4096,
            waits_for,
            before_ns,
            length_ns,
            ..Request::BLANK
        }
    }

    fn carrier(waits: &[(u64, u64, Cause)]) -> Account {
        let waits = waits.iter().map(|&(from_ns, to_ns, cause)| Wait {
            from_ns,
            to_ns,
            layer: Layer::Socket,
            way: Some(FlowDirection::ToInitiator),
            cause,
            source: Source::Crossings,
            uncertain_ns: 0,
        });
        Account {
            session: SessionId(1),
            connection: ConnectionId(0),
            task: TaskTag(7),
            waits: waits.collect(),
        }
    }

    fn told(account: &RequestAccount) -> Vec<(u64, u64, Cause)> {
        let waits = account.waits.iter();
        waits
            .map(|wait| (wait.from_ns, wait.to_ns, wait.cause))
            .collect()
    }

    #[test]
    fn a_request_waits_for_what_its_carrier_does() {
        let stretches = [
            stretch(RequestWait::WriteBehind, 900, 100),
            stretch(RequestWait::ReadAhead, 800, 800),
        ];
        let stretches: Vec<&Request> = stretches.iter().collect();
        let waits = [(50, 300, Cause::PathQueue), (300, 990, Cause::Propagation)];
        let account = account(&stretches, |_| Some(carrier(&waits))).expect("it is whole");
        let expected = [
            (100, 200, Cause::WriteBehindLimit),
            (200, 300, Cause::PathQueue),
            (300, 990, Cause::Propagation),
            (990, 1000, Cause::Initiator),
        ];
        assert_eq!(told(&account), expected);
    }

    #[test]
    fn what_is_not_recorded_is_unknown() {
        let whole = [stretch(RequestWait::Disk, 900, 900)];
        let account = account(&[&whole[0]], |_| None).expect("it is whole");
        assert_eq!(told(&account), [(100, 1000, Cause::Unknown)]);
    }

    #[test]
    fn a_request_with_a_stretch_lost_has_no_account() {
        let part = stretch(RequestWait::Disk, 900, 500);
        assert_eq!(account(&[&part], |_| None), None);
        let late = stretch(RequestWait::Disk, 300, 300);
        assert_eq!(account(&[&part, &late], |_| None), None);
        let damaged = stretch(RequestWait::Disk, 900, u64::MAX);
        assert_eq!(account(&[&damaged], |_| None), None);
    }
}
