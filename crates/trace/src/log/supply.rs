//! Memory for records, within a budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use super::block::{BLOCK_BYTES, Memory, take_memory};

/// Blocks that stand ready beside those in use.
const READY_BLOCKS: usize = 2;

/// How much memory recorders may take in all.
#[derive(Debug, Clone)]
pub struct Budget(Arc<AtomicUsize>);

impl Budget {
    /// So many bytes.
    #[must_use]
    pub fn of(bytes: usize) -> Budget {
        Budget(Arc::new(AtomicUsize::new(bytes)))
    }

    /// Takes a block of it, if there is one left.
    fn take_block(&self) -> Option<()> {
        let less = |left: usize| left.checked_sub(BLOCK_BYTES);
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.ok().map(drop)
    }
}

/// Hands out memory for blocks until its budget is used up.
#[derive(Debug)]
pub(crate) struct Supply {
    budget: Budget,
    ready: Option<Receiver<Memory>>,
}

impl Supply {
    /// A supply within a budget, which others may share.
    pub(crate) fn within(budget: &Budget) -> Self {
        Supply {
            budget: budget.clone(),
            ready: None,
        }
    }

    /// Another supply within the same budget.
    pub(crate) fn another(&self) -> Self {
        Supply::within(&self.budget)
    }

    /// A supply of `budget_bytes` whose memory is made ready ahead: a thread of its own takes it from
    /// the kernel, so the thread that records does not, as a page fault takes longer than all the
    /// records of an I/O. The supplier stands still while enough is ready, and ends with the supply.
    /// Up to two blocks stand ready that are not handed out yet; only when the supplier fell behind do
    /// they come on top of a budget that is used up.
    pub(crate) fn ahead(budget_bytes: usize) -> Self {
        let blocks = budget_bytes / BLOCK_BYTES;
        let (sender, ready) = sync_channel(READY_BLOCKS.saturating_sub(1));
        let supplier = thread::Builder::new().name("records".to_owned());
        let started = blocks > 0
            && supplier
                .spawn(move || {
                    // Ends at the budget, or when the supply is gone.
                    (0..blocks).all(|_| sender.send(take_memory()).is_ok());
                })
                .is_ok();
        Supply {
            budget: Budget::of(budget_bytes),
            ready: started.then_some(ready),
        }
    }

    /// Memory for one more block; `None` when the budget is used up.
    pub(super) fn take(&mut self) -> Option<Memory> {
        self.budget.take_block()?;
        let ready = self.ready.as_ref().and_then(|ready| ready.try_recv().ok());
        // None is ready (or no thread was to be had): waiting for it would take no less long.
        Some(ready.unwrap_or_else(take_memory))
    }
}
