//! Times in which hosts stood still.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// When a host, or its program, did not run though it had something to do: other work had the processors, or whoever
/// the machine is lent from. Times count from some beginning, in their order, and no two of one kind touch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pauses {
    /// Of the kernel, and with it of all programs: what arrives is taken when they are over.
    pub host: Vec<Range<Duration>>,
    /// Of the program alone: the kernel takes what arrives, and acknowledges it.
    pub program: Vec<Range<Duration>>,
}

/// Pauses that are not over.
#[derive(Debug, Default)]
pub(super) struct Pending(VecDeque<Range<u64>>);

impl Pending {
    /// Pauses that count from `began_ns`.
    pub(super) fn since(began_ns: u64, pauses: &[Range<Duration>]) -> Pending {
        let at = |after: Duration| began_ns + after.as_nanos() as u64;
        let pauses = pauses.iter();
        Pending(pauses.map(|pause| at(pause.start)..at(pause.end)).collect())
    }

    /// The end of the pause in progress at `now_ns`, or `now_ns` itself. Calls come in the order of time.
    pub(super) fn over_ns(&mut self, now_ns: u64) -> u64 {
        while self.0.front().is_some_and(|pause| pause.end <= now_ns) {
            self.0.pop_front();
        }
        let current = self.0.front().filter(|pause| pause.start <= now_ns);
        current.map_or(now_ns, |pause| pause.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_lasts_from_its_beginning_to_its_end() {
        let after = Duration::from_nanos;
        let mut pending = Pending::since(100, &[after(10)..after(20), after(30)..after(35)]);
        for (now_ns, over_ns) in [
            (109, 109),
            (110, 120),
            (119, 120),
            (120, 120),
            (134, 135),
            (200, 200),
        ] {
            assert_eq!(pending.over_ns(now_ns), over_ns, "at {now_ns}");
        }
    }
}
