//! Drives a load over a session, or several.

use std::time::Duration;

use wansan_iscsi::initiator::{Command, Tally, Transfer};
use wansan_iscsi::scsi::capacity::Capacity;
use wansan_iscsi::scsi::{Cdb, Malformed};
use wansan_iscsi::wire::{Lun, TaskAttribute};
use wansan_schema::BenchReport;
use wansan_trace::clock;
use wansan_workload::{LoadConfig, connections_between};

use super::unit;
use crate::initiator::InitiatorError;
use crate::machine;
use crate::sessions::Sessions;

/// Why a load failed.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The session failed.
    #[error(transparent)]
    Session(#[from] InitiatorError),
    /// The run ended while the last I/Os had no connection to complete on.
    #[error(
        "the run has ended, but {ios} I/Os cannot complete: no connection to the target for {} s; check that the target is running and reachable",
        cut_off.as_secs()
    )]
    CutOff {
        /// Outstanding I/Os.
        ios: usize,
        /// Time without any connection.
        cut_off: Duration,
    },
    /// The LUN did not report its capacity.
    #[error("LUN {lun} cannot be used: {problem}")]
    Unusable {
        /// Its number.
        lun: u16,
        /// Its error.
        problem: String,
    },
    /// The target has no such LUN.
    #[error("no LUN {lun}: {}", unit::list(there))]
    NoSuchLun {
        /// Its number.
        lun: u16,
        /// The LUNs that REPORT LUNS lists; empty when it lists none.
        there: Vec<Lun>,
    },
    /// The LUN reported an invalid capacity.
    #[error("LUN {lun} cannot be used: {source}")]
    Malformed {
        /// Its number.
        lun: u16,
        /// The error.
        source: Malformed,
    },
    /// The block size does not fit the LUN.
    #[error(
        "I/Os of {block_bytes} bytes do not fit LUN {lun}, which has {capacity_bytes} bytes in {lun_block_bytes}-byte blocks: use a multiple of the block length, at most the capacity"
    )]
    Block {
        /// Bytes per I/O.
        block_bytes: u32,
        /// The LUN's number.
        lun: u16,
        /// The LUN's size.
        capacity_bytes: u64,
        /// The LUN's block.
        lun_block_bytes: u32,
    },
    /// The session was made for fewer tasks than the load has I/Os in flight.
    #[error("the session has no room for {parallel} I/Os in flight")]
    FewTasks {
        /// I/Os in flight.
        parallel: usize,
    },
    /// The machine has too little memory for these I/Os.
    #[error(
        "{parallel} I/Os of {block_bytes} bytes in flight need more than this machine's \
         {memory_bytes} bytes of memory: use fewer or smaller I/Os"
    )]
    Memory {
        /// I/Os in flight.
        parallel: usize,
        /// Bytes per I/O.
        block_bytes: u32,
        /// The machine's memory.
        memory_bytes: u64,
    },
}

/// Progress of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// From 0 to 1.
    pub fraction: f64,
    /// I/Os per second since the load began.
    pub iops: f64,
}

pub(crate) fn command(lun: Lun, cdb: Cdb, transfer: Transfer, user: u64) -> Command {
    Command {
        lun,
        cdb,
        attribute: TaskAttribute::Simple,
        transfer,
        user,
    }
}

/// How often `progress` is called.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// The counters of connections, with their portals.
type Tallies = Vec<(String, Tally)>;

/// A load on one LUN of a session, ready to start.
pub struct Load<'a> {
    sessions: &'a mut Sessions,
    lun: Lun,
    capacity: Capacity,
    config: &'a LoadConfig,
}

impl<'a> Load<'a> {
    /// Reads the LUN's capacity and checks that the load fits it and this machine's memory.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn ready(
        sessions: &'a mut Sessions,
        lun: u16,
        config: &'a LoadConfig,
    ) -> Result<Self, LoadError> {
        let capacity = unit::capacity(sessions, lun)?;
        let block_bytes = config.block_bytes;
        let address = unit::address(lun)?;
        if wansan_workload::pieces(block_bytes, &capacity).is_none() {
            return Err(LoadError::Block {
                block_bytes,
                lun,
                capacity_bytes: capacity.bytes(),
                lun_block_bytes: capacity.block_bytes,
            });
        }
        let (parallel, memory_bytes) = (config.parallel, machine::memory_bytes());
        if u64::from(block_bytes).saturating_mul(parallel as u64) > memory_bytes {
            return Err(LoadError::Memory {
                parallel,
                block_bytes,
                memory_bytes,
            });
        }
        Ok(Load {
            sessions,
            lun: address,
            capacity,
            config,
        })
    }

    /// Runs the load. `progress` is called a few times per second.
    ///
    /// # Errors
    /// [`LoadError`]. A failed I/O is counted in the report and does not fail the load.
    pub fn run(self, mut progress: impl FnMut(Progress)) -> Result<BenchReport, LoadError> {
        let mut now = clock::now();
        let mut next_progress = now;
        let mut load = wansan_workload::Load::new(self.config, self.lun, &self.capacity, now);
        let sessions = self.sessions;
        let (mut earlier, mut connections): (Option<Tallies>, _) = (None, None);
        while !load.is_over() {
            if load.is_measuring(now) {
                earlier.get_or_insert_with(|| sessions.tallies(now));
            }
            while let Some(command) = load.next_command(now) {
                sessions
                    .submit(command, now)
                    .map_err(|_| LoadError::FewTasks {
                        parallel: self.config.parallel,
                    })?;
            }
            sessions.turn(load.wakes_at(now).min(now + PROGRESS_INTERVAL))?;
            now = clock::now();
            while let Some((_, done)) = sessions.poll_completion(now) {
                load.completed(done, now);
            }
            load.advance(now);
            if load.is_loading() {
                if now >= next_progress {
                    next_progress = now + PROGRESS_INTERVAL;
                    let (fraction, iops) = load.progress(now);
                    progress(Progress { fraction, iops });
                }
                continue;
            }
            connections.get_or_insert_with(|| {
                let later = sessions.tallies(now);
                earlier
                    .as_deref()
                    .map(|earlier| connections_between(earlier, &later))
            });
            let cut_off = sessions.cut_off(now);
            if load.gives_up(now, cut_off, sessions.attempt()) {
                let ios = load.in_flight();
                return Err(LoadError::CutOff { ios, cut_off });
            }
        }
        let recoveries = sessions.recoveries();
        Ok(BenchReport {
            recoveries: recoveries.sessions + recoveries.connections,
            lost_s: recoveries.lost.as_secs_f64(),
            connections: connections.flatten().unwrap_or_default(),
            ..load.report()
        })
    }
}
