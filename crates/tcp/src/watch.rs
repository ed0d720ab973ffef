//! Watching TCP connections of this computer: their windows, and what congestion control does.
//!
//! [`Watch::start`] begins, [`Watch::next`] returns what was seen since, in order of time, and dropping
//! the value ends it. A thread of its own asks INET_DIAG at each interval, on a grid that does not
//! drift. Where programs of ours can be brought into the kernel they tell every change in between;
//! elsewhere events are derived from the difference of two samples. Whoever takes the batches too slowly
//! loses whole ones, and counts them.

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

/// Most connections that are watched at once.
pub const MOST_CONNECTIONS: usize = 16_384;

/// The shortest interval.
pub const LEAST_INTERVAL: Duration = Duration::from_millis(1);

/// Room for the events of some hundred busy connections until the watch looks for them, twenty
/// milliseconds later.
pub const EVENT_BYTES: u32 = 4 << 20;

/// Batches that wait for whoever takes them.
const WAITING_BATCHES: usize = 1024;

/// What to watch.
#[derive(Debug, Clone, Default)]
pub struct WatchConfig {
    /// Which connections; all when there is none.
    pub filter: Option<Expression>,
    /// Only those of this process, until it ends.
    pub process: Option<Process>,
    /// In which network namespace; that of `process`, or our own, when none is named.
    pub namespace: Option<Namespace>,
    /// How often the kernel is asked.
    pub interval: Duration,
    /// Bytes of memory in which traced events wait, a power of two of at least a page, such as
    /// [`EVENT_BYTES`]; nothing is traced when there is none.
    pub event_bytes: Option<u32>,
}

/// How changes are observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Method {
    /// The kernel tells every event and every change of a window; samples tell the rest.
    Traced,
    /// The kernel is asked at each interval, and events are derived from the difference of samples.
    Sampled {
        /// Why not better.
        reason: String,
    },
}

/// Something that was watched for the first time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// Which connection; its cookie is the session of its records.
    pub connection: Connection,
    /// The name of its congestion control.
    pub congestion_control: String,
}

/// What was not seen, since the watch began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unseen {
    /// Connections beyond [`MOST_CONNECTIONS`], the greatest number at once.
    pub connections: u64,
    /// Times on the grid at which the kernel was not asked, as the computer was busy.
    pub samples: u64,
    /// Events that the kernel had no room for.
    pub events: u64,
    /// Records in batches that nobody took in time.
    pub records: u64,
}

/// What was seen since the last batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// When the kernel was asked.
    pub time: Instant,
    /// Connections that are new.
    pub begun: Vec<Begun>,
    /// Samples and events by time. Their session is the connection's cookie and they name no ends.
    pub records: Vec<Tcp>,
    /// Network devices that have gone from the namespace, by name. What went over them stands still,
    /// and is watched on.
    pub devices_gone: Vec<String>,
    /// What was not seen so far.
    pub unseen: Unseen,
}

/// Why a watch ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum Ending {
    /// The process that was watched has ended, as processes do.
    #[error("process {id} has ended")]
    ProcessEnded {
        /// Its id.
        id: u32,
    },
    /// The network namespace that was watched is not there any more by the name that was given.
    #[error(
        "the network namespace {path} has gone; processes that are still in it can be watched by \
         --pid, or by --netns /proc/PID/ns/net", path = path.display()
    )]
    NamespaceGone {
        /// The file that stood for it.
        path: PathBuf,
    },
    /// The kernel does not answer any more.
    #[error(transparent)]
    Diag(#[from] DiagError),
}

/// A watch cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// INET_DIAG cannot be used.
    #[error(transparent)]
    Diag(#[from] DiagError),
    /// The network namespace cannot be entered.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The process cannot be looked at.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// Nobody would tell of network devices that go away.
    #[error("cannot listen for network devices that go away (rtnetlink): {0}")]
    Devices(io::Error),
    /// The system has no thread for it.
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
    /// Something was seen.
    Batch(Batch),
    /// Nothing came in time.
    Nothing,
    /// The watch is over.
    Over(Ending),
}

impl Watch {
    /// Begins to watch.
    ///
    /// # Errors
    /// [`WatchError`] says what is missing.
    pub fn start(config: WatchConfig) -> Result<Watch, WatchError> {
        let (give, batches) = sync_channel(WAITING_BATCHES);
        let (ready, began) = sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("watch".to_owned())
            // Namespaces are entered by threads, so this one opens everything itself.
            .spawn(move || match Sampler::open(config) {
                Ok(mut sampler) => {
                    let method = sampler.method();
                    if ready.send(Ok(method)).is_ok() {
                        give_until_told(&mut sampler, &give, &told);
                    }
                }
                Err(error) => {
                    // Nobody waits for it only if the caller has gone.
                    let _ = ready.send(Err(error));
                }
            })
            .map_err(WatchError::Thread)?;
        let method = began.recv().map_err(|_| {
            WatchError::Thread(io::Error::other("it ended before it had begun to watch"))
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

    /// The next batch, waiting for it as long as `patience`.
    #[must_use]
    pub fn next(&self, patience: Duration) -> Next {
        match self.batches.recv_timeout(patience) {
            Ok(Ok(batch)) => Next::Batch(batch),
            Ok(Err(ending)) => Next::Over(ending),
            Err(RecvTimeoutError::Timeout) => Next::Nothing,
            Err(RecvTimeoutError::Disconnected) => Next::Over(Ending::Diag(DiagError::System {
                action: "read",
                source: io::Error::other("the thread that watches has ended"),
            })),
        }
    }
}

impl Watch {
    /// Ends the watch: returns what was seen until then and not taken yet.
    pub fn rest(&self) -> impl Iterator<Item = Batch> {
        self.stop.store(true, Ordering::Relaxed);
        self.batches.iter().map_while(Result::ok)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The thread may wait for room for its last word.
        self.rest().for_each(drop);
        if let Some(thread) = self.thread.take() {
            // Its panic, if it had one, is on standard error already.
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
                // A last word waits for room; nobody listens only if the caller has gone.
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
        // As for an ending's.
        let _ = give.send(Ok(last));
    }
}
