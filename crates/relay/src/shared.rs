//! State shared by a relay's threads and its observers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use wansan_server::Mailboxes;

use crate::ends::Ends;
use crate::mail::Mail;
use crate::pool::Budget;
use crate::seat::Seats;
use crate::settings::ProcessSettings;

/// Limits, counters and mailboxes of the whole relay.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) seats: Seats,
    pub(crate) budget: Arc<Budget>,
    pub(crate) ends: Arc<Ends>,
    pub(crate) mailboxes: Arc<Mailboxes<Mail>>,
    /// The number of the next flow.
    numbers: AtomicU64,
    pub(crate) tcp_interval: Duration,
    pub(crate) report: fn(&str),
}

impl Shared {
    /// For `threads` threads; `report` gets each problem as one line.
    ///
    /// # Errors
    /// When the system denies a descriptor for a mailbox.
    pub(crate) fn new(
        threads: usize,
        process: &ProcessSettings,
        report: fn(&str),
    ) -> io::Result<Shared> {
        Ok(Shared {
            seats: Seats::new(threads, process.flows as usize),
            budget: Arc::new(Budget::new(process.memory.bytes())),
            ends: Arc::default(),
            mailboxes: Arc::new(Mailboxes::new(threads)?),
            numbers: AtomicU64::new(1),
            tcp_interval: process.tcp.tcp_interval.0,
            report,
        })
    }

    /// A number that no flow has had.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}
