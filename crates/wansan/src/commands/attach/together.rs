//! Attaches disks concurrently, so that an unresponsive target does not delay disks of others.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wansan_attach::Attached;
use wansan_attach::settings::DiskSettings;

use super::{Program, Refused};

/// Poll interval while waiting for disks to be attached.
const LOOK: Duration = Duration::from_millis(20);

/// A disk being attached.
struct Attempt {
    place: usize,
    settings: DiskSettings,
    thread: JoinHandle<Result<Attached, Refused>>,
}

/// A disk's index in the file, its settings, and the result of attaching it.
pub(super) type Tried = (usize, DiskSettings, Result<Attached, Refused>);

/// Attaches disks, each with its index in the file. Returns those tried, and whether they are all: once `gives_up`
/// returns true, it waits only for disks that would stay reserved, and when it does so again, for none.
pub(super) fn attach_all(
    program: &Arc<Program>,
    disks: Vec<(usize, DiskSettings)>,
    mut gives_up: impl FnMut() -> bool,
) -> (Vec<Tried>, bool) {
    let begin = |(place, settings): (usize, DiskSettings)| {
        let (program, disk) = (Arc::clone(program), settings.clone());
        Attempt {
            place,
            settings,
            thread: thread::spawn(move || program.log_in(&disk, place)),
        }
    };
    let attempts: Vec<Attempt> = disks.into_iter().map(begin).collect();
    let mut orders = 0;
    loop {
        orders += u8::from(gives_up());
        let is_awaited = |attempt: &Attempt| {
            let reserves = attempt.settings.reservation.reservation_key.is_some();
            !attempt.thread.is_finished() && (orders == 0 || orders == 1 && reserves)
        };
        if !attempts.iter().any(is_awaited) {
            break;
        }
        thread::sleep(LOOK);
    }
    let goes_on = orders == 0;
    let ended = attempts
        .into_iter()
        .filter(|attempt| attempt.thread.is_finished());
    let tried = ended.filter_map(|attempt| {
        let Attempt {
            place,
            settings,
            thread,
        } = attempt;
        // A panic has ended the program.
        let attached = thread.join().ok()?;
        // Sequentially: `any` must not take a device that another disk names.
        let attached = match goes_on {
            true => attached.and_then(|attached| program.set_up_device(attached, place)),
            false => attached,
        };
        Some((place, settings, attached))
    });
    (tried.collect(), goes_on)
}
