//! What a thread says of flows that come to nothing.
//!
//! Everybody may connect, and whoever opens thousands of flows to a target that is down must not fill
//! the log as well: a few lines are said each second, and the others are counted.

/// Lines of one thread between two ticks.
const LINES_PER_TICK: usize = 4;

/// What was said since the last tick.
#[derive(Debug)]
pub(crate) struct Complaints {
    report: fn(&str),
    lines: usize,
}

impl Complaints {
    pub(crate) fn new(report: fn(&str)) -> Complaints {
        Complaints { report, lines: 0 }
    }

    /// Says something, or counts it.
    pub(crate) fn say(&mut self, line: impl FnOnce() -> String) {
        self.lines += 1;
        if self.lines <= LINES_PER_TICK {
            (self.report)(&line());
        }
    }

    /// Begins anew; says how much was not said.
    pub(crate) fn tick(&mut self) {
        let unsaid = self.lines.saturating_sub(LINES_PER_TICK);
        if unsaid > 0 {
            (self.report)(&format!("{unsaid} more such lines within a second"));
        }
        self.lines = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static SAID: AtomicUsize = AtomicUsize::new(0);

    #[test]
    fn a_flood_is_a_few_lines() {
        let mut complaints = Complaints::new(|_| {
            SAID.fetch_add(1, Ordering::Relaxed);
        });
        for _ in 0..1000 {
            complaints.say(String::new);
        }
        complaints.tick();
        complaints.tick();
        assert_eq!(SAID.load(Ordering::Relaxed), LINES_PER_TICK + 1);
    }
}
