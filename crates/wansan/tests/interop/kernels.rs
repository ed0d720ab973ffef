//! Real kernels at the other end: Debian's, in a virtual machine, with their own initiator
//! (open-iscsi with `iscsi_tcp`), their own target (LIO) and `dm-multipath`; their own netem and HighSpeed
//! TCP, beside ours; their disks that fail, fill up and lose power, under our target; and systemd, above attached
//! disks.
//!
//! These take minutes where the machine has no KVM, so they run only when asked for:
//! `make test-kernels`.

mod attached;
mod diagnose;
mod files;
mod highspeed;
mod histories;
mod host_program;
mod lio;
pub(crate) mod lio_tracing;
mod long_path;
mod lost_data;
mod multipath;
mod netem;
mod open_iscsi;
mod plan;
mod power_loss;
mod relay;
mod reservations;
mod served;
mod service;
mod tunnel;
mod write_log;

use std::path::Path;

use libtest_mimic::Trial;
use wansan_peers::guest::{self, Image};
use wansan_peers::trial::trial_on_request;

use crate::stage::{Stop, WANSAN};

pub(crate) fn trials() -> Vec<Trial> {
    [
        attached::trials(),
        open_iscsi::trials(),
        diagnose::trials(),
        long_path::trials(),
        lio::trials(),
        lio_tracing::trials(),
        reservations::trials(),
        multipath::trials(),
        netem::trials(),
        highspeed::trials(),
        lost_data::trials(),
        power_loss::trials(),
        histories::trials(),
        service::trials(),
        tunnel::trials(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A test by the name of its function, which is left out unless asked for.
fn kernel_trial(name: &str, body: impl FnOnce() -> Result<(), Stop> + Send + 'static) -> Trial {
    let reason = "boots a kernel, which takes minutes: make test-kernels";
    trial_on_request(format!("kernels::{name}"), reason, body)
}

/// The image of all guests.
fn image() -> Result<Image, Stop> {
    guest::image(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

/// `image` with the binary under test, written into `folder`.
fn with_wansan(image: &Image, folder: &Path) -> Result<Image, Stop> {
    image.with_program(Path::new(WANSAN), "wansan", folder)
}
