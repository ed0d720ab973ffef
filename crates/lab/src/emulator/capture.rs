//! Captures: what passes a path, as a pcapng file with an interface for each direction.
//!
//! The emulator's thread hands frames over and never waits: what a slow disk leaves no room for is
//! missing in the file, which says how much. A thread of its own writes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use wansan_path::Fate;
use wansan_trace::{Instant, clock};

use super::pcapng::File;

/// Frames that may wait to be written, and their bytes.
const MAX_WAITING_FRAMES: usize = 1 << 16;
const MAX_WAITING_BYTES: usize = 64 << 20;
/// Directions come one after the other: for so long a frame waits for earlier ones of the other.
const SORTED_WITHIN_NS: u64 = 50_000_000;

/// A frame as it left a path, or was dropped there.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Captured {
    time: Instant,
    interface: u32,
    frame: Vec<u8>,
    /// What became of it, unless it went on.
    fate: Option<&'static str>,
}

/// What both threads count.
#[derive(Debug, Default)]
struct Counts {
    waiting_bytes: AtomicUsize,
    /// Frames handed over by each interface, and how many of them found no room.
    offered: [AtomicU64; 2],
    missing: [AtomicU64; 2],
}

/// Where one direction hands over its frames.
#[derive(Debug)]
pub struct Tap {
    interface: u32,
    frames: SyncSender<Captured>,
    counts: Arc<Counts>,
}

/// A capture under way. It ends when its taps are dropped, as those of an emulator are when it stops.
#[derive(Debug)]
pub struct Capture {
    file: PathBuf,
    thread: JoinHandle<io::Result<()>>,
}

impl Capture {
    /// Begins a file; the taps of `directions`, whose names are those of its interfaces.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn begin(file: &Path, directions: [&str; 2]) -> io::Result<(Capture, [Tap; 2])> {
        let out = BufWriter::new(fs::File::create_new(file)?);
        let realtime_ahead_ns = clock::realtime_ns().saturating_sub(clock::now().ns());
        let comment = format!(
            "Frames as they leave the path, and those dropped there with a comment that says so. \
             Times are CLOCK_MONOTONIC, as in the run's records, + {realtime_ahead_ns} ns."
        );
        let out = File::begin(out, &directions, &comment)?;
        let (sender, frames) = mpsc::sync_channel(MAX_WAITING_FRAMES);
        let counts = Arc::new(Counts::default());
        let taps = [0, 1].map(|interface| Tap {
            interface,
            frames: sender.clone(),
            counts: Arc::clone(&counts),
        });
        let writer = Writer {
            out,
            realtime_ahead_ns,
            counts,
            sorting: BinaryHeap::new(),
        };
        let thread = thread::Builder::new()
            .name("capture".to_owned())
            .spawn(move || writer.run(&frames))?;
        let file = file.to_owned();
        Ok((Capture { file, thread }, taps))
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Waits until all is written that was handed over. The taps must have been dropped.
    ///
    /// # Errors
    /// When the file could not be written.
    pub fn end(self) -> io::Result<()> {
        self.thread.join().expect("writing does not panic")
    }
}

impl Tap {
    /// A frame leaves, or is dropped, at `time`; `bytes` makes it when there is room.
    pub(super) fn take(&self, time: Instant, fate: Fate, bytes: impl FnOnce() -> Vec<u8>) {
        let place = self.interface as usize;
        let counts = &self.counts;
        counts.offered[place].fetch_add(1, Ordering::Relaxed);
        if counts.waiting_bytes.load(Ordering::Relaxed) < MAX_WAITING_BYTES {
            let frame = bytes();
            let length = frame.len();
            counts.waiting_bytes.fetch_add(length, Ordering::Relaxed);
            let captured = Captured {
                time,
                interface: self.interface,
                frame,
                fate: told(fate),
            };
            if self.frames.try_send(captured).is_ok() {
                return;
            }
            counts.waiting_bytes.fetch_sub(length, Ordering::Relaxed);
        }
        counts.missing[place].fetch_add(1, Ordering::Relaxed);
    }
}

fn told(fate: Fate) -> Option<&'static str> {
    match fate {
        Fate::Delivered => None,
        Fate::DroppedByLoss => Some("wansan: lost"),
        Fate::DroppedByQueue => Some("wansan: dropped by the queue"),
        Fate::DroppedByDelayLine => Some("wansan: dropped by the delay line"),
        Fate::DroppedByOutage => Some("wansan: lost, the path was down"),
    }
}

struct Writer<W: io::Write> {
    out: File<W>,
    realtime_ahead_ns: u64,
    counts: Arc<Counts>,
    sorting: BinaryHeap<Reverse<Captured>>,
}

impl<W: io::Write> Writer<W> {
    fn run(mut self, frames: &Receiver<Captured>) -> io::Result<()> {
        while let Ok(captured) = frames.recv() {
            let newest = captured.time.ns();
            self.sorting.push(Reverse(captured));
            while let Some(Reverse(oldest)) = self.sorting.peek()
                && (newest.saturating_sub(oldest.time.ns()) > SORTED_WITHIN_NS
                    || self.sorting.len() > MAX_WAITING_FRAMES)
            {
                self.write_oldest()?;
            }
        }
        while !self.sorting.is_empty() {
            self.write_oldest()?;
        }
        let now = clock::now().ns() + self.realtime_ahead_ns;
        for interface in 0..2u32 {
            let count =
                |counts: &[AtomicU64; 2]| counts[interface as usize].load(Ordering::Relaxed);
            let (offered, missing) = (count(&self.counts.offered), count(&self.counts.missing));
            self.out.statistics(interface, now, offered, missing)?;
        }
        self.out.end()
    }

    fn write_oldest(&mut self) -> io::Result<()> {
        let Some(Reverse(oldest)) = self.sorting.pop() else {
            return Ok(());
        };
        let length = oldest.frame.len();
        self.counts
            .waiting_bytes
            .fetch_sub(length, Ordering::Relaxed);
        let time = oldest.time.ns() + self.realtime_ahead_ns;
        self.out
            .packet(oldest.interface, time, &oldest.frame, oldest.fate)
    }
}
