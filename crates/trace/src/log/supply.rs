//! Memory made ready ahead of the thread that records.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use super::block::{BLOCK_BYTES, Memory, take_memory};

/// Blocks that stand ready beside those in use.
const READY_BLOCKS: usize = 2;

/// Hands out memory for blocks until a budget is used up.
///
/// A thread of its own takes the memory from the kernel, so the thread that records does not: a
/// page fault takes longer than all the records of an I/O. The supplier stands still while enough
/// is ready, and ends with the supply.
#[derive(Debug)]
pub(crate) struct Supply {
    left_bytes: usize,
    ready: Option<Receiver<Memory>>,
}

impl Supply {
    /// A supply of `budget_bytes`. Up to two blocks stand ready that are not handed out yet; only
    /// when the supplier fell behind do they come on top of a budget that is used up.
    pub(crate) fn new(budget_bytes: usize) -> Self {
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
            left_bytes: budget_bytes,
            ready: started.then_some(ready),
        }
    }

    /// Memory for one more block; `None` when the budget is used up.
    pub(super) fn take(&mut self) -> Option<Memory> {
        self.left_bytes = self.left_bytes.checked_sub(BLOCK_BYTES)?;
        let ready = self.ready.as_ref().and_then(|ready| ready.try_recv().ok());
        // None is ready (or no thread was to be had): waiting for it would take no less long.
        Some(ready.unwrap_or_else(take_memory))
    }
}
