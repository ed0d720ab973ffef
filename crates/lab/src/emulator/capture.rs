//! Captures: what passes a path, or one of its elements, as a pcapng file with an interface for each
//! direction, and for each side of the element.
//!
//! The emulator's thread hands frames over and never waits: what a slow disk leaves no room for is
//! missing in the file, which says how much. A thread of its own writes. That one looks now and then
//! whether something has come, and is not woken: waking takes a lock of the channel, and a real-time
//! thread that finds it held by an ordinary one waits until that gets a processor.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wansan_path::Fate;
use wansan_trace::Instant;
use wansan_trace::clock::{self, Both};

use super::pcapng::File;

/// Frames that may wait to be written, and their bytes.
const MAX_WAITING_FRAMES: usize = 1 << 16;
const MAX_WAITING_BYTES: usize = 64 << 20;
/// How long the writer sleeps when all is written: what comes meanwhile has room, at any rate that a path
/// has.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// Directions come one after the other: for so long a frame waits for earlier ones of the other.
const SORTED_WITHIN_NS: u64 = 50_000_000;

/// A frame as it passed, or was dropped.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Captured {
    time: Instant,
    interface: u32,
    frame: Vec<u8>,
    /// What became of it, unless it went on.
    fate: Option<&'static str>,
}

/// What both threads count.
#[derive(Debug)]
struct Counts {
    waiting_bytes: AtomicUsize,
    /// Frames handed over by each interface, and how many of them found no room.
    offered: Vec<AtomicU64>,
    missing: Vec<AtomicU64>,
}

/// Where the frames of one interface are handed over.
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
    /// Begins a file; the taps of its `interfaces`, by their names. `about` says what the frames are.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn begin(file: &Path, interfaces: &[&str], about: &str) -> io::Result<(Capture, Vec<Tap>)> {
        let out = BufWriter::new(fs::File::create_new(file)?);
        let realtime_ahead_ns = u64::try_from(Both::now().ahead_ns()).unwrap_or(0);
        let comment = format!(
            "{about}, and those dropped there with a comment that says so. Times are CLOCK_MONOTONIC, as in the run's records, + {realtime_ahead_ns} ns."
        );
        let out = File::begin(out, interfaces, &comment)?;
        let (taps, frames, counts) = hand_over(interfaces.len());
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

/// The taps of so many interfaces, and where their frames come out.
fn hand_over(interfaces: usize) -> (Vec<Tap>, Receiver<Captured>, Arc<Counts>) {
    let (sender, frames) = mpsc::sync_channel(MAX_WAITING_FRAMES);
    let zeros = || (0..interfaces).map(|_| AtomicU64::new(0)).collect();
    let counts = Arc::new(Counts {
        waiting_bytes: AtomicUsize::new(0),
        offered: zeros(),
        missing: zeros(),
    });
    let taps = (0..interfaces as u32).map(|interface| Tap {
        interface,
        frames: sender.clone(),
        counts: Arc::clone(&counts),
    });
    (taps.collect(), frames, counts)
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
    /// By time, and those of one time as they were handed over.
    sorting: BinaryHeap<Reverse<(Instant, u64, Captured)>>,
}

impl<W: io::Write> Writer<W> {
    fn run(mut self, frames: &Receiver<Captured>) -> io::Result<()> {
        let mut number = 0;
        loop {
            let captured = match frames.try_recv() {
                Ok(captured) => captured,
                Err(TryRecvError::Empty) => {
                    thread::sleep(LOOK_AGAIN);
                    continue;
                }
                Err(TryRecvError::Disconnected) => break,
            };
            let newest = captured.time.ns();
            number += 1;
            self.sorting
                .push(Reverse((captured.time, number, captured)));
            while let Some(Reverse((oldest, ..))) = self.sorting.peek()
                && (newest.saturating_sub(oldest.ns()) > SORTED_WITHIN_NS
                    || self.sorting.len() > MAX_WAITING_FRAMES)
            {
                self.write_oldest()?;
            }
        }
        while !self.sorting.is_empty() {
            self.write_oldest()?;
        }
        let now = clock::now().ns() + self.realtime_ahead_ns;
        let counts = self.counts.offered.iter().zip(&self.counts.missing);
        for (interface, (offered, missing)) in (0..).zip(counts) {
            let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
            self.out
                .statistics(interface, now, count(offered), count(missing))?;
        }
        self.out.end()
    }

    fn write_oldest(&mut self) -> io::Result<()> {
        let Some(Reverse((_, _, oldest))) = self.sorting.pop() else {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that takes nothing until it is released.
    struct Stuck {
        released: Option<Receiver<()>>,
        written: Vec<u8>,
    }

    impl io::Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if let Some(released) = self.released.take() {
                // Released, or whoever would do it has gone.
                let _ = released.recv();
            }
            self.written.extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_disk_that_stands_still_keeps_nobody() {
        const FRAME_BYTES: usize = 1 << 16;
        const ROOM: u64 = (MAX_WAITING_BYTES / FRAME_BYTES) as u64;
        let (taps, frames, counts) = hand_over(1);
        let (release, released) = mpsc::channel();
        let mut out = File::begin(
            Stuck {
                released: None,
                written: Vec::new(),
            },
            &["only"],
            "",
        )
        .unwrap();
        out.get_mut().released = Some(released);
        let writer = Writer {
            out,
            realtime_ahead_ns: 0,
            counts: Arc::clone(&counts),
            sorting: BinaryHeap::new(),
        };
        let thread = thread::spawn(move || writer.run(&frames));
        let offered = 2 * ROOM;
        for place in 0..offered {
            // So far apart that the writer would write at once.
            let time = Instant::from_ns(place * 2 * SORTED_WITHIN_NS);
            taps[0].take(time, Fate::Delivered, || vec![7; FRAME_BYTES]);
        }
        // The one that is being written has left room.
        let missing = counts.missing[0].load(Ordering::Relaxed);
        assert!((offered - ROOM - 1..=offered - ROOM).contains(&missing));
        release.send(()).unwrap();
        drop(taps);
        thread.join().unwrap().unwrap();
        assert_eq!(counts.waiting_bytes.load(Ordering::Relaxed), 0);
    }
}
