//! What the machine did to a measurement: frames that the emulator lost or had late, and threads that
//! waited for a processor. A measurement that does not come out, and that was disturbed so, says nothing
//! of the relay and is made again; one that was not disturbed says that the relay is wrong.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use wansan_lab::emulator::Statistics;

/// A share of the time in which a thread may wait for a processor, and of a path's delay by which a
/// frame may be late.
const BEARABLE: f64 = 0.05;

/// Why a measurement did not come out.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The relay does not do what it should.
    Failed(String),
    /// The machine kept it from doing so; what was seen, and what the machine did.
    Disturbed(String, String),
}

impl Trouble {
    /// What was seen, and what the machine did to it, where that was much.
    pub(crate) fn of(what: String, disturbance: Option<String>) -> Trouble {
        match disturbance {
            Some(disturbance) => Trouble::Disturbed(what, disturbance),
            None => Trouble::Failed(what),
        }
    }
}

impl From<String> for Trouble {
    fn from(failed: String) -> Trouble {
        Trouble::Failed(failed)
    }
}

/// The machine while something is measured.
pub(crate) struct Machine {
    began: Instant,
    waited: BTreeMap<String, Duration>,
}

impl Machine {
    /// Looks at it from now on.
    pub(crate) fn watch() -> Machine {
        Machine {
            began: Instant::now(),
            waited: waits(),
        }
    }

    /// The thread that has waited for a processor for longer since than a measurement bears; asked while
    /// the threads are still there.
    pub(crate) fn waiting(&self) -> Option<String> {
        let time = self.began.elapsed();
        let waited = waits().into_iter().map(|(thread, waited)| {
            let before = self.waited.get(&thread).copied().unwrap_or_default();
            (waited.saturating_sub(before), thread)
        });
        let (most, thread) = waited.max()?;
        (most > time.mul_f64(BEARABLE))
            .then(|| format!("thread {thread} waited for a processor for {most:?} of {time:?}"))
    }
}

/// What was wrong with an emulator of a path with that delay, where that was more than a measurement bears.
pub(crate) fn lateness(statistics: &Statistics, delay: Duration) -> Option<String> {
    let lost = statistics.ring_drops + statistics.send_failures;
    if lost > 0 {
        return Some(format!("the emulator lost {lost} frames"));
    }
    let late = statistics.paths.iter().map(|path| path.lateness_max_ns);
    let late = Duration::from_nanos(late.max().unwrap_or_default());
    let is_much = late > delay.mul_f64(BEARABLE);
    is_much.then(|| format!("the emulator sent a frame {late:?} late"))
}

/// How long each thread of this process has waited for a processor (proc_pid_schedstat(5)), by its id and
/// name.
fn waits() -> BTreeMap<String, Duration> {
    let threads = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let waited = threads.filter_map(|thread| {
        let read = |file: &str| fs::read_to_string(thread.path().join(file)).ok();
        let waited_ns = read("schedstat")?
            .split_ascii_whitespace()
            .nth(1)?
            .parse()
            .ok()?;
        let name = format!(
            "{} {}",
            thread.file_name().to_string_lossy(),
            read("comm")?.trim()
        );
        Some((name, Duration::from_nanos(waited_ns)))
    });
    waited.collect()
}
