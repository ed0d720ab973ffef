//! How much of a processor a thread wants.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// The kernel's statistics of the thread that opens them (proc_pid_schedstat(5)).
#[derive(Debug)]
pub struct ProcessorTime {
    /// `None` where the kernel keeps none.
    statistics: Option<File>,
}

impl ProcessorTime {
    /// That of this thread.
    #[must_use]
    pub fn of_this_thread() -> ProcessorTime {
        ProcessorTime {
            statistics: File::open("/proc/thread-self/schedstat").ok(),
        }
    }

    /// How long the thread has run or waited for a processor until now; the rest of its life it has slept. `None` where
    /// the kernel does not tell.
    #[must_use]
    pub fn wanted(&self) -> Option<Duration> {
        self.read().map(|[ran, waited]| ran + waited)
    }

    /// How long the thread has waited for a processor until now. `None` where the kernel does not tell.
    #[must_use]
    pub fn waited(&self) -> Option<Duration> {
        self.read().map(|[_, waited]| waited)
    }

    fn read(&self) -> Option<[Duration; 2]> {
        let mut text = [0; 64];
        let bytes = self.statistics.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = str::from_utf8(&text[..bytes]).ok()?;
        let mut numbers = text.split_ascii_whitespace();
        let mut next = || Some(Duration::from_nanos(numbers.next()?.parse().ok()?));
        Some([next()?, next()?])
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_thread_wants_a_processor_while_it_works_and_none_while_it_sleeps() {
        const TIME: Duration = Duration::from_millis(50);
        let time = ProcessorTime::of_this_thread();
        let Some(before) = time.wanted() else {
            return; // A kernel without these statistics.
        };
        let began = Instant::now();
        while began.elapsed() < TIME {
            black_box(());
        }
        let worked = time.wanted().expect("as before") - before;
        // The kernel counts at its own ticks, and when the thread stops running.
        assert!(worked > TIME / 2, "{worked:?}");
        let slept_from = Instant::now();
        std::thread::sleep(4 * TIME);
        let after = time.wanted().expect("as before") - before - worked;
        assert!(after < slept_from.elapsed() - 2 * TIME, "{after:?}");
    }
}
