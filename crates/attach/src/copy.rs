//! Copies of disks: from anywhere to anywhere, with their holes, as fast as the path allows.

mod end;
mod journal;
mod place;
mod reading;
mod writing;

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use sha2::{Digest, Sha256};
use wansan_cache::{Failure, Range};
use wansan_san::InitiatorConfig;
use wansan_trace::{Instant, Recorder, clock};

use self::end::{End, FileEnd, IscsiEnd, NbdEnd, StandardInput, StandardOutput};
use self::journal::{Journal, Progress};
pub use self::place::{CopyPlace, NbdAddress, NbdPlace};
use self::reading::Reading;
use self::writing::Writing;
use crate::disk::Disk;

/// The longest read or write of a copy, in bytes.
const PIECE_BYTES: u64 = 1 << 20;

/// Parts that wait between source and sink.
const QUEUED_PARTS: usize = 32;

/// How often progress is reported, and kept in a journal.
const REPORT: Duration = Duration::from_millis(200);
const KEEP: Duration = Duration::from_secs(1);

/// What is to be copied, and how.
#[derive(Debug, Clone)]
pub struct CopyConfig {
    /// From where.
    pub from: CopyEnd,
    /// To where.
    pub to: CopyEnd,
    /// Where to keep what is done, so that a copy that was interrupted can go on; `None` for beside a sink that is a
    /// file, and for none where it is not.
    pub journal: Option<PathBuf>,
    /// Whether the sink is read again when all is written, and compared.
    pub verify: bool,
    /// The rate at which the source is read at most, in bytes per second.
    pub bandwidth: Option<u64>,
}

/// One end of a copy.
#[derive(Debug, Clone)]
pub struct CopyEnd {
    /// Where.
    pub place: CopyPlace,
    /// How a session is to be set up, where it is a LUN.
    pub initiator: Option<InitiatorConfig>,
}

/// What a copy has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyReport {
    /// The source's size, in bytes.
    pub size_bytes: u64,
    /// Where it went on, in bytes; 0 where nothing had been interrupted.
    pub resumed_bytes: u64,
    /// Bytes of data that were written; the others are zeros.
    pub data_bytes: u64,
    /// How long it took, without verification.
    pub time: Duration,
    /// SHA-256 of the source, which that of the sink is like; if it was verified.
    pub sha256: Option<[u8; 32]>,
}

/// How far a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyProgress {
    /// Whether it is read again to be verified.
    pub verifies: bool,
    /// Bytes that are done.
    pub done_bytes: u64,
    /// Of so many, if that is known.
    pub size_bytes: Option<u64>,
}

/// A copy cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// One of its ends cannot be used.
    #[error("{place}: {why}")]
    End {
        /// Which.
        place: String,
        /// Why.
        why: String,
    },
    /// The source failed.
    #[error("{place}: reading at {offset_bytes} failed{}", failure.map_or("; it is shorter than it was", words))]
    Read {
        /// Which.
        place: String,
        /// Where, in bytes.
        offset_bytes: u64,
        /// Why; `None` when the data have ended.
        failure: Option<Failure>,
    },
    /// The sink failed.
    #[error("{place}: writing at {offset_bytes} failed{}", words(*failure))]
    Write {
        /// Which.
        place: String,
        /// Where, in bytes.
        offset_bytes: u64,
        /// Why.
        failure: Failure,
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
    /// It makes no sense.
    #[error("{0}")]
    Senseless(&'static str),
    /// What is done cannot be kept.
    #[error("journal {}: {why}", path.display())]
    Journal {
        /// Where.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// What was written reads as something else.
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
    /// The kernel provides no thread, or no descriptor.
    #[error("cannot start the copy: {0}")]
    System(#[from] io::Error),
    /// A part of the program failed.
    #[error("the thread that reads {0} has panicked")]
    Panicked(String),
}

fn words(failure: Failure) -> &'static str {
    match failure {
        Failure::Io => " with an I/O error",
        Failure::NotPermitted => ": it may not be written, or another initiator has reserved it",
        Failure::NoSpace => ": no space is left",
        Failure::NotSupported => ": it has no such operation",
        Failure::Invalid => ": it refused the request",
        Failure::ShuttingDown => ": it is shutting down",
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
    fn range(&self) -> Range {
        match self {
            Part::Zero(range) => *range,
            Part::Data { offset_bytes, data } => Range::new(*offset_bytes, data.len() as u64),
        }
    }
}

/// What becomes known of the source while it is read.
struct Read {
    size_bytes: u64,
    digest: Option<[u8; 32]>,
}

/// Copies, and calls `progress` now and then.
///
/// # Errors
/// [`CopyError`] says what went wrong. A copy with a journal goes on where it was when it is asked for again.
pub fn copy(
    config: &CopyConfig,
    mut progress: impl FnMut(CopyProgress),
) -> Result<CopyReport, CopyError> {
    let began = clock::now();
    check(config)?;
    let from = source(&config.from)?;
    let size_bytes = from.size_bytes();
    let mut journal = open_journal(config, size_bytes)?;
    let resumed_bytes = journal.as_ref().map_or(0, Journal::done_bytes);
    let waker = Waker::new()?;
    let to = sink(&config.to, size_bytes, resumed_bytes > 0, &waker)?;
    if let (Some(needs_bytes), Some(has_bytes)) = (size_bytes, to.size_bytes())
        && has_bytes < needs_bytes
    {
        return Err(CopyError::TooSmall {
            from: config.from.place.to_string(),
            to: config.to.place.to_string(),
            has_bytes,
            needs_bytes,
        });
    }
    if let Some(journal) = &mut journal {
        journal.keep(resumed_bytes)?;
    }
    let (parts, taken) = sync_channel(QUEUED_PARTS);
    let name = config.from.place.to_string();
    let reading = Reading::new(
        from,
        name.clone(),
        resumed_bytes,
        size_bytes,
        config.bandwidth,
    );
    let digests = config.verify && resumed_bytes == 0;
    let ring = waker.clone()?;
    let reader = std::thread::Builder::new().name("read".to_owned());
    let reader = reader.spawn(move || read(reading, &parts, &ring, digests))?;
    let mut writing = Writing::new(to, config.to.place.to_string(), resumed_bytes);
    let written = write(&mut writing, &taken, journal.as_mut(), |done_bytes| {
        progress(CopyProgress {
            verifies: false,
            done_bytes,
            size_bytes,
        });
    });
    // The reader ends when nobody takes its parts.
    drop(taken);
    let read = reader.join().map_err(|_| CopyError::Panicked(name))?;
    let (data_bytes, read) = match (written, read) {
        // The sink's failure is what ended the reader.
        (Err(error), _) | (Ok(()), Err(error)) => return Err(error),
        (Ok(()), Ok(read)) => (writing.data_bytes, read),
    };
    writing.finish()?;
    if let Some(journal) = journal {
        journal.remove()?;
    }
    let time = clock::now() - began;
    let sha256 = match config.verify {
        true => Some(verify(config, &read, progress)?),
        false => None,
    };
    Ok(CopyReport {
        size_bytes: read.size_bytes,
        resumed_bytes,
        data_bytes,
        time,
        sha256,
    })
}

fn check(config: &CopyConfig) -> Result<(), CopyError> {
    let senseless = |what| Err(CopyError::Senseless(what));
    if config.from.place == config.to.place && config.from.place != CopyPlace::Standard {
        return senseless("source and destination are the same");
    }
    if config.to.place == CopyPlace::Standard && config.verify {
        return senseless(
            "what goes to standard output cannot be read again: --verify makes no sense",
        );
    }
    let streams =
        config.from.place == CopyPlace::Standard || config.to.place == CopyPlace::Standard;
    if streams && config.journal.is_some() {
        return senseless("standard input and output cannot be resumed: --journal makes no sense");
    }
    Ok(())
}

fn open_journal(
    config: &CopyConfig,
    size_bytes: Option<u64>,
) -> Result<Option<Journal>, CopyError> {
    let Some(size_bytes) = size_bytes else {
        return Ok(None);
    };
    let path = match (&config.journal, &config.to.place) {
        (Some(path), _) => path.clone(),
        (None, CopyPlace::File(path)) => {
            let mut name = path.as_os_str().to_owned();
            name.push(".wansan-copy");
            name.into()
        }
        (None, _) => return Ok(None),
    };
    let changed_ns = match &config.from.place {
        CopyPlace::File(path) => {
            let changed = std::fs::metadata(path)
                .and_then(|found| found.modified())
                .ok();
            let since = changed.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
            since.map(|time| time.as_nanos() as i128)
        }
        _ => None,
    };
    let progress = Progress {
        from: config.from.place.to_string(),
        to: config.to.place.to_string(),
        size_bytes,
        changed_ns,
        done_bytes: 0,
    };
    Journal::open(path, progress).map(Some)
}

/// Wakes the thread that writes when a part has come.
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
        // A counter that is full wakes as well.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

fn source(end: &CopyEnd) -> Result<Box<dyn End>, CopyError> {
    Ok(match &end.place {
        CopyPlace::Standard => Box::new(StandardInput::new()),
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
        CopyPlace::Standard => Box::new(StandardOutput::new()),
        CopyPlace::File(path) => {
            let mut file = FileEnd::sink(path, resumes)?;
            if let Some(size_bytes) = size_bytes {
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
            let disk = Disk::connect(url.clone(), initiator.clone(), own, Recorder::off());
            let disk = disk.map_err(|error| failed(error.to_string()))?;
            Ok(Box::new(IscsiEnd { disk, name, waker }))
        }
        _ => Err(failed("it cannot be used here".to_owned())),
    }
}

/// Reads all of a source, and gives it on.
fn read(
    mut reading: Reading,
    parts: &SyncSender<Part>,
    waker: &Waker,
    digests: bool,
) -> Result<Read, CopyError> {
    let mut digest = digests.then(Sha256::new);
    let mut size_bytes = 0;
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
    reading.close()?;
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

/// Writes what the reader gives, until it ends.
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
                Ok(part) => writing.give(part),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => is_over = true,
            }
        }
        let now = clock::now();
        if now >= reports_at {
            reports_at = now + REPORT;
            progress(writing.written());
        }
        if let Some(journal) = journal.as_deref_mut()
            && now >= keeps_at
        {
            keeps_at = now + KEEP;
            journal.keep(writing.durable)?;
            writing.flush();
        }
        if writing.is_busy() {
            writing.turn(now + REPORT)?;
        } else if !is_over {
            match parts.recv_timeout(REPORT) {
                Ok(part) => writing.give(part),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => is_over = true,
            }
        }
    }
    progress(writing.written());
    Ok(())
}

/// Reads the sink again, and the source where it was not read as a whole; returns the digest that both have.
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
    let size = Some(size_bytes);
    let mut reading = Reading::new(end, of.place.to_string(), 0, size, config.bandwidth);
    let mut digest = Sha256::new();
    let mut reports_at = Instant::ZERO;
    while let Some(part) = reading.next_part()? {
        add(&mut digest, &part);
        let now = clock::now();
        if now >= reports_at {
            reports_at = now + REPORT;
            progress(CopyProgress {
                verifies: true,
                done_bytes: part.range().end,
                size_bytes: size,
            });
        }
    }
    reading.close()?;
    Ok(digest.finalize().into())
}
