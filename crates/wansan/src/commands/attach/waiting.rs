//! Disks of the file whose targets are not reachable yet: retries them while the others are served.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use wansan_attach::settings::DiskSettings;

use super::super::{one_line, remark};
use super::Program;
use super::disks::Disk;

/// Delay between attempts to attach a disk: doubles from the first to the longest.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A disk that is not attached yet.
pub(super) struct Waiting {
    /// Unique number.
    pub(super) number: u64,
    pub(super) settings: DiskSettings,
    /// The last attempt's error.
    pub(super) why: String,
}

/// Retries to attach the disk at index `place` of the file until it succeeds or the disk no longer waits.
pub(super) fn attach_later(
    program: &Arc<Program>,
    settings: &DiskSettings,
    place: usize,
    error: &anyhow::Error,
) {
    let why = one_line(error);
    remark(&format!(
        "wansan attach: {why}; retrying while the other disks are served"
    ));
    let number = program.disks.wait_for(settings.clone(), why);
    let (program, settings) = (Arc::clone(program), settings.clone());
    thread::spawn(move || {
        let mut wait = FIRST_WAIT;
        loop {
            thread::sleep(wait);
            wait = LONGEST_WAIT.min(2 * wait);
            if !program.disks.tries(number) {
                return;
            }
            match program.attach(&settings, place) {
                Ok(attached) => {
                    let disk = Disk { settings, attached };
                    let line = program.announcement(&disk);
                    if program.disks.serve(number, disk)
                        && let Err(error) = program.print(&line)
                    {
                        remark(&format!("wansan attach: {}", one_line(&error)));
                    }
                    return;
                }
                Err(refused) => {
                    let why = one_line(&refused.error);
                    if program.disks.still_waits(number, &why) {
                        remark(&format!("wansan attach: still waiting: {why}"));
                    }
                }
            }
        }
    });
}
