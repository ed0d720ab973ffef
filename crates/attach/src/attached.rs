//! A disk with its cache, served to programs of this host.

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

/// Writes are merged to bursts of that length at most: longer ones gain nothing, and hold others up.
const BURST_BYTES: u64 = 256 << 10;

/// Writes, trims and zeros that may have to be sent to the target again: from half of them on, its cache is flushed.
const UNFLUSHED_CHANGES: usize = 8192;

/// What a write that was acknowledged waits for others to merge with.
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
    /// Which.
    pub url: IscsiUrl,
    /// How the session is to be set up.
    pub initiator: InitiatorConfig,
    /// Where programs find it.
    pub listen: Place,
    /// The block device that it is to become.
    pub device: Option<DeviceName>,
    /// The name by which they ask for it; the empty one is right too.
    pub export: String,
    /// What they may do to it.
    pub rights: Rights,
    /// Bytes that may be read ahead; 0 for none.
    pub read_ahead_bytes: u64,
    /// Whether writes are acknowledged before they are at the disk.
    pub writes_behind: bool,
    /// Memory for writes that are not on the disk's medium, in bytes.
    pub write_bytes: u64,
    /// Where to keep writes until they are at the disk, and how many bytes of them, instead of in memory.
    pub journal: Option<(PathBuf, u64)>,
    /// What is recorded of the session, and the bytes that it may take. Requests are recorded where I/Os are, in as many
    /// bytes more.
    pub kinds: Kinds,
    /// See `kinds`.
    pub record_bytes: usize,
    /// What is to be logged.
    pub report: fn(&str),
}

/// A disk cannot be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// It is not there.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Nobody can be served.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The kernel provides no thread, or no descriptor.
    #[error("cannot start a thread for the disk: {0}")]
    Thread(io::Error),
    /// Writes cannot be kept on this host.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The kernel does not make it a device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// NBD has no name for it.
    #[error("the export cannot be offered: {0}")]
    Export(#[from] wansan_nbd::ExportError),
}

impl AttachError {
    /// Whether another attempt may succeed although nothing is changed on this host: the target may only be away.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            AttachError::Disk(DiskError::Session(error)) => error.may_pass(),
            AttachError::Disk(DiskError::Unit(_)) => true,
            // One that is being detached may still have it.
            AttachError::Listen(_) => true,
            _ => false,
        }
    }
}

/// What became of what was acknowledged.
#[derive(Debug)]
pub struct Detached {
    /// Bytes that have not reached the disk.
    pub left_bytes: u64,
    /// Whether these are in a journal, and nothing was lost.
    pub is_safe: bool,
    /// What was recorded.
    pub records: Vec<Recorder>,
}

/// An attached disk. Dropped, it ends at once: what was acknowledged and not flushed may be lost.
#[derive(Debug)]
pub struct Attached {
    place: Place,
    facts: Facts,
    device: Option<Device>,
    /// The block device that it is to become, and for how long a lost session is recovered.
    wanted: Option<(DeviceName, Duration)>,
    shared: Arc<Shared>,
    orders: OwnedFd,
    thread: Option<JoinHandle<Result<Vec<Recorder>, DiskError>>>,
}

/// What a disk is served with.
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
            // What a journal has given out is at the disk when it is answered.
            writes_behind: config.writes_behind && journal.is_none(),
            write_bytes: config.write_bytes,
            read_ahead_bytes: config.read_ahead_bytes,
            burst_bytes: BURST_BYTES,
            unflushed_changes: UNFLUSHED_CHANGES,
            merge_time: MERGE_TIME,
            writes_in_flight: tasks,
            // A journal keeps it itself.
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
    /// Attaches a disk. It is no block device before [`Attached::set_up_device`].
    ///
    /// # Errors
    /// [`AttachError`] says why it cannot be. Where somebody else is served is looked at first.
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
                // It must not stay reserved.
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
            // A disk without its thread would hang whoever uses it: the program ends, and can be started again.
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

    /// Has the kernel make it the block device that it is to become, if it is to become one.
    ///
    /// # Errors
    /// [`AttachError::Device`] says why it does not.
    pub fn set_up_device(&mut self) -> Result<(), AttachError> {
        if let Some((name, patience)) = self.wanted.take() {
            self.device = Some(Device::set_up(name, &self.place, patience)?);
        }
        Ok(())
    }

    /// Where programs find it.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What the disk says of itself.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The block device that it is, if it is one.
    #[must_use]
    pub fn device(&self) -> Option<&Device> {
        self.device.as_ref()
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        let status = self.shared.status.lock();
        status.map(|status| status.clone()).unwrap_or_default()
    }

    /// Whether its thread has ended by itself.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Serves no more programs, and detaches the disk once all open requests are answered and everything that was
    /// acknowledged is on its medium, or in a journal that is not to be emptied; `hurries` gives that up.
    ///
    /// # Errors
    /// What ended its thread.
    pub fn detach(
        mut self,
        drains: bool,
        mut hurries: impl FnMut() -> bool,
    ) -> Result<Detached, DiskError> {
        const LOOK: Duration = Duration::from_millis(20);
        // What the kernel still has of it is written first.
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
        // A counter that is full wakes the thread as well.
        let _ = rustix::io::write(&self.orders, &1_u64.to_ne_bytes());
    }

    fn end(&mut self) -> Result<Vec<Recorder>, DiskError> {
        self.shared.gives_up.store(true, Ordering::Relaxed);
        self.wake();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            // A panic has been reported by its hook.
            Some(Err(_)) | None => Ok(Vec::new()),
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        drop(self.device.take());
        // Nobody is left to report to.
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
            // One cache serves all connections: a flush on any covers what was acknowledged on all.
            multi_conn: true,
        },
    }
}
