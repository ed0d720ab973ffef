//! Direct reads of files by io_uring(7): they start in the reactor's own thread and need no worker.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::thread;
use std::time::Duration;

use io_uring::{IoUring, Probe, opcode, types};

use super::aligned::Aligned;

/// Maximum number of reads in flight at the device, enough to keep one busy.
const DEPTH: usize = 128;
/// Maximum memory of reads in flight, in bytes. A single read is always accepted, however large.
const MEMORY_BYTES: usize = 16 << 20;
/// Pause before waiting for the kernel again after an error.
const PAUSE: Duration = Duration::from_millis(1);
/// Marks the entry that tests a new ring.
const TEST: u64 = u64::MAX;

/// Reads in flight, each with its owner.
pub(super) struct Ring<T> {
    ring: IoUring,
    /// Never more than [`DEPTH`].
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
    /// Total length of the reads in flight.
    bytes: usize,
}

/// One read and its memory, which the kernel writes to while the read is in flight.
struct Slot<T> {
    memory: Aligned,
    read: Option<Read<T>>,
}

struct Read<T> {
    length: usize,
    owner: T,
}

/// How a read ended.
pub(super) enum Outcome<'m> {
    /// With this data.
    Data(&'m [u8]),
    /// The device or the file system failed.
    Failed(io::Error),
    /// It was cut short, or failed for another reason: read(2) may succeed.
    Unfinished,
}

impl<T> Ring<T> {
    /// A ring that makes `event` readable when a read completes. Fails where the kernel or a system call filter forbids
    /// io_uring, and before Linux 5.6.
    pub(super) fn start(event: BorrowedFd<'_>) -> io::Result<Self> {
        let mut ring = IoUring::new(DEPTH as u32)?;
        test(&mut ring)?;
        ring.submitter().register_eventfd(event.as_raw_fd())?;
        Ok(Ring {
            ring,
            slots: Vec::new(),
            free: Vec::new(),
            bytes: 0,
        })
    }

    /// Whether it accepts another read of `length` bytes.
    pub(super) fn has_room(&self, length: usize) -> bool {
        let has_slot = !self.free.is_empty() || self.slots.len() < DEPTH;
        has_slot && (self.is_idle() || self.bytes + length <= MEMORY_BYTES)
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
        self.bytes += length;
        // A longer read is cut short.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let entry = opcode::Read::new(types::Fd(file), memory, length).offset(offset);
        let entry = entry.build().user_data(place as u64);
        // SAFETY: the slot keeps the memory, which stays where it is, until the kernel has completed the read; `drop`
        // waits for that.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "the queue has as many entries as slots");
    }

    /// Number of reads that the kernel has taken.
    fn submitted(&mut self) -> usize {
        self.slots.len() - self.free.len() - self.ring.submission().len()
    }

    /// Passes what was started to the kernel. If that fails, for lack of memory, call it again after the next completion;
    /// returns false if there will be none, as nothing was submitted.
    pub(super) fn submit(&mut self) -> bool {
        while !self.ring.submission().is_empty() {
            match self.ring.submit() {
                Ok(taken) if taken > 0 => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => return self.submitted() > 0,
            }
        }
        true
    }

    /// Passes each completed read to `done`.
    pub(super) fn reap(&mut self, mut done: impl FnMut(T, Outcome<'_>)) {
        for entry in self.ring.completion() {
            let place = entry.user_data() as usize;
            let Some(slot) = self.slots.get_mut(place) else {
                continue;
            };
            let Some(Read { length, owner }) = slot.read.take() else {
                continue;
            };
            self.bytes -= length;
            self.free.push(place);
            done(owner, outcome(entry.result(), slot.memory.bytes(length)));
            slot.memory.shrink();
        }
    }
}

/// The outcome of a read into `memory` by the kernel's result: the bytes read, or an error number below 0.
fn outcome(result: i32, memory: &[u8]) -> Outcome<'_> {
    let Ok(bytes) = usize::try_from(result) else {
        return match -result {
            error @ (libc::EIO
            | libc::ENODATA
            | libc::EILSEQ
            | libc::EREMOTEIO
            | libc::ETIMEDOUT
            | libc::ENOLINK
            | libc::EBADE
            | libc::ENXIO
            | libc::ENODEV
            | libc::ESTALE
            | libc::EUCLEAN) => Outcome::Failed(io::Error::from_raw_os_error(error)),
            _ => Outcome::Unfinished,
        };
    };
    match bytes == memory.len() {
        true => Outcome::Data(memory),
        false => Outcome::Unfinished,
    }
}

/// Completes an operation without effect: a filter may allow setting up a ring and forbid entering it.
#[allow(unsafe_code, reason = "entries are trusted to name valid memory")]
fn test(ring: &mut IoUring) -> io::Result<()> {
    let mut known = Probe::new();
    ring.submitter().register_probe(&mut known)?;
    let nop = opcode::Nop::new().build().user_data(TEST);
    // SAFETY: a no-op refers to no memory.
    let pushed = unsafe { ring.submission().push(&nop) };
    assert!(pushed.is_ok(), "the queue is empty");
    ring.submit_and_wait(1)?;
    let completed = ring.completion().next();
    match completed.is_some() && known.is_supported(opcode::Read::CODE) {
        true => Ok(()),
        false => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Waits until the kernel no longer writes to the memory of reads. It never takes those that were not submitted.
impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        while self.submitted() > 0 {
            if let Err(error) = self.ring.submit_and_wait(1)
                && error.kind() != io::ErrorKind::Interrupted
            {
                thread::sleep(PAUSE);
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_of_the_device_are_final() {
        let memory = [0; 8];
        assert!(matches!(outcome(8, &memory), Outcome::Data(data) if data == memory));
        for repeated in [0, 7, -libc::EINVAL, -libc::EAGAIN, -libc::ENOMEM] {
            assert!(matches!(outcome(repeated, &memory), Outcome::Unfinished));
        }
        for (result, error) in [(-libc::EIO, libc::EIO), (-libc::ENODATA, libc::ENODATA)] {
            assert!(
                matches!(outcome(result, &memory), Outcome::Failed(failed) if failed.raw_os_error() == Some(error))
            );
        }
    }
}
