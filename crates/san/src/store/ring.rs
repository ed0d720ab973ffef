//! Direct I/O on files by io_uring(7): it starts in the reactor's own thread and needs no worker.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::thread;
use std::time::Duration;

use io_uring::{IoUring, Probe, opcode, types};

use super::aligned::Aligned;
use super::{Operated, StoreError};

/// Maximum number of requests in flight at the device, enough to keep one busy.
const DEPTH: usize = 128;
/// Maximum length of all requests in flight, in bytes. A single request is always accepted, however large.
const IN_FLIGHT_BYTES: usize = 16 << 20;
/// Memory beyond which completed requests free theirs, in bytes; else it is kept for later ones.
const KEPT_BYTES: usize = 2 * IN_FLIGHT_BYTES;
/// Pause before waiting for the kernel again after an error.
const PAUSE: Duration = Duration::from_millis(1);
/// Marks the entry that tests a new ring.
const TEST: u64 = u64::MAX;

/// What a request does with its file, which it keeps open.
pub(super) struct Transfer<'r> {
    pub(super) file: RawFd,
    /// In bytes.
    pub(super) offset: u64,
    pub(super) data: Data<'r>,
}

impl Transfer<'_> {
    /// The error of a request that failed by `source`.
    pub(super) fn error(&self, source: io::Error) -> StoreError {
        let operated = match self.data {
            Data::Read(_) => Operated::Read,
            Data::Write(_) => Operated::Write,
        };
        StoreError::of_io(operated, self.offset, self.data.length(), source)
    }
}

/// The data of a request.
pub(super) enum Data<'r> {
    /// Read this many bytes.
    Read(usize),
    /// Write these.
    Write(&'r [u8]),
}

impl Data<'_> {
    pub(super) fn length(&self) -> usize {
        match self {
            Data::Read(length) => *length,
            Data::Write(data) => data.len(),
        }
    }
}

/// A read or a write.
pub(super) trait Request {
    /// Always the same.
    fn transfer(&self) -> Transfer<'_>;
}

/// Requests in flight.
pub(super) struct Ring<R: Request> {
    ring: IoUring,
    /// Never more than [`DEPTH`].
    slots: Vec<Slot<R>>,
    free: Vec<usize>,
    /// Total length of the requests in flight.
    bytes: usize,
    /// Total memory of the slots, in bytes.
    memory_bytes: usize,
}

/// One request and its memory, which the kernel accesses while it is in flight.
struct Slot<R> {
    memory: Aligned,
    request: Option<R>,
}

/// How a request ended.
pub(super) enum Outcome<'m> {
    /// The data of a read, or of a write that wrote all of it.
    Done(&'m [u8]),
    /// The device or the file system failed.
    Failed(io::Error),
    /// It was cut short, or failed for another reason: read(2) or write(2) may succeed.
    Unfinished,
}

impl<R: Request> Ring<R> {
    /// A ring that makes `event` readable when a request completes. Fails where the kernel or a system call filter forbids
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
            memory_bytes: 0,
        })
    }

    /// Whether it accepts another request of `length` bytes.
    pub(super) fn has_room(&self, length: usize) -> bool {
        let has_slot = !self.free.is_empty() || self.slots.len() < DEPTH;
        has_slot && (self.is_idle() || self.bytes + length <= IN_FLIGHT_BYTES)
    }

    fn is_idle(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Begins a request.
    ///
    /// # Panics
    /// If there is no room.
    #[allow(
        unsafe_code,
        reason = "the kernel accesses memory that it is given by address"
    )]
    pub(super) fn begin(&mut self, request: R) {
        let place = self.free.pop().unwrap_or_else(|| {
            assert!(self.slots.len() < DEPTH, "the ring is full");
            self.slots.push(Slot {
                memory: Aligned::default(),
                request: None,
            });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[place];
        self.memory_bytes -= slot.memory.memory_bytes();
        let Transfer { file, offset, data } = request.transfer();
        self.bytes += data.length();
        // A longer request is cut short.
        let length = u32::try_from(data.length()).unwrap_or(u32::MAX);
        let file = types::Fd(file);
        let memory = slot.memory.bytes(data.length());
        let entry = match data {
            Data::Read(_) => opcode::Read::new(file, memory.as_mut_ptr(), length)
                .offset(offset)
                .build(),
            Data::Write(data) => {
                memory.copy_from_slice(data);
                opcode::Write::new(file, memory.as_ptr(), length)
                    .offset(offset)
                    .build()
            }
        };
        self.memory_bytes += slot.memory.memory_bytes();
        slot.request = Some(request);
        // SAFETY: the slot keeps the memory, which stays where it is, and the request its file until the kernel has
        // completed it; `drop` waits for that.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(place as u64)) };
        assert!(pushed.is_ok(), "the queue has as many entries as slots");
    }

    /// Number of requests that the kernel has taken.
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

    /// Passes each completed request to `done`.
    pub(super) fn reap(&mut self, mut done: impl FnMut(R, Outcome<'_>)) {
        for entry in self.ring.completion() {
            let place = entry.user_data() as usize;
            let Some(slot) = self.slots.get_mut(place) else {
                continue;
            };
            let Some(request) = slot.request.take() else {
                continue;
            };
            let length = request.transfer().data.length();
            self.bytes -= length;
            self.free.push(place);
            done(request, outcome(entry.result(), slot.memory.bytes(length)));
            if self.memory_bytes > KEPT_BYTES {
                self.memory_bytes -= slot.memory.memory_bytes();
                slot.memory = Aligned::default();
            }
        }
    }
}

/// The outcome of a request for all of `memory` by the kernel's result: the bytes transferred, or an error number below
/// 0.
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
        true => Outcome::Done(memory),
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
    let codes = [opcode::Read::CODE, opcode::Write::CODE];
    match completed.is_some() && codes.iter().all(|code| known.is_supported(*code)) {
        true => Ok(()),
        false => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Waits until the kernel no longer accesses the memory of requests. It never takes those that were not submitted.
impl<R: Request> Drop for Ring<R> {
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

impl<R: Request> core::fmt::Debug for Ring<R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let requests = self.slots.len() - self.free.len();
        f.debug_struct("Ring")
            .field("requests", &requests)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_of_the_device_are_final() {
        let memory = [0; 8];
        assert!(matches!(outcome(8, &memory), Outcome::Done(data) if data == memory));
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
