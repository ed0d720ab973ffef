//! The CPU time of a cell's programs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wansan_trace::event::{Role, Thread};
use wansan_trace::file::Table;

use crate::window::Window;

/// A thread that waits for a processor for at least this share of the time is kept from its work …
const STARVED_WAITING_SHARE: f64 = 0.5;
/// … by other processes, if its program runs for less than this share of one processor.
const STARVED_RUNNING_SHARE: f64 = 0.3;
/// A thread or program that runs or is ready for this share of the time counts as always busy.
const FULL_SHARE: f64 = 0.9;

/// One program in the measured window. Shares are of the time between its samples: two threads that run throughout make
/// 2.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProgramUse {
    /// The program and its host, such as `far wireguard`.
    pub program: String,
    /// Its role.
    pub role: Role,
    /// Mean number of processors that its threads used.
    pub ran_share: f64,
    /// Mean number of further processors that its threads were ready to use.
    pub waited_share: f64,
    /// The share of the time for which a thread waited for a processor: maximum over its threads.
    pub most_waited_share: f64,
    /// The share of the time for which a thread ran or was ready to: maximum over its threads.
    pub busiest_share: f64,
}

impl ProgramUse {
    /// Mean number of processors that its threads could have used.
    #[must_use]
    pub fn wanted_share(&self) -> f64 {
        self.ran_share + self.waited_share
    }

    /// Whether it is a router's VPN that encrypts or decrypts without a pause: it could use a processor all of the
    /// time, and gets enough of one for that not to be caused by other work.
    #[must_use]
    pub fn is_full_vpn(&self) -> bool {
        self.role == Role::Vpn
            && self.wanted_share() >= FULL_SHARE
            && self.ran_share >= STARVED_RUNNING_SHARE
    }

    /// Whether one of its threads is always busy, so that faster arrivals have to wait for it.
    #[must_use]
    pub fn has_no_processor_to_spare(&self) -> bool {
        self.busiest_share >= FULL_SHARE && self.ran_share >= STARVED_RUNNING_SHARE
    }

    /// Whether other work on the computer kept it from running.
    #[must_use]
    pub fn is_starved(&self) -> bool {
        self.most_waited_share >= STARVED_WAITING_SHARE && self.ran_share < STARVED_RUNNING_SHARE
    }
}

/// The use of all programs with a thread that was sampled over at least half of the window. Uses the samples next to
/// the window's edges, as samples are late on a busy computer.
#[must_use]
pub fn program_uses(table: &Table<Thread>, window: Window) -> Vec<ProgramUse> {
    let samples = table.rows.iter().map(|row| &row.record);
    let named = samples.map(|sample| (table.names.get(sample.program), sample));
    uses(named, window)
}

/// The same for samples with their programs' names, sorted by time.
fn uses<'s>(
    samples: impl Iterator<Item = (&'s str, &'s Thread)>,
    window: Window,
) -> Vec<ProgramUse> {
    let mut threads: BTreeMap<(&str, Role, u32), (&Thread, &Thread)> = BTreeMap::new();
    for (program, record) in samples {
        let key = (program, record.role, record.thread);
        let (first, last) = threads.entry(key).or_insert((record, record));
        if record.time.ns() <= window.from_ns {
            *first = record;
        }
        if last.time.ns() < window.to_ns {
            *last = record;
        }
    }
    let mut programs: BTreeMap<&str, ProgramUse> = BTreeMap::new();
    for ((program, role, _), (first, last)) in threads {
        let seen_ns = (last.time - first.time).as_nanos() as f64;
        let inside_ns = window.overlap_ns(first.time.ns(), last.time.ns());
        if inside_ns == 0 || inside_ns * 2 < window.length_ns() {
            continue;
        }
        let share = |counter: fn(&Thread) -> u64| {
            counter(last).saturating_sub(counter(first)) as f64 / seen_ns
        };
        let used = programs.entry(program).or_insert_with(|| ProgramUse {
            program: program.to_owned(),
            role,
            ran_share: 0.0,
            waited_share: 0.0,
            most_waited_share: 0.0,
            busiest_share: 0.0,
        });
        let waited_share = share(|thread| thread.waited_ns);
        let ran_share = share(|thread| thread.ran_ns);
        used.ran_share += ran_share;
        used.busiest_share = used.busiest_share.max(ran_share + waited_share);
        used.waited_share += waited_share;
        used.most_waited_share = used.most_waited_share.max(waited_share);
    }
    programs.into_values().collect()
}

#[cfg(test)]
mod tests {
    use wansan_trace::{Instant, NameId};

    use super::*;

    #[test]
    fn late_samples_tell_of_the_time_between_them() {
        let sample = |thread: u32, time_ns: u64, ran_ns: u64| Thread {
            time: Instant::from_ns(time_ns),
            program: NameId(0),
            role: Role::Vpn,
            thread,
            ran_ns,
            waited_ns: ran_ns / 2,
        };
        let samples = [
            sample(1, 0, 0),
            sample(1, 80, 20),
            sample(2, 90, 0),
            sample(1, 150, 50),
            sample(1, 230, 110),
            sample(1, 400, 200),
        ];
        let window = Window {
            from_ns: 100,
            to_ns: 200,
        };
        let named = samples.iter().map(|sample| ("far ipsec", sample));
        let uses = uses(named, window);
        // From 80 to 230; the other thread ended before.
        assert_eq!(uses.len(), 1, "{uses:?}");
        assert!((uses[0].ran_share - 0.6).abs() < 1e-9, "{uses:?}");
        assert!((uses[0].waited_share - 0.3).abs() < 1e-9, "{uses:?}");
    }
}
