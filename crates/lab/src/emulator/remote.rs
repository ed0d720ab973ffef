//! A running emulator as other threads see it: what it says, and how to change its directions.

use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use wansan_path::{Change, ChangeError};
use wansan_trace::Instant;

use super::Statistics;

/// How many orders may wait for the emulator.
const MAX_WAITING: usize = 64;

/// Changes that are made together.
#[derive(Debug)]
pub(super) struct Order {
    /// Not before then.
    pub(super) at: Instant,
    /// The places of directions, and what changes there.
    pub(super) changes: Vec<(usize, Change)>,
    pub(super) done: SyncSender<Result<Instant, ChangeError>>,
}

/// A running emulator. It carries orders out in the order in which they come.
#[derive(Debug, Clone)]
pub struct Remote {
    sender: SyncSender<Order>,
    directions: Arc<[String]>,
    shown: Arc<Mutex<Statistics>>,
}

/// What an order has come to.
#[derive(Debug)]
pub struct Receipt(Receiver<Result<Instant, ChangeError>>);

/// Why an order was not taken, or not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// There is no such direction.
    #[error("the emulator has no direction `{0}`")]
    NoDirection(String),
    /// Others have to be carried out first.
    #[error("{MAX_WAITING} changes wait to be made already: try again later")]
    TooMany,
    /// The emulator has ended.
    #[error("the emulator has ended")]
    Ended,
    /// The path cannot do that.
    #[error(transparent)]
    Change(#[from] ChangeError),
}

impl Remote {
    /// One for an emulator with these directions, which shows its statistics there; and where orders
    /// arrive.
    pub(super) fn new(
        directions: Vec<String>,
        shown: Arc<Mutex<Statistics>>,
    ) -> (Remote, Receiver<Order>) {
        let (sender, receiver) = mpsc::sync_channel(MAX_WAITING);
        let remote = Remote {
            sender,
            directions: directions.into(),
            shown,
        };
        (remote, receiver)
    }

    /// The statistics as of the last sample.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let shown = self.shown.lock();
        shown.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Orders changes to directions, by name, all of them made at `at`, or at once when that has
    /// passed. What was ordered before is made before.
    ///
    /// # Errors
    /// [`OrderError`]; then nothing of it is made.
    pub fn order(
        &self,
        at: Instant,
        changes: Vec<(String, Change)>,
    ) -> Result<Receipt, OrderError> {
        let changes = changes.into_iter().map(|(name, change)| {
            let place = self.directions.iter().position(|other| *other == name);
            place
                .map(|place| (place, change))
                .ok_or(OrderError::NoDirection(name))
        });
        let changes: Result<_, OrderError> = changes.collect();
        let (done, receipt) = mpsc::sync_channel(1);
        let order = Order {
            at,
            changes: changes?,
            done,
        };
        match self.sender.try_send(order) {
            Ok(()) => Ok(Receipt(receipt)),
            Err(TrySendError::Full(_)) => Err(OrderError::TooMany),
            Err(TrySendError::Disconnected(_)) => Err(OrderError::Ended),
        }
    }
}

impl Receipt {
    /// When the order was carried out; waits for that no longer than `limit`. `None` when it has
    /// not been by then.
    ///
    /// # Errors
    /// [`OrderError`] when it cannot be.
    pub fn wait(&self, limit: Duration) -> Result<Option<Instant>, OrderError> {
        match self.0.recv_timeout(limit) {
            Ok(done) => Ok(Some(done?)),
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(OrderError::Ended),
        }
    }
}
