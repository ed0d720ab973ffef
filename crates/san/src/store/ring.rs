//! Direct reads of files by io_uring(7): they start in the reactor's own thread and need no worker.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use io_uring::{IoUring, opcode, types};

use super::aligned::Aligned;

/// Maximum number of reads at the device, as many as a busy one can reorder. More would only wait in front of others'.
const DEPTH: usize = 128;

/// Reads in progress, each with what it is for.
pub(super) struct Ring<T> {
    ring: IoUring,
    /// Never more than [`DEPTH`].
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
}

/// One read and its memory, which the kernel writes to while the read is in progress.
struct Slot<T> {
    memory: Aligned,
    read: Option<Read<T>>,
}

struct Read<T> {
    length: usize,
    owner: T,
}

impl<T> Ring<T> {
    /// A ring that makes `event` readable when a read ends. Fails where the kernel or a system call filter forbids
    /// io_uring.
    pub(super) fn start(event: BorrowedFd<'_>) -> io::Result<Self> {
        let ring = IoUring::new(DEPTH as u32)?;
        ring.submitter().register_eventfd(event.as_raw_fd())?;
        Ok(Ring {
            ring,
            slots: Vec::new(),
            free: Vec::new(),
        })
    }

    /// Whether it takes another read.
    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.slots.len() < DEPTH
    }

    fn is_idle(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Starts to read `length` bytes at `offset` of a file that `owner` keeps open.
    ///
    /// # Panics
    /// If there is no room.
    #[allow(
        unsafe_code,
        reason = "the kernel writes to memory that it is given by address"
    )]
    pub(super) fn read(&mut self, file: RawFd, (offset, length): (u64, usize), owner: T) {
        let place = self.free.pop().unwrap_or_else(|| {
            assert!(self.slots.len() < DEPTH, "the ring is full");
            self.slots.push(Slot {
                memory: Aligned::default(),
                read: None,
            });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[place];
        let memory = slot.memory.bytes(length).as_mut_ptr();
        slot.read = Some(Read { length, owner });
        // Longer reads are cut short, which the caller handles.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let entry = opcode::Read::new(types::Fd(file), memory, length).offset(offset);
        let entry = entry.build().user_data(place as u64);
        // SAFETY: the slot keeps the memory, which stays where it is, until the kernel has completed the read; `drop`
        // waits for that.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "the queue has as many entries as slots");
    }

    /// Passes what was started to the kernel; returns whether it took everything. If it lacks memory, try again later.
    pub(super) fn submit(&mut self) -> bool {
        while !self.ring.submission().is_empty() {
            match self.ring.submit() {
                Ok(taken) if taken > 0 => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => return false,
            }
        }
        true
    }

    /// Passes each read that has ended to `done`, with its data if it was read completely.
    pub(super) fn reap(&mut self, mut done: impl FnMut(T, Option<&[u8]>)) {
        let Ring { ring, slots, free } = self;
        for entry in ring.completion() {
            let place = entry.user_data() as usize;
            let slot = &mut slots[place];
            let Some(read) = slot.read.take() else {
                continue;
            };
            let is_complete = usize::try_from(entry.result()) == Ok(read.length);
            let data = is_complete.then(|| &*slot.memory.bytes(read.length));
            done(read.owner, data);
            slot.memory.shrink();
            free.push(place);
        }
    }
}

/// Waits until the kernel no longer writes to the memory of reads.
impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        while !self.is_idle() {
            // After an error, as for lack of memory or a signal, tries again: reads end by themselves.
            let _ = self.ring.submit_and_wait(1);
            self.reap(|_, _| {});
        }
    }
}

impl<T> core::fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let reads = self.slots.len() - self.free.len();
        f.debug_struct("Ring")
            .field("reads", &reads)
            .finish_non_exhaustive()
    }
}
