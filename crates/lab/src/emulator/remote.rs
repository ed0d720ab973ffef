//! Handle to a running emulator for other threads: reads statistics and changes directions.

use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use wansan_path::{Change, ChangeError};
use wansan_trace::Instant;

use super::Statistics;

/// Most queued orders.
const MAX_WAITING: usize = 64;

/// Changes applied together.
#[derive(Debug)]
pub(super) struct Order {
    /// Earliest time.
    pub(super) at: Instant,
    /// Directions, by index, and their changes.
    pub(super) changes: Vec<(usize, Change)>,
    pub(super) done: SyncSender<Result<Instant, ChangeError>>,
}

/// Handle to a running emulator. Orders are executed in order of submission.
#[derive(Debug, Clone)]
pub struct Remote {
    sender: SyncSender<Order>,
    directions: Arc<[String]>,
    shown: Arc<Mutex<Statistics>>,
}

/// The pending result of an order.
#[derive(Debug)]
pub struct Receipt(Receiver<Result<Instant, ChangeError>>);

/// Why an order was rejected or failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// There is no such direction.
    #[error("the emulator has no direction `{0}`")]
    NoDirection(String),
    /// Too many orders are queued.
    #[error("{MAX_WAITING} changes are already queued: try again later")]
    TooMany,
    /// The emulator has stopped.
    #[error("the emulator has ended")]
    Ended,
    /// The path does not support the change.
    #[error(transparent)]
    Change(#[from] ChangeError),
}

impl Remote {
    /// A handle for an emulator with these directions, which publishes its statistics there; and the receiver of
    /// orders.
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

    /// Orders changes to directions, by name, applied together at `at`, or at once if that has passed. Earlier orders
    /// are applied first.
    ///
    /// # Errors
    /// [`OrderError`]; then no change is made.
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
    /// When the order was executed; waits for that for at most `limit`. `None` if it is still pending then.
    ///
    /// # Errors
    /// [`OrderError`] if it failed.
    pub fn wait(&self, limit: Duration) -> Result<Option<Instant>, OrderError> {
        match self.0.recv_timeout(limit) {
            Ok(done) => Ok(Some(done?)),
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(OrderError::Ended),
        }
    }
}
