//! The stores' operations: queued, running block by block, and completed.

use std::collections::VecDeque;
use std::sync::Arc;

use wansan_iscsi::scsi::{MediumOperation, Sense};
use wansan_san::store::durability::SyncError;
use wansan_san::store::{MediumJob, Store, StoreError};

use crate::block::BLOCK_BYTES;
use crate::medium::{Medium, Sync};
use crate::random::Random;

/// Identifies a task: the session's serial number and the Initiator Task Tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) session: u32,
    pub(crate) task: wansan_trace::TaskTag,
}

/// One operation.
pub(crate) enum Job {
    Read {
        lba: usize,
        buffer: Vec<u8>,
    },
    Write {
        lba: usize,
        data: Vec<u8>,
        fua: bool,
    },
    Flush,
    Medium {
        operation: Box<MediumOperation>,
        fua: bool,
    },
}

/// The result of an operation.
pub(crate) enum Done {
    Read(Result<Vec<u8>, Sense>),
    Status(Result<(), Sense>),
    Medium(Result<Vec<u8>, Sense>),
}

struct Running {
    asker: Asker,
    unit: usize,
    job: Job,
    /// The order in which it moves its blocks, and how many it has moved.
    order: Order,
    moved: usize,
    sync: Syncing,
    /// Turns for which it stalls.
    stalls: u32,
}

/// The state of a sync.
enum Syncing {
    /// Not a sync.
    Never,
    Begun(Sync),
    /// The kernel has its result, but the call has not returned.
    Decided(Sync, Result<(), SyncError>),
    /// It succeeded, unless a sync that began before it returned has lost data.
    Returned(u64),
}

#[derive(Clone, Copy)]
enum Order {
    Forwards,
    Backwards,
    /// Starting at that block.
    Around(usize),
}

impl Order {
    fn place(self, moved: usize, blocks: usize) -> usize {
        match self {
            Order::Forwards => moved,
            Order::Backwards => blocks - 1 - moved,
            Order::Around(first) => (first + moved) % blocks,
        }
    }
}

/// The stores of a target and their operations.
pub(crate) struct StoreQueue {
    mediums: Vec<Arc<Medium>>,
    stores: Arc<[Arc<dyn Store>]>,
    waiting: VecDeque<(Asker, usize, Job)>,
    running: Vec<Running>,
    done: Vec<(Asker, Done)>,
    workers: usize,
    slow: u16,
    /// The saved persistent reservations of each unit.
    pub(crate) kept: Vec<String>,
}

impl StoreQueue {
    pub(crate) fn new(mediums: Vec<Arc<Medium>>, workers: usize, slow: u16) -> StoreQueue {
        let stores = mediums.iter().map(|medium| {
            let store: Arc<dyn Store> = Arc::clone(medium) as Arc<dyn Store>;
            store
        });
        StoreQueue {
            stores: stores.collect(),
            kept: vec![String::new(); mediums.len()],
            mediums,
            waiting: VecDeque::new(),
            running: Vec::new(),
            done: Vec::new(),
            workers,
            slow,
        }
    }

    pub(crate) fn submit(&mut self, asker: Asker, unit: usize, job: Job) {
        self.waiting.push_back((asker, unit, job));
    }

    /// Removes the queued operations of a session that has ended; returns how many.
    pub(crate) fn withdraw(&mut self, session: u32) -> usize {
        let before = self.waiting.len();
        self.waiting.retain(|(asker, ..)| asker.session != session);
        before - self.waiting.len()
    }

    /// The process has ended: drops all operations.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.running.clear();
        self.done.clear();
    }

    /// Takes the result of an operation, if there is one.
    pub(crate) fn answer(&mut self, random: &mut Random) -> Option<(Asker, Done)> {
        if self.done.is_empty() {
            return None;
        }
        let place = random.below(self.done.len());
        Some(self.done.swap_remove(place))
    }

    /// Starts or continues an operation. Returns whether there was one.
    pub(crate) fn work(&mut self, random: &mut Random) -> bool {
        if self.running.len() < self.workers
            && (self.running.is_empty() || random.one_in(2))
            && let Some((asker, unit, job)) = self.waiting.pop_front()
        {
            self.begin(asker, unit, job, random);
            return true;
        }
        if self.running.is_empty() {
            return false;
        }
        let place = random.below(self.running.len());
        let running = &mut self.running[place];
        if running.stalls > 0 {
            running.stalls -= 1;
            return true;
        }
        let medium = &self.mediums[running.unit];
        let done = match &mut running.job {
            Job::Read { lba, buffer } => {
                let blocks = buffer.len() / BLOCK_BYTES;
                let until = further(running.moved, blocks, random);
                for moved in running.moved..until {
                    let place = running.order.place(moved, blocks);
                    let into = &mut buffer[place * BLOCK_BYTES..(place + 1) * BLOCK_BYTES];
                    medium.fetch(*lba + place, into);
                }
                running.moved = until;
                (until == blocks).then(|| Done::Read(Ok(std::mem::take(buffer))))
            }
            Job::Write { lba, data, .. } => {
                let blocks = data.len() / BLOCK_BYTES;
                let full = matches!(&running.sync, Syncing::Begun(sync) if sync.full);
                if running.moved < blocks && !full {
                    let until = further(running.moved, blocks, random);
                    for moved in running.moved..until {
                        let place = running.order.place(moved, blocks);
                        let block = &data[place * BLOCK_BYTES..(place + 1) * BLOCK_BYTES];
                        medium.land(*lba + place, block);
                    }
                    running.moved = until;
                    if until < blocks || !matches!(running.sync, Syncing::Never) {
                        return true;
                    }
                }
                running.synced(medium, random).map(Done::status)
            }
            Job::Flush => running.synced(medium, random).map(Done::status),
            // A thread would wait for the other syncs, but this executes at one instant.
            Job::Medium { operation, fua }
                if syncs(operation, *fua) && self.mediums.iter().any(|medium| medium.syncs()) =>
            {
                return true;
            }
            Job::Medium { operation, fua } => {
                let fua = *fua;
                let operation = std::mem::replace(operation, Box::new(NOTHING));
                Some(Done::Medium(self.carry_out(place, operation, fua)))
            }
        };
        if let Some(done) = done {
            let running = self.running.swap_remove(place);
            self.done.push((running.asker, done));
        }
        true
    }

    fn begin(&mut self, asker: Asker, unit: usize, job: Job, random: &mut Random) {
        let medium = &self.mediums[unit];
        let begun = match &job {
            Job::Read { lba, buffer } => medium
                .begin_read((*lba * BLOCK_BYTES) as u64, buffer.len())
                .map(|()| Syncing::Never),
            Job::Write { fua: true, .. } if !medium.writes_through() => {
                medium.begin_sync(true).map(Syncing::Begun)
            }
            Job::Write { lba, data, .. } => medium
                .begin_write((*lba * BLOCK_BYTES) as u64, data.len())
                .map(|()| Syncing::Never),
            Job::Flush => medium.begin_sync(false).map(Syncing::Begun),
            Job::Medium { .. } => Ok(Syncing::Never),
        };
        let sync = match begun {
            Ok(sync) => sync,
            Err(error) => {
                let sense = error.sense();
                let done = match job {
                    Job::Read { .. } => Done::Read(Err(sense)),
                    _ => Done::Status(Err(sense)),
                };
                self.done.push((asker, done));
                return;
            }
        };
        let blocks = match &job {
            Job::Read { buffer: data, .. } | Job::Write { data, .. } => data.len() / BLOCK_BYTES,
            Job::Flush | Job::Medium { .. } => 1,
        };
        let order = match random.below(3) {
            0 => Order::Forwards,
            1 => Order::Backwards,
            _ => Order::Around(random.below(blocks.max(1))),
        };
        let stalls = match random.per_mille(self.slow) {
            true => random.between(1, 40) as u32,
            false => 0,
        };
        self.running.push(Running {
            asker,
            unit,
            job,
            order,
            moved: 0,
            sync,
            stalls,
        });
    }

    fn carry_out(
        &mut self,
        place: usize,
        operation: Box<MediumOperation>,
        fua: bool,
    ) -> Result<Vec<u8>, Sense> {
        let unit = self.running[place].unit;
        if let MediumOperation::KeepReservations(change) = &*operation {
            // The reservations are in a file beside the store, on the same disk.
            let kept = self.mediums[unit].begin_write(0, 0);
            change.end(kept.is_ok());
            if kept.is_ok() {
                change.text().clone_into(&mut self.kept[unit]);
            }
            let error = |_| StoreError::Reservations(std::io::Error::from_raw_os_error(28));
            return kept
                .map(|()| Vec::new())
                .map_err(|kept| error(kept).sense());
        }
        let mut job = MediumJob::new(operation, &self.stores, unit, fua);
        job.run().map_err(|error| error.sense())?;
        Ok(job.into_output())
    }
}

impl Done {
    fn status(result: Result<(), StoreError>) -> Done {
        Done::Status(result.map_err(|error| error.sense()))
    }
}

impl Running {
    /// Takes the next step of a sync; returns the result after the last one.
    fn synced(&mut self, medium: &Medium, random: &mut Random) -> Option<Result<(), StoreError>> {
        match std::mem::replace(&mut self.sync, Syncing::Never) {
            Syncing::Never => return Some(Ok(())),
            Syncing::Begun(sync) => {
                let result = match &self.job {
                    Job::Write { lba, data, .. } => {
                        medium.write_now(&sync, (*lba * BLOCK_BYTES) as u64, data)
                    }
                    _ => medium.flush_now(&sync),
                };
                // Other syncs may return from the kernel before it.
                if random.one_in(4) {
                    self.stalls = random.between(1, 20) as u32;
                }
                self.sync = Syncing::Decided(sync, result);
            }
            Syncing::Decided(sync, result) => {
                let begun = medium.returned(&sync, &result);
                if let Err(error) = result {
                    return Some(Err(error.into()));
                }
                self.sync = Syncing::Returned(begun);
                return self.synced(medium, random);
            }
            Syncing::Returned(begun) => {
                self.sync = Syncing::Returned(begun);
                return medium.verdict(begun);
            }
        }
        None
    }
}

/// Whether an operation syncs; with `fua` each write does.
fn syncs(operation: &MediumOperation, fua: bool) -> bool {
    match operation {
        MediumOperation::FlushFor(_) | MediumOperation::WriteAndVerify { .. } => true,
        MediumOperation::CompareAndWrite { fua: own, .. }
        | MediumOperation::OrWrite { fua: own, .. } => *own || fua,
        _ => fua,
    }
}

/// How many blocks an operation has moved after this turn.
fn further(moved: usize, blocks: usize, random: &mut Random) -> usize {
    match random.one_in(2) {
        true => blocks,
        false => moved + random.between(1, blocks - moved),
    }
}

/// A placeholder for an operation that was taken out to execute.
const NOTHING: MediumOperation = MediumOperation::PreFetch {
    offset_bytes: 0,
    len_bytes: 0,
};
