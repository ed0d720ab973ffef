//! Copies disks between any two places, preserves holes, and keeps the path full.

mod end;
mod journal;
mod place;
mod reading;
mod writing;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use sha2::{Digest, Sha256};
use wansan_cache::{Failure, Range};
use wansan_san::InitiatorConfig;
use wansan_trace::{Instant, Kinds, clock};

use self::end::{End, FileEnd, IscsiEnd, NbdEnd, StandardInput, StandardOutput};
use self::journal::{Journal, Progress};
pub use self::place::{CopyPlace, NbdAddress, NbdPlace};
use self::reading::Reading;
use self::writing::Writing;
use crate::disk::Disk;

/// The longest read or write of a copy, in bytes.
const PIECE_BYTES: u64 = 1 << 20;

/// Most parts queued between source and sink.
const QUEUED_PARTS: usize = 32;

/// Interval between progress reports, which are also written to the journal.
const REPORT: Duration = Duration::from_millis(200);
const KEEP: Duration = Duration::from_secs(1);

/// What to copy, and how.
#[derive(Debug, Clone)]
pub struct CopyConfig {
    /// Source.
    pub from: CopyEnd,
    /// Destination.
    pub to: CopyEnd,
    /// Progress journal, so that an interrupted copy can be resumed; `None` puts it beside a sink that is a file, and
    /// keeps none for other sinks.
    pub journal: Option<PathBuf>,
    /// Whether to read the sink back after writing and compare it.
    pub verify: bool,
    /// Most bytes per second read from the source.
    pub bandwidth: Option<u64>,
}

/// One end of a copy.
#[derive(Debug, Clone)]
pub struct CopyEnd {
    /// Its place.
    pub place: CopyPlace,
    /// Session settings, if it is a LUN.
    pub initiator: Option<InitiatorConfig>,
}

/// Result of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyReport {
    /// The source's size, in bytes.
    pub size_bytes: u64,
    /// Offset at which it resumed, in bytes; 0 for a fresh copy.
    pub resumed_bytes: u64,
    /// Bytes of data written; the rest are zeros.
    pub data_bytes: u64,
    /// Duration, without verification.
    pub time: Duration,
    /// SHA-256 of the source, equal to the sink's, if verified.
    pub sha256: Option<[u8; 32]>,
}

/// Progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyProgress {
    /// Whether it is verifying.
    pub verifies: bool,
    /// Bytes completed.
    pub done_bytes: u64,
    /// Total bytes, if known.
    pub size_bytes: Option<u64>,
}

/// Why a copy fails.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// One of its ends cannot be used.
    #[error("{place}: {why}")]
    End {
        /// The place.
        place: String,
        /// The reason.
        why: String,
    },
    /// The source failed.
    #[error("{place}: reading at byte {offset_bytes} failed: {why}")]
    Read {
        /// The place.
        place: String,
        /// Offset in bytes.
        offset_bytes: u64,
        /// The reason.
        why: String,
    },
    /// The source ends before the size that it reported.
    #[error(
        "{place} ends at byte {offset_bytes}, before the size that it had when the copy started"
    )]
    Ended {
        /// The place.
        place: String,
        /// Offset in bytes.
        offset_bytes: u64,
    },
    /// The destination failed.
    #[error("{place}: writing at byte {offset_bytes} failed: {why}")]
    Write {
        /// The place.
        place: String,
        /// Offset in bytes.
        offset_bytes: u64,
        /// The reason.
        why: String,
    },
    /// The destination may have lost unflushed writes.
    #[error(
        "the session with {place} was lost, and its unflushed writes from byte {durable_bytes} on may be lost: copy again"
    )]
    Unsure {
        /// The place.
        place: String,
        /// Everything below this offset is on its medium.
        durable_bytes: u64,
    },
    /// The sink is too small.
    #[error("{to} has {has_bytes} bytes, fewer than the {needs_bytes} of {from}")]
    TooSmall {
        /// The source.
        from: String,
        /// The sink.
        to: String,
        /// The sink's size.
        has_bytes: u64,
        /// The source's.
        needs_bytes: u64,
    },
    /// The source, whose size was unknown, is longer than the sink.
    #[error("the source is longer than {to}, which has {has_bytes} bytes: the copy is truncated")]
    Longer {
        /// The sink.
        to: String,
        /// The sink's size.
        has_bytes: u64,
    },
    /// The request makes no sense.
    #[error("{0}")]
    Senseless(&'static str),
    /// The progress journal cannot be written.
    #[error("journal {}: {why}", path.display())]
    Journal {
        /// Its path.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The sink's contents differ from the source.
    #[error(
        "{to} differs from {from}: their SHA-256 are {} and {}",
        hex(of_to),
        hex(of_from)
    )]
    Differs {
        /// The source.
        from: String,
        /// The sink.
        to: String,
        /// SHA-256 of the source.
        of_from: [u8; 32],
        /// SHA-256 of the sink.
        of_to: [u8; 32],
    },
    /// The kernel cannot create a thread or a descriptor.
    #[error("cannot start the copy: {0}")]
    System(#[from] io::Error),
    /// A thread of the copy panicked.
    #[error("the thread that reads {0} has panicked")]
    Panicked(String),
}

fn words(failure: Failure) -> &'static str {
    match failure {
        Failure::Io => "I/O error",
        Failure::NotPermitted => "write-protected, or reserved by another initiator",
        Failure::NoSpace => "no space left",
        Failure::NotSupported => "operation not supported",
        Failure::Invalid => "the request was refused",
        Failure::ShuttingDown => "it is shutting down",
    }
}

/// A digest in hexadecimal digits.
#[must_use]
pub fn hex(digest: &[u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A part of a disk.
#[derive(Debug)]
enum Part {
    Data { offset_bytes: u64, data: Vec<u8> },
    Zero(Range),
}

impl Part {
    /// Truncates the part at `end`.
    fn cut(&mut self, end: u64) {
        match self {
            Part::Zero(range) => range.end = range.end.min(end.max(range.start)),
            Part::Data { offset_bytes, data } => {
                data.truncate(end.saturating_sub(*offset_bytes) as usize);
            }
        }
    }

    fn range(&self) -> Range {
        match self {
            Part::Zero(range) => *range,
            Part::Data { offset_bytes, data } => Range::new(*offset_bytes, data.len() as u64),
        }
    }
}

/// What the reader learns of the source.
struct Read {
    size_bytes: u64,
    digest: Option<[u8; 32]>,
}

/// Copies, and calls `progress` regularly. If the session was lost and the destination may have lost unflushed writes,
/// writes them again, provided that the source can be reread.
///
/// # Errors
/// [`CopyError`]. Repeating the copy with the same journal resumes it.
pub fn copy(
    config: &CopyConfig,
    mut progress: impl FnMut(CopyProgress),
) -> Result<CopyReport, CopyError> {
    let began = clock::now();
    check(config)?;
    let mut copied = Copied::default();
    let mut again = None;
    let (read, journal, _locked) = loop {
        match attempt(config, again, &mut copied, &mut progress) {
            Err(CopyError::Unsure { durable_bytes, .. })
                if config.from.place != CopyPlace::Standard =>
            {
                again = Some(durable_bytes);
            }
            ended => break ended?,
        }
    };
    let time = clock::now() - began;
    let verified = match config.verify {
        true => verify(config, &read, progress).map(Some),
        false => Ok(None),
    };
    // A copy that differs has to be made again from the start.
    if let (Some(journal), Ok(_) | Err(CopyError::Differs { .. })) = (journal, &verified) {
        journal.remove()?;
    }
    Ok(CopyReport {
        size_bytes: read.size_bytes,
        resumed_bytes: copied.resumed_bytes,
        data_bytes: copied.data_bytes,
        time,
        sha256: verified?,
    })
}

/// Accumulated results of a copy's attempts.
#[derive(Debug, Default)]
struct Copied {
    resumed_bytes: u64,
    data_bytes: u64,
}

/// Copies from the offset in the journal; `again` marks a retry from there. The returned file locks other copies out.
fn attempt(
    config: &CopyConfig,
    again: Option<u64>,
    copied: &mut Copied,
    progress: &mut impl FnMut(CopyProgress),
) -> Result<(Read, Option<Journal>, Option<File>), CopyError> {
    let from = source(&config.from)?;
    let size_bytes = from.size_bytes();
    let path = journal_path(config, size_bytes);
    let kept = path.as_deref().map(Journal::read).transpose()?.flatten();
    if let (Some(path), Some(kept)) = (&path, &kept) {
        kept.check_names(path, &config.from.place, &config.to.place)?;
    }
    let has_begun = again.is_some() || kept.as_ref().is_some_and(|kept| kept.done_bytes > 0);
    let waker = Waker::new()?;
    let to = sink(&config.to, size_bytes, has_begun, &waker)?;
    if let (Some(needs_bytes), Some(has_bytes)) = (size_bytes, to.room_bytes())
        && has_bytes < needs_bytes
    {
        return Err(CopyError::TooSmall {
            from: config.from.place.to_string(),
            to: config.to.place.to_string(),
            has_bytes,
            needs_bytes,
        });
    }
    let mut journal = match (path, size_bytes) {
        (Some(path), Some(size_bytes)) => Some(Journal::open(
            path,
            kept,
            Progress {
                from: config.from.place.to_string(),
                source: from.identity(),
                to: config.to.place.to_string(),
                destination: to.identity(),
                size_bytes,
                done_bytes: 0,
            },
        )?),
        _ => None,
    };
    let resumed = journal.as_ref().map_or(0, Journal::done_bytes);
    let begin = again.unwrap_or(resumed);
    if again.is_none() {
        copied.resumed_bytes = begin;
    }
    if let Some(journal) = &mut journal {
        journal.keep(begin)?;
    }
    let (parts, taken) = sync_channel(QUEUED_PARTS);
    let name = config.from.place.to_string();
    let shape = (to.block_bytes(), to.most_bytes());
    let reading = Reading::new(
        from,
        name.clone(),
        begin,
        size_bytes,
        shape,
        config.bandwidth,
    );
    let digests = config.verify && begin == 0;
    let ring = waker.clone()?;
    let reader = std::thread::Builder::new().name("read".to_owned());
    let reader = reader.spawn(move || read(reading, &parts, &ring, digests))?;
    let mut writing = Writing::new(to, config.to.place.to_string(), begin);
    let written = write(&mut writing, &taken, journal.as_mut(), |done_bytes| {
        progress(CopyProgress {
            verifies: false,
            done_bytes,
            size_bytes,
        });
    });
    copied.data_bytes += writing.data_bytes;
    // The reader ends at its next part; joining it here could block for any time.
    drop(taken);
    written?;
    let read = reader.join().map_err(|_| CopyError::Panicked(name))??;
    writing.finish()?;
    Ok((read, journal, writing.close()))
}

fn check(config: &CopyConfig) -> Result<(), CopyError> {
    let senseless = |what| Err(CopyError::Senseless(what));
    let (from, to) = (&config.from.place, &config.to.place);
    if from.is_same(to) {
        return senseless("source and destination are the same");
    }
    if *to == CopyPlace::Standard && config.verify {
        return senseless("--verify cannot be used with standard output");
    }
    let Some(journal) = &config.journal else {
        return Ok(());
    };
    if [from, to].contains(&&CopyPlace::Standard) {
        return senseless(
            "a copy of standard input or to standard output cannot be resumed: --journal cannot be used",
        );
    }
    let journal = CopyPlace::File(journal.clone());
    if [from, to].into_iter().any(|end| end.is_same(&journal)) {
        return senseless("the journal is the source or the destination");
    }
    Ok(())
}

/// The journal's path: the configured one, or one beside a destination that is a file.
fn journal_path(config: &CopyConfig, size_bytes: Option<u64>) -> Option<PathBuf> {
    size_bytes?;
    if config.journal.is_some() {
        return config.journal.clone();
    }
    let CopyPlace::File(path) = &config.to.place else {
        return None;
    };
    let is_file = std::fs::metadata(path).map_or(true, |found| found.is_file());
    let mut name = path.as_os_str().to_owned();
    name.push(".wansan-copy");
    is_file.then(|| name.into())
}

/// Wakes the writing thread when a part is queued.
struct Waker(OwnedFd);

impl Waker {
    fn new() -> io::Result<Waker> {
        Ok(Waker(eventfd(
            0,
            EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK,
        )?))
    }

    fn clone(&self) -> io::Result<Waker> {
        self.0.try_clone().map(Waker)
    }

    fn ring(&self) {
        // A full counter wakes it as well.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

fn source(end: &CopyEnd) -> Result<Box<dyn End>, CopyError> {
    Ok(match &end.place {
        CopyPlace::Standard => Box::<StandardInput>::default(),
        CopyPlace::File(path) => Box::new(FileEnd::source(path)?),
        CopyPlace::Iscsi(_) | CopyPlace::Nbd(_) => remote(end, &Waker::new()?)?,
    })
}

fn sink(
    end: &CopyEnd,
    size_bytes: Option<u64>,
    resumes: bool,
    waker: &Waker,
) -> Result<Box<dyn End>, CopyError> {
    Ok(match &end.place {
        CopyPlace::Standard => Box::<StandardOutput>::default(),
        CopyPlace::File(path) => {
            let stranger = || CopyError::End {
                place: path.display().to_string(),
                why:
                    "it is not the file that was being copied to; delete the journal to start over"
                        .to_owned(),
            };
            if resumes && !path.exists() {
                return Err(stranger());
            }
            let mut file = FileEnd::sink(path, resumes)?;
            if let Some(size_bytes) = size_bytes {
                // A resumed file already has its size.
                if resumes && file.size_bytes() < Some(size_bytes) {
                    return Err(stranger());
                }
                file.resize(size_bytes)?;
            }
            Box::new(file)
        }
        CopyPlace::Iscsi(_) | CopyPlace::Nbd(_) => remote(end, waker)?,
    })
}

fn remote(end: &CopyEnd, waker: &Waker) -> Result<Box<dyn End>, CopyError> {
    let place = &end.place;
    let failed = |why: String| CopyError::End {
        place: place.to_string(),
        why,
    };
    let waker = waker.clone()?.0;
    match (place, &end.initiator) {
        (CopyPlace::Nbd(place), _) => Ok(Box::new(NbdEnd::open(place, waker)?)),
        (CopyPlace::Iscsi(url), Some(initiator)) => {
            let (name, own) = (place.to_string(), waker.try_clone()?);
            let disk = Disk::connect(url.clone(), initiator.clone(), own, (Kinds::NONE, 0));
            let disk = disk.map_err(|error| failed(error.to_string()))?;
            let reason = None;
            Ok(Box::new(IscsiEnd {
                disk,
                name,
                waker,
                reason,
            }))
        }
        _ => Err(failed("it cannot be used here".to_owned())),
    }
}

/// Reads the whole source and queues its parts.
fn read(
    mut reading: Reading,
    parts: &SyncSender<Part>,
    waker: &Waker,
    digests: bool,
) -> Result<Read, CopyError> {
    let mut digest = digests.then(Sha256::new);
    let mut size_bytes = reading.position();
    while let Some(part) = reading.next_part()? {
        size_bytes = part.range().end;
        if let Some(digest) = &mut digest {
            add(digest, &part);
        }
        if parts.send(part).is_err() {
            break;
        }
        waker.ring();
    }
    reading.close();
    Ok(Read {
        size_bytes,
        digest: digest.map(|digest| digest.finalize().into()),
    })
}

fn add(digest: &mut Sha256, part: &Part) {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    match part {
        Part::Data { data, .. } => digest.update(data),
        Part::Zero(range) => {
            let mut left = range.bytes();
            while left > 0 {
                let some = left.min(ZEROS.len() as u64);
                digest.update(&ZEROS[..some as usize]);
                left -= some;
            }
        }
    }
}

/// Writes the queued parts until the reader ends.
fn write(
    writing: &mut Writing,
    parts: &Receiver<Part>,
    mut journal: Option<&mut Journal>,
    mut progress: impl FnMut(u64),
) -> Result<(), CopyError> {
    let mut is_over = false;
    let (mut reports_at, mut keeps_at) = (Instant::ZERO, clock::now() + KEEP);
    while !is_over || writing.is_busy() {
        while !is_over && writing.has_room() {
            match parts.try_recv() {
                Ok(part) => writing.give(part)?,
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => is_over = true,
            }
        }
        let now = clock::now();
        if now >= reports_at {
            reports_at = now + REPORT;
            progress(writing.written());
        }
        if now >= keeps_at {
            keeps_at = now + KEEP;
            if let Some(journal) = journal.as_deref_mut() {
                journal.keep(writing.durable)?;
            }
            writing.flush();
        }
        if writing.is_busy() {
            writing.turn(now + REPORT)?;
        } else if !is_over {
            match parts.recv_timeout(REPORT) {
                Ok(part) => writing.give(part)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => is_over = true,
            }
        }
    }
    progress(writing.written());
    Ok(())
}

/// Reads the sink back, and the source if it was not read in full; returns the digest common to both.
fn verify(
    config: &CopyConfig,
    read: &Read,
    mut progress: impl FnMut(CopyProgress),
) -> Result<[u8; 32], CopyError> {
    let of_from = match read.digest {
        Some(digest) => digest,
        None => digest_of(config, &config.from, read.size_bytes, &mut progress)?,
    };
    let of_to = digest_of(config, &config.to, read.size_bytes, &mut progress)?;
    if of_from != of_to {
        return Err(CopyError::Differs {
            from: config.from.place.to_string(),
            to: config.to.place.to_string(),
            of_from,
            of_to,
        });
    }
    Ok(of_from)
}

fn digest_of(
    config: &CopyConfig,
    of: &CopyEnd,
    size_bytes: u64,
    progress: &mut impl FnMut(CopyProgress),
) -> Result<[u8; 32], CopyError> {
    let end = source(of)?;
    // Disks are read in whole blocks.
    let size = Some(size_bytes.next_multiple_of(end.block_bytes()));
    let shape = (1, u64::MAX);
    let mut reading = Reading::new(end, of.place.to_string(), 0, size, shape, config.bandwidth);
    let mut digest = Sha256::new();
    let mut reports_at = Instant::ZERO;
    while let Some(mut part) = reading.next_part()? {
        part.cut(size_bytes);
        add(&mut digest, &part);
        let now = clock::now();
        if now >= reports_at {
            reports_at = now + REPORT;
            progress(CopyProgress {
                verifies: true,
                done_bytes: part.range().end,
                size_bytes: Some(size_bytes),
            });
        }
    }
    reading.close();
    Ok(digest.finalize().into())
}
