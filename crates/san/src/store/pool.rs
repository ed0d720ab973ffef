//! Worker threads for store operations that may block.
//!
//! A [`Pool`] owns the threads; each reactor opens a [`QueuePair`] on it: it submits operations with an owned buffer,
//! completions return the buffer, and a descriptor is readable while there are any. A queue pair is bounded in
//! operations and in bytes, counted from submission until the completion is drained, so a slow store applies
//! back-pressure instead of filling memory. Dropping a queue pair waits until no store works for it.
//!
//! Direct I/O on files needs no worker where io_uring is available ([`DirectIo`]).
//!
//! Operations are queued in [`Lane`]s, one per session, and the workers serve all lanes equally by bytes, however many
//! operations one has queued (start-time fair queueing: Goyal, Vin and Cheng, IEEE/ACM ToN 5(5), 1997).

use core::cell::OnceCell;
use core::cmp::Ordering;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use core::num::NonZeroU64;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use wansan_trace::{Instant, clock};

use super::direct_io::DirectIo;
use super::ring::{Data, Outcome, Request, Transfer};
use super::{MediumJob, Store, StoreError, Writing};

/// One store operation with its buffer.
#[derive(Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read into all of `buffer` from `offset` on.
    Read {
        /// First byte, in bytes.
        offset: u64,
        /// Its length is the number of bytes to read; its content is overwritten.
        buffer: Vec<u8>,
    },
    /// Write all of `buffer` at `offset`.
    Write {
        /// First byte, in bytes.
        offset: u64,
        /// The data.
        buffer: Vec<u8>,
        /// Force unit access: on the medium before it completes.
        fua: bool,
    },
    /// Flush everything written so far to the medium.
    Flush,
    /// Another operation.
    Medium(Box<MediumJob>),
}

impl Operation {
    /// Length of its buffer.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Operation::Read { buffer, .. } | Operation::Write { buffer, .. } => buffer.len(),
            Operation::Flush => 0,
            Operation::Medium(job) => job.bytes(),
        }
    }

    /// What it transfers and from where on, if a read(2) or write(2) is all that it takes.
    fn data(&self) -> Option<(u64, Data<'_>)> {
        match self {
            Operation::Read { offset, buffer } => Some((*offset, Data::Read(buffer.len()))),
            Operation::Write {
                offset,
                buffer,
                fua: false,
            } => Some((*offset, Data::Write(buffer))),
            Operation::Write { .. } | Operation::Flush | Operation::Medium(_) => None,
        }
    }

    fn run(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        match self {
            Operation::Read { offset, buffer } => store.read_at(*offset, buffer),
            Operation::Write {
                offset,
                buffer,
                fua,
            } => store.write_at(*offset, buffer, *fua),
            Operation::Flush => store.flush(),
            Operation::Medium(job) => job.run(),
        }
    }
}

/// A completed operation.
#[derive(Debug)]
pub struct Completion {
    /// As given to [`QueuePair::submit`].
    pub token: u64,
    /// Its result.
    pub result: Result<(), StoreError>,
    /// The operation with its buffer; after a successful read, the buffer holds the data.
    pub operation: Operation,
    /// When it was submitted.
    pub queued: Instant,
    /// When service began: when a worker, or a server of a [`ServiceTimeStore`](super::ServiceTimeStore), took it.
    /// Until then it was queued above the store. Direct I/O begins when it is passed to the kernel.
    pub began: Instant,
    /// When the store completed it; for direct I/O, when the reactor found it completed.
    pub finished: Instant,
}

/// The queue of a session's operations in a pool: direct I/O begins in order, so do all other operations, and lanes take
/// turns.
#[derive(Debug, Default)]
pub struct Lane {
    /// Start tag of the next operation for workers, unless virtual time has passed it.
    next: u64,
    /// The same of the next direct read or write.
    pub(super) next_direct: u64,
}

/// Minimum weight of an operation among lanes, in bytes.
const LEAST_BYTES: usize = 4096;

/// Limits of one queue pair, from submission until the completion is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueBounds {
    /// Operations.
    pub operations: usize,
    /// Bytes in their buffers. A single operation is always accepted, however large.
    pub bytes: usize,
}

/// The content of a queue pair.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct QueueLoad {
    pub(super) operations: usize,
    /// In their buffers.
    pub(super) bytes: usize,
}

/// Threads that run operations; dropping the pool ends them (operations not begun are dropped, and submissions to its
/// queue pairs fail from then on, except direct I/O).
#[derive(Debug)]
pub struct Pool {
    line: Arc<WaitingList>,
    workers: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts `threads` workers, at least one. Fails if no thread can be created.
    pub fn start(threads: usize) -> io::Result<Pool> {
        let mut pool = Pool {
            line: Arc::default(),
            workers: Vec::new(),
        };
        for number in 0..threads.max(1) {
            let line = Arc::clone(&pool.line);
            let worker = thread::Builder::new()
                .name(format!("store-{number}"))
                .spawn(move || line.work())?;
            pool.workers.push(worker);
        }
        Ok(pool)
    }

    /// Opens a queue pair on these workers. Fails if the process is out of descriptors.
    pub fn queue_pair(&self, bounds: QueueBounds) -> io::Result<QueuePair> {
        Ok(QueuePair {
            line: Arc::clone(&self.line),
            done: Arc::new(CompletionQueue {
                completions: Mutex::default(),
                event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
                underway: AtomicUsize::new(0),
                awaited: AtomicBool::new(false),
            }),
            direct: OnceCell::new(),
            drained: Vec::new(),
            bounds,
            load: QueueLoad::default(),
        })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = self.line.lock();
        state.closed = true;
        state.line.clear();
        state.visits.clear();
        drop(state);
        self.line.changed.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has printed it already.
            let _ = worker.join();
        }
    }
}

/// One reactor's submission and completion queue. Its descriptor ([`AsFd`]) is readable while
/// completions wait. Dropping it drops the operations that no worker has begun, and waits for the
/// others.
#[derive(Debug)]
pub struct QueuePair {
    line: Arc<WaitingList>,
    done: Arc<CompletionQueue>,
    /// Started by the first direct read or write; `None` where io_uring is not available.
    direct: OnceCell<Option<DirectIo>>,
    drained: Vec<Completion>,
    bounds: QueueBounds,
    load: QueueLoad,
}

impl QueuePair {
    /// Queues `operation` on `store` in a lane; its completion will carry `token`.
    ///
    /// # Errors
    /// The operation is returned when the queue pair is full (retry after draining completions) or its pool is gone.
    pub fn submit(
        &mut self,
        token: u64,
        store: &Arc<dyn Store>,
        operation: Operation,
        lane: &mut Lane,
    ) -> Result<(), Operation> {
        let load = QueueLoad {
            operations: self.load.operations + 1,
            bytes: self.load.bytes + operation.bytes(),
        };
        let full = load.operations > self.bounds.operations || load.bytes > self.bounds.bytes;
        if full && self.load.operations > 0 {
            return Err(operation);
        }
        let queued = clock::now();
        let visit = store.book(queued);
        let task = Task {
            due: visit.map_or(Instant::ZERO, |visit| visit.finished),
            place: 0,
            number: 0,
            began: visit.map(|visit| visit.began),
            queued,
            token,
            store: Arc::clone(store),
            operation,
            writing: None,
            done: Underway::new(&self.done),
        };
        let line = Arc::clone(&self.line);
        if let Some(direct) = self.direct(&task) {
            // Tries again when the reactor takes completions.
            if !direct.add(task, lane, |task| line.push_again(task)) {
                self.done.signal();
            }
        } else {
            self.line.push(task, lane).map_err(|task| task.operation)?;
        }
        self.load = load;
        Ok(())
    }

    /// Where `task` goes if it is direct I/O that io_uring can perform.
    fn direct(&mut self, task: &Task) -> Option<&mut DirectIo> {
        task.direct()?;
        let start = || DirectIo::start(self.done.event.as_fd()).ok();
        self.direct.get_or_init(start);
        self.direct.get_mut()?.as_mut()
    }

    /// Takes completed direct I/O. Workers repeat what was not finished.
    fn reap_direct(&mut self) {
        let Some(Some(direct)) = self.direct.get_mut() else {
            return;
        };
        let (drained, line, now) = (&mut self.drained, &self.line, clock::now());
        let done = |mut task: Task, outcome: Outcome<'_>| {
            let result = match (outcome, &mut task.operation) {
                (Outcome::Done(data), Operation::Read { buffer, .. }) => {
                    buffer.copy_from_slice(data);
                    Ok(())
                }
                (Outcome::Done(_), _) => Ok(()),
                (Outcome::Failed(source), _) => Err(task.transfer().error(source)),
                (Outcome::Unfinished, _) => {
                    // An update that waits goes first; it may see what a write has written so far.
                    task.writing = None;
                    return line.push_again(task);
                }
            };
            drained.push(task.completion(result, now).0);
        };
        if !direct.reap(done, |task| line.push_again(task)) {
            self.done.signal();
        }
    }

    /// Takes all completions, oldest first, direct I/O last, and makes the descriptor unreadable. Dropping the iterator
    /// drops the rest.
    pub fn completions(&mut self) -> impl Iterator<Item = Completion> + '_ {
        self.done.take(&mut self.drained);
        self.reap_direct();
        for completion in &self.drained {
            self.load.operations -= 1;
            self.load.bytes -= completion.operation.bytes();
        }
        self.drained.drain(..)
    }

    /// Behaves as where io_uring is not available.
    #[cfg(test)]
    pub(super) fn without_ring(&mut self) {
        self.direct = OnceCell::from(None);
    }

    /// Its content now.
    #[cfg(test)]
    pub(super) fn load(&self) -> QueueLoad {
        self.load
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        drop(self.direct.take());
        self.line.withdraw(&self.done);
        self.done.wait_until_idle();
    }
}

impl AsFd for QueuePair {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.done.event.as_fd()
    }
}

/// Completions of one reactor.
#[derive(Debug)]
struct CompletionQueue {
    completions: Mutex<Vec<Completion>>,
    event: OwnedFd,
    /// Operations submitted and not completed.
    underway: AtomicUsize,
    /// The reactor waits until there are none.
    awaited: AtomicBool,
}

impl CompletionQueue {
    fn signal(&self) {
        // Adding 1 to an eventfd fails only at 2^64 - 1, far beyond any queue's bound.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    fn clear(&self) {
        // EAGAIN means that it was clear already.
        let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
    }

    /// Nothing is submitted any more.
    fn wait_until_idle(&self) {
        // Set before reading the count: a thread that completes an operation decrements the count first and then checks
        // this flag, so one of the two sees the other.
        self.awaited.store(true, SeqCst);
        while self.underway.load(SeqCst) > 0 {
            // After an interrupted wait, check again.
            let _ = poll(&mut [PollFd::new(&self.event, PollFlags::IN)], None);
            self.clear();
        }
    }

    fn put(&self, completion: Completion) {
        let mut completions = lock(&self.completions);
        completions.push(completion);
        let was_empty = completions.len() == 1;
        drop(completions);
        if was_empty {
            self.signal();
        }
    }

    /// Swaps the queued completions with the empty `into`.
    fn take(&self, into: &mut Vec<Completion>) {
        // Clear the event first: a completion queued from here on sets it again.
        self.clear();
        core::mem::swap(&mut *lock(&self.completions), into);
    }
}

/// Counts one operation as outstanding until dropped: after its completion was queued, or when the operation itself was
/// dropped, also by a worker that panics.
struct Underway(Arc<CompletionQueue>);

impl Underway {
    fn new(queue: &Arc<CompletionQueue>) -> Underway {
        queue.underway.fetch_add(1, SeqCst);
        Underway(Arc::clone(queue))
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.0.underway.fetch_sub(1, SeqCst);
        if self.0.awaited.load(SeqCst) {
            self.0.signal();
        }
    }
}

/// An operation waiting for a worker or for io_uring, with the data of its completion.
pub(super) struct Task {
    /// The earliest time to run it: zero without a service time.
    due: Instant,
    /// Its start tag among all lanes.
    pub(super) place: u64,
    /// Submission order, to break ties.
    number: u64,
    /// When service began, if it has: when a server took it, if its store schedules visits.
    pub(super) began: Option<Instant>,
    queued: Instant,
    token: u64,
    store: Arc<dyn Store>,
    pub(super) operation: Operation,
    /// While it is a direct write: excludes updates.
    writing: Option<Writing>,
    /// The last field, so that it is dropped after the operation and the store.
    done: Underway,
}

impl Task {
    fn run(mut self) {
        self.began.get_or_insert_with(clock::now);
        let result = self.operation.run(&*self.store);
        let (completion, done) = self.completion(result, clock::now());
        done.0.put(completion);
    }

    /// Takes its place among all lanes, at the virtual time `reached`; `next` is its lane's next start tag.
    pub(super) fn enqueue(&mut self, next: &mut u64, reached: u64, number: u64) {
        self.number = number;
        self.place = (*next).max(reached);
        *next = self.place + self.operation.bytes().max(LEAST_BYTES) as u64;
    }

    /// Its transfer if it is direct I/O. Operations with a set service time are left to workers.
    pub(super) fn direct(&self) -> Option<Transfer<'_>> {
        let (offset, data) = self.operation.data()?;
        let file = self.store.direct_file(offset, data.length())?;
        (self.due == Instant::ZERO).then(|| Transfer {
            file: file.as_raw_fd(),
            offset,
            data,
        })
    }

    /// Begins a direct write, if possible without waiting. Reads always are.
    pub(super) fn begin_direct(&mut self) -> bool {
        if let Operation::Write { .. } = self.operation {
            self.writing = self.store.begin_direct_write();
            return self.writing.is_some();
        }
        true
    }

    /// Its completion, and what counts it as outstanding.
    fn completion(
        self,
        result: Result<(), StoreError>,
        finished: Instant,
    ) -> (Completion, Underway) {
        let completion = Completion {
            token: self.token,
            result,
            operation: self.operation,
            queued: self.queued,
            began: self.began.unwrap_or(self.queued),
            finished,
        };
        (completion, self.done)
    }
}

impl Request for Task {
    fn transfer(&self) -> Transfer<'_> {
        self.direct().expect("as when it was added")
    }
}

/// The greatest task of a heap is the one due first, or first in the queue.
impl Ord for Task {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |task: &Task| (task.due, task.place, task.number);
        key(other).cmp(&key(self))
    }
}

impl PartialOrd for Task {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Task {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Task {}

/// The queue that all workers of a pool serve. Operations of ordinary stores are due at once; those of stores with a
/// service time are due when their visit ends, and one idle worker sleeps until then.
#[derive(Default)]
struct WaitingList {
    state: Mutex<WaitingState>,
    changed: Condvar,
}

#[derive(Default)]
struct WaitingState {
    /// Operations that are due.
    line: BinaryHeap<Task>,
    /// Virtual time: the start tag of the last operation taken.
    reached: u64,
    /// Operations of stores with a service time.
    visits: BinaryHeap<Task>,
    next_number: u64,
    /// A worker sleeps until the first visit ends; the others sleep until they are woken.
    watched: bool,
    /// Sleeping workers.
    idle: usize,
    /// A worker is being woken. It wakes the next one if there is more to do, so that no more wake up than find work:
    /// each costs a system call, and on a busy computer preempts another thread.
    waking: bool,
    closed: bool,
}

impl WaitingState {
    /// Whether the caller must wake another worker for queued operations.
    fn wakes_another(&mut self) -> bool {
        let visits = !self.visits.is_empty() && !self.watched;
        let wakes = self.idle > 0 && !self.waking && (visits || !self.line.is_empty());
        self.waking |= wakes;
        wakes
    }

    /// The next operation to run; visits first, because their ends are promised.
    fn take(&mut self, now: Instant) -> Option<Task> {
        if self.visits.peek().is_some_and(|visit| visit.due <= now) {
            return self.visits.pop();
        }
        let task = self.line.pop()?;
        self.reached = task.place;
        Some(task)
    }
}

impl core::fmt::Debug for WaitingList {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("WaitingList")
            .field("waiting", &self.lock().line.len())
            .finish_non_exhaustive()
    }
}

impl WaitingList {
    fn lock(&self) -> MutexGuard<'_, WaitingState> {
        lock(&self.state)
    }

    fn push(&self, mut task: Task, lane: &mut Lane) -> Result<(), Box<Task>> {
        let mut state = self.lock();
        if state.closed {
            return Err(Box::new(task));
        }
        let (reached, number) = (state.reached, state.next_number);
        state.next_number += 1;
        if task.due > Instant::ZERO {
            task.number = number;
            let new_head = state.visits.peek().is_none_or(|head| task > *head);
            state.visits.push(task);
            drop(state);
            if new_head {
                // The worker that watches the head sleeps until the old one's end: wake it, whichever it is.
                self.changed.notify_all();
            }
            return Ok(());
        }
        task.enqueue(&mut lane.next, reached, number);
        state.line.push(task);
        self.wake_another(state);
        Ok(())
    }

    /// Queues an operation that io_uring has left to workers. Without its pool there is nobody to run it, as for all other
    /// operations.
    fn push_again(&self, task: Task) {
        drop(self.push(task, &mut Lane::default()));
    }

    /// Wakes a worker, if there is work for it.
    fn wake_another(&self, mut state: MutexGuard<'_, WaitingState>) {
        let wakes = state.wakes_another();
        // Without the lock, which the other one takes first.
        drop(state);
        if wakes {
            self.changed.notify_one();
        }
    }

    /// Drops queued operations that complete into `queue`, unless a worker has begun them.
    fn withdraw(&self, queue: &Arc<CompletionQueue>) {
        let mut state = self.lock();
        let WaitingState { line, visits, .. } = &mut *state;
        let mut withdrawn = Vec::new();
        for waiting in [line, visits] {
            let all = std::mem::take(waiting).into_iter();
            let (own, rest): (Vec<Task>, Vec<Task>) =
                all.partition(|task| Arc::ptr_eq(&task.done.0, queue));
            *waiting = rest.into();
            withdrawn.extend(own);
        }
        // Dropped without the lock: this may notify stores and their waiters.
        drop(state);
        drop(withdrawn);
    }

    fn work(&self) {
        // The kernel may delay a sleeping thread by its timer slack, 50 us by default; a set service time should be
        // more precise. If it cannot be set, the rate is still exact.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1_000));
        let mut state = self.lock();
        while !state.closed {
            let now = clock::now();
            if let Some(task) = state.take(now) {
                self.wake_another(state);
                task.run();
                state = self.lock();
                continue;
            }
            let watches = !state.watched;
            let due = state.visits.peek().map(|head| head.due);
            state.idle += 1;
            state = match due.filter(|_| watches) {
                Some(due) => {
                    state.watched = true;
                    let waited = self.changed.wait_timeout(state, due - now);
                    let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
                    state.watched = false;
                    state
                }
                None => {
                    let waited = self.changed.wait(state);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
            state.idle -= 1;
            state.waking = false;
        }
    }
}

/// Code under these locks cannot leave the data inconsistent, so a lock poisoned by a panic elsewhere in its thread is
/// taken like any other.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
