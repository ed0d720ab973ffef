//! Looks at a relay from outside its threads: each of them is asked by mail for its own part, so that counting
//! needs neither locks nor atomic operations.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use wansan_split::{CLIENT, TARGET};

use crate::mail::Mail;
use crate::meter::Meter;
use crate::shared::Shared;
use crate::snapshot::Snapshot;

/// Looks at a relay from other threads.
#[derive(Debug, Clone)]
pub struct Observer {
    pub(crate) shared: Arc<Shared>,
}

impl Observer {
    /// What has been done until now. A thread that has ended, or does not answer within three seconds, has no
    /// part in it.
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

    /// What has been counted until now, of all threads that answer within three seconds: without a look at any
    /// flow, they do at once.
    #[must_use]
    pub fn meter(&self) -> Meter {
        let mut sum = Meter::default();
        for meter in self.ask(Mail::Count) {
            sum.add(&meter);
        }
        sum
    }

    /// Flows under way.
    #[must_use]
    pub fn flows_now(&self) -> usize {
        self.shared.seats.taken()
    }

    /// Puts a question to all threads; the answers that come in time.
    fn ask<T>(&self, question: impl Fn(SyncSender<T>) -> Mail) -> Vec<T> {
        const PATIENCE: Duration = Duration::from_secs(3);
        self.shared.mailboxes.ask(PATIENCE, question)
    }
}
