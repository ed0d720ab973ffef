//! The knob type for hosts, programs and loads, and helpers for its tables.

use wansan_workload::sequence::Operation;

use super::Setting;
use super::{load, relay, session, tcp, vpn};
use crate::setup::{Initiator, Setup};

/// A knob.
pub(super) struct Knob {
    /// Name in plans.
    pub(super) name: &'static str,
    /// Its value; `None` if the setup has no such knob.
    pub(super) get: fn(&Setup) -> Option<String>,
    /// Sets the value; an error tells which values are valid.
    pub(super) set: fn(&mut Setup, &str) -> Result<(), String>,
    /// Changes worth trying, each of one knob or of several that belong together.
    pub(super) tries: fn(&Setup) -> Vec<Vec<Setting>>,
}

/// All knobs but those of paths.
pub(super) fn knobs() -> impl Iterator<Item = &'static Knob> {
    of_hosts()
        .chain(load::KNOBS)
        .chain(relay::KNOBS)
        .chain(vpn::KNOBS)
}

/// Knobs of target, session and TCP: the load and the store are given, and relays and VPNs are other programs.
pub(super) fn of_hosts() -> impl Iterator<Item = &'static Knob> {
    session::KNOBS.iter().chain(tcp::KNOBS)
}

pub(super) fn each_session(setup: &mut Setup, change: impl FnMut(&mut Initiator)) {
    setup.initiators.iter_mut().for_each(change);
}

pub(super) fn has_reads(setup: &Setup) -> bool {
    setup
        .initiators
        .iter()
        .any(|it| it.load.operation != Operation::Write)
}

pub(super) fn has_writes(setup: &Setup) -> bool {
    setup
        .initiators
        .iter()
        .any(|it| it.load.operation != Operation::Read)
}
