//! Observes a relay from outside its threads: each replies to a message with its own part, so that counting needs
//! neither locks nor atomic operations.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use wansan_split::{CLIENT, TARGET};

use crate::mail::Mail;
use crate::meter::Meter;
use crate::shared::Shared;
use crate::snapshot::Snapshot;

/// Observes a relay from other threads.
#[derive(Debug, Clone)]
pub struct Observer {
    pub(crate) shared: Arc<Shared>,
}

impl Observer {
    /// The state so far. A thread that has ended, or does not reply within three seconds, is left out.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let shared = &self.shared;
        let mut snapshot = Snapshot {
            meter: self.meter(),
            flows_now: self.flows_now(),
            memory_bytes: shared.budget.taken_bytes(),
            memory_bytes_max: shared.budget.most_bytes(),
            memory_refusals: shared.budget.refusals(),
            ..Snapshot::default()
        };
        for part in self.ask(Mail::Survey) {
            snapshot.onward.merge(&part.backlogs[CLIENT]);
            snapshot.back.merge(&part.backlogs[TARGET]);
            snapshot.flows.extend(part.flows);
        }
        snapshot.flows.sort_by_key(|flow| flow.number);
        snapshot
    }

    /// The counters so far, of all threads that reply within three seconds: they reply at once, without surveying any
    /// flow.
    #[must_use]
    pub fn meter(&self) -> Meter {
        let mut sum = Meter::default();
        for meter in self.ask(Mail::Count) {
            sum.add(&meter);
        }
        sum
    }

    /// Open flows.
    #[must_use]
    pub fn flows_now(&self) -> usize {
        self.shared.seats.taken()
    }

    /// Sends a request to all threads; returns the replies that arrive in time.
    fn ask<T>(&self, question: impl Fn(SyncSender<T>) -> Mail) -> Vec<T> {
        const PATIENCE: Duration = Duration::from_secs(3);
        self.shared.mailboxes.ask(PATIENCE, question)
    }
}
