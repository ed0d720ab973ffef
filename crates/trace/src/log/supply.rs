//! Memory for records, within a budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use super::block::{BLOCK_BYTES, Memory, take_memory};

/// Blocks kept ready in addition to those in use.
const READY_BLOCKS: usize = 8;

/// Total memory that recorders may use.
#[derive(Debug, Clone)]
pub struct Budget(Arc<AtomicUsize>);

impl Budget {
    /// A budget in bytes.
    #[must_use]
    pub fn of(bytes: usize) -> Budget {
        Budget(Arc::new(AtomicUsize::new(bytes)))
    }

    /// Takes one block from the budget, if any is left.
    fn take_block(&self) -> Option<()> {
        let less = |left: usize| left.checked_sub(BLOCK_BYTES);
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.ok().map(drop)
    }
}

/// Supplies memory for blocks until its budget is exhausted.
#[derive(Debug)]
pub(crate) struct Supply {
    budget: Budget,
    ready: Option<Receiver<Memory>>,
}

impl Supply {
    /// A supply within a budget, which may be shared.
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

    /// A supply of `budget_bytes` whose memory is allocated ahead by a thread of its own, so that the recording thread
    /// does not take page faults, which cost more than all the records of an I/O. The supplier blocks while enough is
    /// ready, and ends with the supply. Up to eight blocks are ready beyond those in use; they exceed an exhausted budget
    /// only if the supplier fell behind.
    pub(crate) fn ahead(budget_bytes: usize) -> Self {
        let blocks = budget_bytes / BLOCK_BYTES;
        let (sender, ready) = sync_channel(READY_BLOCKS.saturating_sub(1));
        let supplier = thread::Builder::new().name("records".to_owned());
        let started = blocks > 0
            && supplier
                .spawn(move || {
                    // Ends at the budget, or when the supply is dropped.
                    (0..blocks).all(|_| sender.send(take_memory()).is_ok());
                })
                .is_ok();
        Supply {
            budget: Budget::of(budget_bytes),
            ready: started.then_some(ready),
        }
    }

    /// Memory for one more block; `None` if the budget is exhausted.
    pub(super) fn take(&mut self) -> Option<Memory> {
        self.budget.take_block()?;
        let ready = self.ready.as_ref().and_then(|ready| ready.try_recv().ok());
        // If none is ready (or the thread could not be created), allocates here: waiting would take as long.
        Some(ready.unwrap_or_else(take_memory))
    }
}
