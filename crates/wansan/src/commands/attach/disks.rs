//! The disks of a process: those served, those waiting for their targets, and those being detached.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use wansan_attach::settings::DiskSettings;
use wansan_attach::{Attached, Detached};
use wansan_trace::Recorder;

use super::super::remark;
use super::waiting::Waiting;

/// Poll interval while waiting for disks to be detached.
const LOOK: Duration = Duration::from_millis(20);

/// A served disk, with its settings.
pub(super) struct Disk {
    pub(super) settings: DiskSettings,
    pub(super) attached: Attached,
}

/// All disks, shared by several threads.
#[derive(Clone, Default)]
pub(super) struct Disks(Arc<Inner>);

#[derive(Default)]
struct Inner {
    served: Mutex<Vec<Disk>>,
    waiting: Mutex<Vec<Waiting>>,
    /// The number of the next waiting disk.
    next: AtomicU64,
    /// Number of disks being detached, or being attached after waiting.
    leaving: AtomicUsize,
    /// Acknowledged data were lost.
    is_unsafe: AtomicBool,
    /// Records of detached disks.
    records: Mutex<Vec<Recorder>>,
    /// Detach quickly.
    hurries: AtomicBool,
}

impl Disks {
    pub(super) fn served(&self) -> MutexGuard<'_, Vec<Disk>> {
        self.0.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a disk that waits for its target; returns its number.
    pub(super) fn wait_for(&self, settings: DiskSettings, why: String) -> u64 {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        self.waiting().push(Waiting {
            number,
            settings,
            why,
        });
        number
    }

    /// Whether it is still waiting: if so, starts an attempt to attach it, which [`Disks::serve`] or
    /// [`Disks::still_waits`] ends, and which the process waits for.
    pub(super) fn tries(&self, number: u64) -> bool {
        let waiting = self.waiting();
        let waits = waiting.iter().any(|disk| disk.number == number);
        self.0
            .leaving
            .fetch_add(usize::from(waits), Ordering::SeqCst);
        waits
    }

    /// Records a failed attempt; returns whether its reason differs from the previous one.
    pub(super) fn still_waits(&self, number: u64, why: &str) -> bool {
        let mut waiting = self.waiting();
        let disk = waiting.iter_mut().find(|disk| disk.number == number);
        let is_news = disk.is_some_and(|disk| {
            let is_news = disk.why != why;
            why.clone_into(&mut disk.why);
            is_news
        });
        self.0.leaving.fetch_sub(1, Ordering::SeqCst);
        is_news
    }

    /// Records a successful attempt: serves the disk, unless it no longer waits. Then detaches it, as programs may have
    /// found it already; returns whether it is served.
    pub(super) fn serve(&self, number: u64, disk: Disk) -> bool {
        let mut waiting = self.waiting();
        let Some(place) = waiting.iter().position(|disk| disk.number == number) else {
            drop(waiting);
            // It is already counted as leaving.
            self.detach(disk, false);
            return false;
        };
        // It is always in at least one of them.
        self.served().push(disk);
        waiting.remove(place);
        self.0.leaving.fetch_sub(1, Ordering::SeqCst);
        true
    }

    fn records(&self) -> MutexGuard<'_, Vec<Recorder>> {
        self.0
            .records
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the records of detached disks.
    pub(super) fn take_records(&self) -> Vec<Recorder> {
        std::mem::take(&mut *self.records())
    }

    /// Takes the disks that satisfy `meant` out of service.
    pub(super) fn take(&self, meant: impl Fn(&Disk) -> bool) -> Vec<Disk> {
        let mut served = self.served();
        let (taken, left) = std::mem::take(&mut *served).into_iter().partition(meant);
        *served = left;
        // Count them before anyone can find that none is left.
        let taken: Vec<Disk> = taken;
        self.0.leaving.fetch_add(taken.len(), Ordering::SeqCst);
        taken
    }

    /// Whether no disk is served, waiting or being detached.
    pub(super) fn are_gone(&self) -> bool {
        let waits = !self.waiting().is_empty();
        !waits && self.served().is_empty() && self.0.leaving.load(Ordering::SeqCst) == 0
    }

    /// Detaches a disk taken out of service; drains its journal only if `drains`. Returns the error, if any.
    pub(super) fn detach(&self, disk: Disk, drains: bool) -> Option<String> {
        let url = disk.settings.initiator.url.to_string();
        let detached = disk
            .attached
            .detach(drains, || self.0.hurries.load(Ordering::Relaxed));
        let wrong = match detached {
            Ok(Detached {
                left_bytes,
                is_safe,
                records,
            }) => {
                self.records().extend(records);
                if is_safe && left_bytes > 0 {
                    remark(&format!(
                        "wansan attach: {left_bytes} bytes for {url} are in its journal, and are written when it is attached again"
                    ));
                }
                (!is_safe).then(|| format!("not all acknowledged writes have reached {url}"))
            }
            Err(error) => Some(format!("{url}: {error}")),
        };
        if let Some(wrong) = &wrong {
            self.0.is_unsafe.store(true, Ordering::Relaxed);
            remark(&format!("wansan attach: {wrong}"));
        }
        self.0.leaving.fetch_sub(1, Ordering::SeqCst);
        wrong
    }

    /// Detaches disks taken out of service, each in its own thread, and waits for them for at most `time`.
    pub(super) fn detach_within(&self, taken: Vec<Disk>, time: Duration) {
        let began = std::time::Instant::now();
        let threads: Vec<_> = taken
            .into_iter()
            .map(|disk| {
                let disks = self.clone();
                thread::spawn(move || disks.detach(disk, true))
            })
            .collect();
        while threads.iter().any(|thread| !thread.is_finished()) && began.elapsed() < time {
            thread::sleep(LOOK);
        }
    }

    /// Detaches all served disks, and waits for all being detached; returns whether nothing was lost.
    pub(super) fn end(&self, mut hurries: impl FnMut() -> bool) -> bool {
        self.waiting().clear();
        let threads = self.take(|_| true).into_iter().map(|disk| {
            let disks = self.clone();
            thread::spawn(move || disks.detach(disk, false))
        });
        let _threads: Vec<_> = threads.collect();
        while self.0.leaving.load(Ordering::SeqCst) > 0 {
            if hurries() {
                self.0.hurries.store(true, Ordering::Relaxed);
            }
            thread::sleep(LOOK);
        }
        !self.0.is_unsafe.load(Ordering::Relaxed)
    }
}
