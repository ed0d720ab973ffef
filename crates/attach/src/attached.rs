//! An attached disk: its cache, and the NBD server through which programs on this host use it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use wansan_cache::{Cache, CacheConfig};
use wansan_nbd::wire::BlockSizes;
use wansan_nbd::{Abilities, Export};
use wansan_san::InitiatorConfig;
use wansan_san::url::IscsiUrl;
use wansan_server::{Complaints, Poller};
use wansan_trace::{Kinds, Recorder};

use crate::device::{Device, DeviceError, DeviceName};
use crate::disk::{Disk, DiskError, Facts};
use crate::journal_file::{self, JournalError};
use crate::listen::{Listen, ListenError, Place};
use crate::requests::Requests;
use crate::stack::Stack;
use crate::status::Status;
use crate::worker::{Shared, Worker};

/// Adjacent writes are merged into bursts of at most this length: longer ones gain nothing and delay other requests.
const BURST_BYTES: u64 = 256 << 10;

/// Most writes, trims and zeroing requests that a reset could force us to resend: at half of them, the target's cache
/// is flushed.
const UNFLUSHED_CHANGES: usize = 8192;

/// How long an acknowledged write waits to be merged with others.
const MERGE_TIME: Duration = Duration::from_millis(2);

/// What programs may do to a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Read it.
    Read,
    /// Read and write it.
    ReadWrite,
}

/// How a disk is attached.
#[derive(Debug, Clone)]
pub struct AttachConfig {
    /// Its URL.
    pub url: IscsiUrl,
    /// Login and session settings.
    pub initiator: InitiatorConfig,
    /// Where it is served.
    pub listen: Place,
    /// The block device to create for it.
    pub device: Option<DeviceName>,
    /// The NBD export name; clients may also send the empty name.
    pub export: String,
    /// What they may do to it.
    pub rights: Rights,
    /// Bytes that may be read ahead; 0 for none.
    pub read_ahead_bytes: u64,
    /// Whether writes are acknowledged before the disk has them.
    pub writes_behind: bool,
    /// Memory for writes not yet on the disk's medium, in bytes.
    pub write_bytes: u64,
    /// Path and size in bytes of a journal that holds writes until the disk has them, instead of memory.
    pub journal: Option<(PathBuf, u64)>,
    /// Record kinds of the session, and the memory for them in bytes. Where I/Os are recorded, program requests are as
    /// well, in the same amount of memory again.
    pub kinds: Kinds,
    /// See `kinds`.
    pub record_bytes: usize,
    /// Receives log messages.
    pub report: fn(&str),
}

/// A disk cannot be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The disk is missing or unusable.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The NBD server cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The kernel cannot create a thread or a descriptor.
    #[error("cannot start a thread for the disk: {0}")]
    Thread(io::Error),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The kernel cannot set up the block device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Not a valid NBD export name.
    #[error("the export cannot be offered: {0}")]
    Export(#[from] wansan_nbd::ExportError),
}

impl AttachError {
    /// Whether a retry may succeed with no change on this host: the target may only be unreachable for now.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            AttachError::Disk(DiskError::Session(error)) => error.may_pass(),
            AttachError::Disk(DiskError::Unit(_)) => true,
            // The process that is detaching it may still have the place.
            AttachError::Listen(_) => true,
            _ => false,
        }
    }
}

/// State of acknowledged writes after a detach.
#[derive(Debug)]
pub struct Detached {
    /// Acknowledged bytes that have not reached the disk.
    pub left_bytes: u64,
    /// Whether those bytes are in a journal, so that nothing is lost.
    pub is_safe: bool,
    /// The recorded events.
    pub records: Vec<Recorder>,
}

/// An attached disk. Dropping it stops it at once and may lose acknowledged writes that were not flushed.
#[derive(Debug)]
pub struct Attached {
    place: Place,
    facts: Facts,
    device: Option<Device>,
    /// The block device to create, and how long a lost session is recovered for.
    wanted: Option<(DeviceName, Duration)>,
    shared: Arc<Shared>,
    orders: OwnedFd,
    thread: Option<JoinHandle<Result<Vec<Recorder>, DiskError>>>,
}

/// Everything needed to serve a disk.
struct Prepared {
    export: Export,
    orders: OwnedFd,
    stack: Stack,
    recorded: Option<Requests>,
}

impl Prepared {
    fn of(config: &AttachConfig, facts: &Facts) -> Result<Prepared, AttachError> {
        let export = export(config, facts);
        export.check()?;
        let orders = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let orders = orders.map_err(|errno| AttachError::Thread(errno.into()))?;
        let tasks = config.initiator.tasks;
        let recorded = config.kinds.io.then(|| {
            let kinds = Kinds {
                request: true,
                ..Kinds::NONE
            };
            let recorder = Recorder::new(kinds, config.record_bytes);
            Requests::new(recorder, &config.url.to_string())
        });
        let journal = match &config.journal {
            Some((path, ring_bytes)) => {
                let waker = orders.try_clone().map_err(AttachError::Thread)?;
                let sizes = (*ring_bytes, BURST_BYTES, tasks);
                let marks = recorded.is_some();
                Some(journal_file::open(
                    path,
                    &config.url,
                    facts,
                    sizes,
                    marks,
                    waker,
                )?)
            }
            None => None,
        };
        let cache = Cache::new(CacheConfig {
            size_bytes: facts.capacity.bytes(),
            // The journal acknowledges writes: what it sends down completes only once the disk has it.
            writes_behind: config.writes_behind && journal.is_none(),
            write_bytes: config.write_bytes,
            read_ahead_bytes: config.read_ahead_bytes,
            burst_bytes: BURST_BYTES,
            unflushed_changes: UNFLUSHED_CHANGES,
            merge_time: MERGE_TIME,
            writes_in_flight: tasks,
            // The journal tracks volatile writes itself.
            is_volatile: facts.modes.has_write_cache && config.journal.is_none(),
            marks: recorded.is_some(),
        });
        Ok(Prepared {
            export,
            orders,
            stack: Stack::new(cache, journal),
            recorded,
        })
    }
}

impl Attached {
    /// Attaches a disk. The block device is created by [`Attached::set_up_device`].
    ///
    /// # Errors
    /// [`AttachError`]. A conflict over the listening place is reported before the target is contacted.
    pub fn start(config: &AttachConfig) -> Result<Attached, AttachError> {
        let listen = Listen::at(&config.listen)?;
        let place = listen.place().clone();
        let poller = Poller::new().map_err(AttachError::Thread)?;
        let waker = poller
            .as_fd()
            .try_clone_to_owned()
            .map_err(AttachError::Thread)?;
        let initiator = config.initiator.clone();
        let records = (config.kinds, config.record_bytes);
        let mut disk = Disk::connect(config.url.clone(), initiator, waker, records)?;
        disk.look_for_others();
        let facts = disk.facts().clone();
        let prepared = match Prepared::of(config, &facts) {
            Ok(prepared) => prepared,
            Err(error) => {
                // Do not leave the disk reserved.
                if let (_, Some(left)) = disk.detach() {
                    (config.report)(&left);
                }
                return Err(error);
            }
        };
        let orders = prepared.orders;
        let heard = orders.try_clone().map_err(AttachError::Thread)?;
        let shared = Arc::new(Shared::default());
        let worker = Worker::new(
            disk,
            (prepared.stack, prepared.recorded),
            Arc::new([prepared.export]),
            listen,
            (poller, heard),
            Arc::clone(&shared),
            Complaints::new(config.report, Complaints::LINES_PER_TICK, "more like these"),
        );
        let worker = worker.map_err(AttachError::Thread)?;
        let thread = std::thread::Builder::new().name("disk".to_owned());
        let thread = thread.spawn(|| {
            let ended = worker.run();
            // Without its thread, the disk would hang its users: exit, so that the process can be restarted.
            if let Err(error) = &ended {
                panic!("the thread of a disk cannot go on: {error}");
            }
            ended
        });
        let thread = thread.map_err(AttachError::Thread)?;
        let patience = config.initiator.replacement_timeout;
        Ok(Attached {
            place,
            facts,
            device: None,
            wanted: config.device.map(|name| (name, patience)),
            shared,
            orders,
            thread: Some(thread),
        })
    }

    /// Creates the configured block device, if any.
    ///
    /// # Errors
    /// [`AttachError::Device`], with the kernel's reason.
    pub fn set_up_device(&mut self) -> Result<(), AttachError> {
        if let Some((name, patience)) = self.wanted.take() {
            self.device = Some(Device::set_up(name, &self.place, patience)?);
        }
        Ok(())
    }

    /// Where the disk is served.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Capacity, modes and limits that the disk reported.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The block device, if there is one.
    #[must_use]
    pub fn device(&self) -> Option<&Device> {
        self.device.as_ref()
    }

    /// Current status.
    #[must_use]
    pub fn status(&self) -> Status {
        let status = self.shared.status.lock();
        status.map(|status| status.clone()).unwrap_or_default()
    }

    /// Whether the worker thread has ended by itself.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops serving, and detaches the disk once all open requests are answered and every acknowledged write is on its
    /// medium, or in a journal that need not be drained; `hurries` skips this wait.
    ///
    /// # Errors
    /// The error that ended the worker thread.
    pub fn detach(
        mut self,
        drains: bool,
        mut hurries: impl FnMut() -> bool,
    ) -> Result<Detached, DiskError> {
        const LOOK: Duration = Duration::from_millis(20);
        // Write back the kernel's page cache first.
        let device = self.device.take();
        let down = std::thread::spawn(move || drop(device));
        while !down.is_finished() && !hurries() {
            std::thread::sleep(LOOK);
        }
        self.shared.drains.store(drains, Ordering::Relaxed);
        self.shared.ends.store(true, Ordering::Relaxed);
        self.wake();
        while !self.has_ended() && !hurries() {
            std::thread::sleep(LOOK);
        }
        let has_ended = self.has_ended();
        let records = self.end()?;
        Ok(Detached {
            records,
            left_bytes: self.status().behind_bytes,
            is_safe: has_ended && !self.shared.has_failed.load(Ordering::Relaxed),
        })
    }

    fn wake(&self) {
        // A full counter wakes the thread as well.
        let _ = rustix::io::write(&self.orders, &1_u64.to_ne_bytes());
    }

    fn end(&mut self) -> Result<Vec<Recorder>, DiskError> {
        self.shared.gives_up.store(true, Ordering::Relaxed);
        self.wake();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            // The panic hook has reported it.
            Some(Err(_)) | None => Ok(Vec::new()),
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        drop(self.device.take());
        // Nobody is left to report an error to.
        let _ = self.end();
    }
}

fn export(config: &AttachConfig, facts: &Facts) -> Export {
    let read_only = config.rights == Rights::Read || facts.modes.is_write_protected;
    let block = facts.capacity.block_bytes;
    Export {
        name: config.export.clone(),
        description: format!("{} LUN {}", config.url.target, config.url.lun),
        size_bytes: facts.capacity.bytes(),
        block: BlockSizes {
            minimum_bytes: block,
            preferred_bytes: block.max(BlockSizes::DEFAULT.preferred_bytes),
            ..BlockSizes::DEFAULT
        },
        abilities: Abilities {
            read_only,
            flush: true,
            fua: true,
            trim: facts.can_trim(),
            write_zeroes: true,
            fast_zero: true,
            cache: config.read_ahead_bytes > 0,
            // All connections share one cache: a flush on any connection covers writes acknowledged on all.
            multi_conn: true,
        },
    }
}
