//! Shares of a thread's time among its sessions, and their command windows.

use std::time::Duration;

use wansan_iscsi::target::{Period, Taken};
use wansan_server::ProcessorTime;
use wansan_trace::Instant;

use super::sessions::Sessions;

/// How long sessions are counted before their windows are adapted: several rounds of a thread with a thousand of them,
/// yet too short to notice.
const PERIOD: Duration = Duration::from_millis(25);

/// A thread is busy if it sleeps for less than this fraction of a period.
const BUSY_SLEEPS: u32 = 4;

/// The sessions that a thread served in a period.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    /// When the period began, and how long the thread had run or waited for a processor by then.
    began: Instant,
    wanted: Duration,
    processor: Option<ProcessorTime>,
    /// The sessions' numbers, each once.
    served: Vec<u16>,
}

impl Sharing {
    /// Notes that session `number` is served.
    pub(super) fn serves(&mut self, number: u16, sessions: &mut Sessions) {
        if let Some(served) = sessions.get_mut(number) {
            if served.turns == 0 {
                self.served.push(number);
            }
            served.turns += 1;
        }
    }

    /// Adapts the sessions' windows at the end of a period.
    pub(super) fn look_at_the_time(&mut self, now: Instant, sessions: &mut Sessions) {
        let lasted = now.since(self.began);
        if lasted < PERIOD {
            return;
        }
        self.began = now;
        let is_busy = self.was_busy(lasted);
        let taken = self.served.drain(..).filter_map(|number| {
            let served = sessions.get_mut(number)?;
            let turns = std::mem::take(&mut served.turns);
            Some((number, served.session.take_stock(turns)))
        });
        let taken: Vec<(u16, Taken)> = taken.collect();
        let period = Period::of(taken.iter().map(|(_, taken)| *taken), is_busy);
        for (number, taken) in taken {
            if let Some(served) = sessions.get_mut(number) {
                served.session.adapt_window(period, taken);
            }
        }
    }

    /// Whether the thread had work to do nearly all the time that the period `lasted`: work that waits for a processor
    /// is not done yet.
    fn was_busy(&mut self, lasted: Duration) -> bool {
        let processor = self
            .processor
            .get_or_insert_with(ProcessorTime::of_this_thread);
        let wanted = processor.wanted().unwrap_or_default();
        let before = std::mem::replace(&mut self.wanted, wanted);
        let slept = lasted.saturating_sub(wanted.saturating_sub(before));
        slept * BUSY_SLEEPS < lasted
    }
}
