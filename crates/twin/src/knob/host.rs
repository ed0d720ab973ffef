//! A knob of hosts, programs and loads, and what of a setup its table asks about.

use wansan_workload::sequence::Operation;

use super::Setting;
use super::{load, relay, session, tcp, vpn};
use crate::setup::{Initiator, Setup};

/// A knob.
pub(super) struct Knob {
    /// Its name in plans.
    pub(super) name: &'static str,
    /// Its value; `None` where the setup has no such knob.
    pub(super) get: fn(&Setup) -> Option<String>,
    /// Sets it; an error says what it takes.
    pub(super) set: fn(&mut Setup, &str) -> Result<(), String>,
    /// Changes that are worth a try, each of one knob or of those that belong together.
    pub(super) tries: fn(&Setup) -> Vec<Vec<Setting>>,
}

/// All of them.
pub(super) fn knobs() -> impl Iterator<Item = &'static Knob> {
    of_hosts()
        .chain(load::KNOBS)
        .chain(relay::KNOBS)
        .chain(vpn::KNOBS)
}

/// Those of target, session and TCP: the load is the application's, the store what it is, and relays and VPNs are other programs.
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
