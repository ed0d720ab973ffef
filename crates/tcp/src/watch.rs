//! Watches TCP connections of this computer: their windows, and congestion control events.
//!
//! [`Watch::start`] begins, [`Watch::next`] returns what was observed since, in order of time, and dropping the value
//! ends the watch. Its own thread queries INET_DIAG at each interval, on a grid that does not drift. Where eBPF
//! programs can be loaded, they report every change in between; elsewhere events are derived from the difference of two
//! samples. A consumer that is too slow loses whole batches, which are counted.

mod devices;
mod events;
mod namespace;
mod process;
mod sampler;
mod traced;
mod tracker;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use wansan_trace::Instant;
use wansan_trace::event::Tcp;

use crate::diag::{Connection, DiagError};
use crate::expression::Expression;
pub use namespace::{Namespace, NamespaceError};
pub use process::{Process, ProcessError};
use sampler::Sampler;

/// Most connections watched at once.
pub const MOST_CONNECTIONS: usize = 16_384;

/// The shortest interval.
pub const LEAST_INTERVAL: Duration = Duration::from_millis(1);

/// Room for 20 ms of events of some hundred busy connections, the longest time between reads.
pub const EVENT_BYTES: u32 = 4 << 20;

/// Most batches queued for the consumer.
const WAITING_BATCHES: usize = 1024;

/// What to watch.
#[derive(Debug, Clone, Default)]
pub struct WatchConfig {
    /// The connections to watch; `None`: all.
    pub filter: Option<Expression>,
    /// Watch only this process's connections, until it ends.
    pub process: Option<Process>,
    /// The network namespace to watch; `None`: that of `process`, or the caller's.
    pub namespace: Option<Namespace>,
    /// The sampling interval.
    pub interval: Duration,
    /// Bytes of the buffer of traced events, a power of two of at least a page, such as [`EVENT_BYTES`]; `None`: no
    /// tracing.
    pub event_bytes: Option<u32>,
}

/// How changes are observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Method {
    /// The kernel reports every event and every change of a window; samples add the rest.
    Traced,
    /// The kernel is sampled at each interval, and events are derived from the difference of samples.
    Sampled {
        /// Why there is no tracing.
        reason: String,
    },
}

/// A connection observed for the first time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// The connection; its cookie is the session of its records.
    pub connection: Connection,
    /// The name of its congestion control.
    pub congestion_control: String,
}

/// What the watch has missed since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unseen {
    /// Connections beyond [`MOST_CONNECTIONS`], the greatest number at once.
    pub connections: u64,
    /// Sampling times missed because the computer was busy.
    pub samples: u64,
    /// Events dropped because the kernel's buffer was full.
    pub events: u64,
    /// Records in batches dropped because the consumer was too slow.
    pub records: u64,
}

/// Observations since the last batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// When the kernel was sampled.
    pub time: Instant,
    /// New connections.
    pub begun: Vec<Begun>,
    /// Samples and events in order of time. Their session is the connection's cookie; they name no ends.
    pub records: Vec<Tcp>,
    /// Network devices that were removed from the namespace, by name. Connections over them stall, and are still
    /// watched.
    pub devices_gone: Vec<String>,
    /// What was missed so far.
    pub unseen: Unseen,
}

/// Why a watch ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum Ending {
    /// The watched process has ended.
    #[error("process {id} has ended")]
    ProcessEnded {
        /// Its id.
        id: u32,
    },
    /// The name no longer stands for the watched network namespace.
    #[error(
        "the network namespace {path} has gone; processes that are still in it can be watched by \
         --pid, or by --netns /proc/PID/ns/net", path = path.display()
    )]
    NamespaceGone {
        /// Its file.
        path: PathBuf,
    },
    /// The kernel no longer responds.
    #[error(transparent)]
    Diag(#[from] DiagError),
}

/// A watch cannot start.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// INET_DIAG cannot be used.
    #[error(transparent)]
    Diag(#[from] DiagError),
    /// The network namespace cannot be entered.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The process cannot be inspected.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// No notifications about removed network devices.
    #[error("cannot subscribe to removals of network devices (rtnetlink): {0}")]
    Devices(io::Error),
    /// Starting a thread failed.
    #[error("cannot start a thread to watch with: {0}")]
    Thread(io::Error),
}

/// A running watch.
#[derive(Debug)]
pub struct Watch {
    method: Method,
    batches: Receiver<Result<Batch, Ending>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What [`Watch::next`] found.
#[derive(Debug)]
pub enum Next {
    /// Observations.
    Batch(Batch),
    /// Timeout.
    Nothing,
    /// The watch has ended.
    Over(Ending),
}

impl Watch {
    /// Starts a watch.
    ///
    /// # Errors
    /// [`WatchError`], by what is missing.
    pub fn start(config: WatchConfig) -> Result<Watch, WatchError> {
        let (give, batches) = sync_channel(WAITING_BATCHES);
        let (ready, began) = sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("watch".to_owned())
            // Threads enter namespaces, so the watch's thread opens everything itself.
            .spawn(move || match Sampler::open(config) {
                Ok(mut sampler) => {
                    let method = sampler.method();
                    if ready.send(Ok(method)).is_ok() {
                        give_until_told(&mut sampler, &give, &told);
                    }
                }
                Err(error) => {
                    // The receiver is gone only if the caller is.
                    let _ = ready.send(Err(error));
                }
            })
            .map_err(WatchError::Thread)?;
        let method = began.recv().map_err(|_| {
            WatchError::Thread(io::Error::other("it ended before the watch started"))
        })??;
        Ok(Watch {
            method,
            batches,
            stop,
            thread: Some(thread),
        })
    }

    /// How changes are observed.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Waits up to `patience` for the next batch.
    #[must_use]
    pub fn next(&self, patience: Duration) -> Next {
        match self.batches.recv_timeout(patience) {
            Ok(Ok(batch)) => Next::Batch(batch),
            Ok(Err(ending)) => Next::Over(ending),
            Err(RecvTimeoutError::Timeout) => Next::Nothing,
            Err(RecvTimeoutError::Disconnected) => Next::Over(Ending::Diag(DiagError::System {
                action: "read",
                source: io::Error::other("the watch's thread has ended"),
            })),
        }
    }
}

impl Watch {
    /// Ends the watch: returns the batches not taken yet.
    pub fn rest(&self) -> impl Iterator<Item = Batch> {
        self.stop.store(true, Ordering::Relaxed);
        self.batches.iter().map_while(Result::ok)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The thread may be waiting for room for its last message.
        self.rest().for_each(drop);
        if let Some(thread) = self.thread.take() {
            // Its panic, if any, is on standard error already.
            let _ = thread.join();
        }
    }
}

fn give_until_told(
    sampler: &mut Sampler,
    give: &SyncSender<Result<Batch, Ending>>,
    told: &AtomicBool,
) {
    let mut lost_records = 0;
    let mut untold = None;
    while !told.load(Ordering::Relaxed) {
        let mut batch = match sampler.next(told) {
            Ok(batch) => batch,
            Err(ending) => {
                // The last message waits for room; the receiver is gone only if the caller is.
                let _ = give.send(Err(ending));
                return;
            }
        };
        batch.unseen.records = lost_records;
        match give.try_send(Ok(batch)) {
            Ok(()) => untold = None,
            Err(TrySendError::Full(Ok(batch))) => {
                lost_records += batch.records.len() as u64;
                untold = Some((batch.time, batch.unseen));
            }
            Err(TrySendError::Full(Err(_)) | TrySendError::Disconnected(_)) => return,
        }
    }
    if let Some((time, unseen)) = untold {
        let last = Batch {
            time,
            begun: Vec::new(),
            records: Vec::new(),
            devices_gone: Vec::new(),
            unseen: Unseen {
                records: lost_records,
                ..unseen
            },
        };
        // As above.
        let _ = give.send(Ok(last));
    }
}
