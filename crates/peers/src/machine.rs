//! Detects other load on the machine while a test measures.
//!
//! Measurements of a path or a finding depend on when programs get a processor. A test that fails while other programs
//! took processors proves nothing about wansan, and is repeated once the hypervisor leaves the processors alone; one
//! that fails on an undisturbed machine has found a defect.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hint::black_box;
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use libtest_mimic::{Completion, Failed};
use rustix::param::clock_ticks_per_second;

/// Most runs of a disturbed test.
const TRIES: u32 = 5;

/// Longest wait before a repetition until the hypervisor leaves the processors alone, and the length of each probe. A
/// hypervisor takes only time that is asked for, so the probe keeps all processors busy.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(200);
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);

const ONE_PROCESSOR: &str = "there is one processor only";

/// Tolerable processor time of others and time stolen by the hypervisor, as a share of one processor over the
/// measurement. More than suites use that mostly wait.
const BEARABLE: f64 = 0.2;

/// The flag of kernel threads (PF_KTHREAD): they work on behalf of whoever causes the work.
const OF_KERNEL: u32 = 0x0020_0000;

/// Runs a test, and repeats it while it fails on a disturbed machine. Each repetition is reported on a line
/// `run again: NAME: ...`, which the suite's closing lines count. On a single processor, a failing test is not
/// measurable.
///
/// # Errors
/// The test's, if nothing disturbed it, or if it was disturbed five times.
pub fn unless_disturbed(
    name: &str,
    mut test: impl FnMut() -> Result<(), Failed>,
) -> Result<Completion, Failed> {
    unless_disturbed_as_seen(name, || test().map_err(|wrong| (wrong, None)))
}

/// The same for a test that may have detected a disturbance itself, and returns it with its failure.
///
/// # Errors
/// See [`unless_disturbed`].
pub fn unless_disturbed_as_seen(
    name: &str,
    mut test: impl FnMut() -> Result<(), (Failed, Option<String>)>,
) -> Result<Completion, Failed> {
    if has_one_processor() {
        let failed = test().err();
        return Ok(failed.map_or(Completion::Completed, |(wrong, _)| {
            not_measurable(name, ONE_PROCESSOR, wrong.message().unwrap_or_default())
        }));
    }
    judged(name, || {
        let machine = Machine::watch();
        test().map_err(|(wrong, seen)| {
            let wrong = wrong.message().unwrap_or_default().to_owned();
            (wrong, machine.disturbance().or(seen))
        })
    })
}

/// Whether the programs under test share a single processor.
#[must_use]
pub fn has_one_processor() -> bool {
    available_parallelism().is_ok_and(|processors| processors.get() == 1)
}

/// Waits until the hypervisor takes no more of busy processors than is tolerable.
fn await_processors() {
    let deadline = Instant::now() + LONGEST_PAUSE;
    while Instant::now() < deadline {
        let machine = Machine::watch();
        let until = Instant::now() + LOOK;
        thread::scope(|scope| {
            for _ in 0..available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| while black_box(Instant::now()) < until {});
            }
        });
        if machine.shares().1 <= BEARABLE {
            return;
        }
        thread::sleep(BETWEEN_LOOKS);
    }
}

/// The result of a test that failed with `wrong` for a reason outside wansan: counted as not run.
fn not_measurable(name: &str, reason: &str, wrong: &str) -> Completion {
    let reason = format!("not measurable: {reason}");
    eprintln!("not run: {name}: {reason}\n{}", wrong.trim());
    Completion::ignored_with(reason)
}

/// Runs a test that returns, with its failure, the disturbance if there was one; see [`unless_disturbed`].
///
/// # Errors
/// See [`unless_disturbed`].
pub fn judged(
    name: &str,
    mut test: impl FnMut() -> Result<(), (String, Option<String>)>,
) -> Result<Completion, Failed> {
    for tries in 1.. {
        let Err((wrong, disturbance)) = test() else {
            break;
        };
        let Some(disturbance) = disturbance else {
            return Err(wrong.into());
        };
        if has_one_processor() {
            return Ok(not_measurable(name, ONE_PROCESSOR, &wrong));
        }
        if tries == TRIES {
            return Err(format!("disturbed {TRIES} times: {disturbance}\n{wrong}").into());
        }
        eprintln!("run again: {name}: {disturbance}: {wrong}");
        await_processors();
    }
    Ok(Completion::Completed)
}

/// The machine's load since a point in time.
pub struct Machine {
    began: Instant,
    used: Used,
}

/// Ticks used so far.
#[derive(Debug, Clone, Copy)]
struct Used {
    by_others: u64,
    by_hypervisor: u64,
}

impl Machine {
    /// Starts watching.
    #[must_use]
    pub fn watch() -> Machine {
        Machine {
            began: Instant::now(),
            used: Used::so_far(),
        }
    }

    /// The cause of a disturbance above the tolerable share since then: programs other than this one and its
    /// descendants, as far as visible to us, or the hypervisor.
    #[must_use]
    pub fn disturbance(&self) -> Option<String> {
        let (by_others, by_hypervisor) = self.shares();
        let who = match by_others > by_hypervisor {
            true => "other programs",
            false => "the hypervisor",
        };
        let most = by_others.max(by_hypervisor);
        (most > BEARABLE).then(|| format!("{who} used {:.0} % of a processor", 100.0 * most))
    }

    /// Shares of one processor used since then by other programs and by the hypervisor.
    fn shares(&self) -> (f64, f64) {
        let now = Used::so_far();
        let time = self.began.elapsed().as_secs_f64() * clock_ticks_per_second() as f64;
        let share = |now: u64, before: u64| now.saturating_sub(before) as f64 / time;
        (
            share(now.by_others, self.used.by_others),
            share(now.by_hypervisor, self.used.by_hypervisor),
        )
    }
}

impl Used {
    fn so_far() -> Used {
        Used {
            by_others: used_by_others(&processes(), std::process::id()),
            by_hypervisor: fs::read_to_string("/proc/stat")
                .ok()
                .and_then(|stat| steal(&stat))
                .unwrap_or(0),
        }
    }
}

/// A process (proc_pid_stat(5)).
#[derive(Debug, Clone, Copy)]
struct Process {
    parent: u32,
    /// Its own ticks and those of its reaped children.
    used: u64,
}

impl Process {
    /// `None` for kernel threads.
    fn parse(stat: &str) -> Option<Process> {
        // The name is in parentheses, and may itself contain some; the state follows it.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let flags: u32 = fields.get(6)?.parse().ok()?;
        if flags & OF_KERNEL != 0 {
            return None;
        }
        let times = fields.get(11..15)?.iter().map(|time| time.parse::<u64>());
        Some(Process {
            parent: fields[1].parse().ok()?,
            used: times.sum::<Result<u64, _>>().ok()?,
        })
    }
}

/// All visible processes except kernel threads, by process ID.
fn processes() -> BTreeMap<u32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((id, Process::parse(&stat)?))
    });
    processes.collect()
}

/// Ticks used by processes that are neither `own` nor its descendants.
fn used_by_others(processes: &BTreeMap<u32, Process>, own: u32) -> u64 {
    let is_other = |mut id: u32| {
        let mut seen = BTreeSet::new();
        while id != own && seen.insert(id) {
            match processes.get(&id) {
                Some(process) => id = process.parent,
                None => break,
            }
        }
        id != own
    };
    let others = processes.iter().filter(|(id, _)| is_other(**id));
    others.map(|(_, process)| process.used).sum()
}

/// Ticks stolen by the hypervisor, from /proc/stat.
fn steal(stat: &str) -> Option<u64> {
    stat.split_ascii_whitespace().nth(8)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_ours_counts() {
        let process = |parent, used| Process { parent, used };
        let processes = BTreeMap::from([
            (1, process(0, 1)),
            (40, process(1, 10)),
            (41, process(40, 100)),
            (42, process(41, 1_000)),
            (50, process(1, 10_000)),
        ]);
        assert_eq!(used_by_others(&processes, 40), 10_001);
    }

    #[test]
    fn times_stand_behind_any_name() {
        let stat = "7 (a) b) S 3 7 7 0 -1 4194560 1 0 0 0 5 60 700 8000 20 0 1 0 100 0 0";
        let process = Process::parse(stat).expect("it is one");
        assert_eq!((process.parent, process.used), (3, 8_765));
    }

    #[test]
    fn the_kernels_threads_are_left_out() {
        let stat = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 97 0 0 20 0 1 0 30 0 0";
        assert!(Process::parse(stat).is_none());
    }

    #[test]
    fn we_see_ourselves() {
        assert!(processes().contains_key(&std::process::id()));
    }

    /// The number of runs of a test that always fails and is disturbed `disturbed` times.
    fn runs(disturbed: u32) -> (u32, Result<Completion, Failed>) {
        let mut runs = 0;
        let outcome = judged("wrong", || {
            runs += 1;
            Err(("wrong".into(), (runs <= disturbed).then(|| "busy".into())))
        });
        (runs, outcome)
    }

    #[test]
    fn only_a_disturbed_test_is_run_again() {
        for (disturbed, expected) in [(0, 1), (2, 3), (100, TRIES)] {
            let (runs, outcome) = runs(disturbed);
            assert_eq!(runs, expected);
            assert!(outcome.is_err());
        }
    }

    #[test]
    fn a_test_that_holds_ends_it() {
        let mut runs = 0;
        let outcome = judged("right", || {
            runs += 1;
            match runs {
                1 => Err(("wrong".into(), Some("busy".into()))),
                _ => Ok(()),
            }
        });
        assert!(matches!(outcome, Ok(Completion::Completed)));
        assert_eq!(runs, 2);
    }

    #[test]
    fn the_hypervisors_time_is_the_eighth() {
        assert_eq!(steal("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 0"), Some(8));
    }
}
