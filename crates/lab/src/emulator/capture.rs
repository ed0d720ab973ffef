//! Captures the traffic of a path, or of one of its elements, to a pcapng file with an interface per direction and, for
//! an element, per side.
//!
//! The emulator's thread passes frames on and never waits: frames that do not fit because the disk is slow are missing
//! in the file, which states their number. A separate thread writes. It polls instead of being woken: waking takes a
//! channel lock, and a real-time thread that finds it held by an ordinary thread would wait until that one is
//! scheduled.

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

/// Most frames queued for writing, and most bytes.
const MAX_WAITING_FRAMES: usize = 1 << 16;
const MAX_WAITING_BYTES: usize = 64 << 20;
/// Poll interval of the idle writer: the queue has room for what arrives meanwhile, at any rate of a path.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// Sorting window: directions arrive one after the other, so a frame waits this long for earlier ones of the other
/// direction.
const SORTED_WITHIN_NS: u64 = 50_000_000;

/// A frame that passed or was dropped.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Captured {
    time: Instant,
    interface: u32,
    frame: Vec<u8>,
    /// Why it was dropped; `None` if it passed.
    fate: Option<&'static str>,
}

/// Counters shared by both threads.
#[derive(Debug)]
struct Counts {
    waiting_bytes: AtomicUsize,
    /// Frames submitted per interface, and those dropped for lack of room.
    offered: Vec<AtomicU64>,
    missing: Vec<AtomicU64>,
}

/// The input of one interface.
#[derive(Debug)]
pub struct Tap {
    interface: u32,
    frames: SyncSender<Captured>,
    counts: Arc<Counts>,
}

/// A capture in progress. It ends when its taps are dropped, as an emulator's are when it stops.
#[derive(Debug)]
pub struct Capture {
    file: PathBuf,
    thread: JoinHandle<io::Result<()>>,
}

impl Capture {
    /// Creates a file; returns the taps of its `interfaces`, named so. `about` describes the frames.
    ///
    /// # Errors
    /// The file cannot be created.
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

    /// Waits until every submitted frame is written. The taps must have been dropped.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn end(self) -> io::Result<()> {
        self.thread.join().expect("writing does not panic")
    }
}

/// The taps of that many interfaces, and the output queue.
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
    /// Submits a frame that left, or was dropped, at `time`; `bytes` builds it if there is room.
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
    /// By time; equal times in order of submission.
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

    /// A disk that blocks until released.
    struct Stuck {
        released: Option<Receiver<()>>,
        written: Vec<u8>,
    }

    impl io::Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if let Some(released) = self.released.take() {
                // Released, or the releaser is gone.
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
            // Far enough apart that the writer would write at once.
            let time = Instant::from_ns(place * 2 * SORTED_WITHIN_NS);
            taps[0].take(time, Fate::Delivered, || vec![7; FRAME_BYTES]);
        }
        // The frame being written has freed a slot.
        let missing = counts.missing[0].load(Ordering::Relaxed);
        assert!((offered - ROOM - 1..=offered - ROOM).contains(&missing));
        release.send(()).unwrap();
        drop(taps);
        thread.join().unwrap().unwrap();
        assert_eq!(counts.waiting_bytes.load(Ordering::Relaxed), 0);
    }
}
