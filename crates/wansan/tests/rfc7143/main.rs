//! Conformance to RFC 7143, rule by rule, of targets and of our initiator.
//!
//! Each [`Case`](case::Case) quotes the section that it is about. It is asked of our target and of
//! `tgtd`, so that a wrong test shows; where `tgtd` cannot be asked the test counts as not run, with
//! the reason, and where `tgtd` is known to break the rule, that is expected of it. The ideas follow
//! the test plans of UNH-IOL; the rules are those of the RFC.

mod async_message;
mod case;
mod client;
mod connections;
mod digest;
mod fencing;
mod initiator;
mod login;
mod logout;
mod negotiation;
mod peer;
mod r2t;
mod recovery_connection;
mod recovery_within;
mod reinstatement;
mod reject;
mod sequence;
mod slow_copy;
mod task_management;
mod text;
mod wire;

use std::process::ExitCode;

fn main() -> ExitCode {
    let trials = [
        login::trials(),
        negotiation::trials(),
        text::trials(),
        sequence::trials(),
        r2t::trials(),
        digest::trials(),
        task_management::trials(),
        reject::trials(),
        logout::trials(),
        connections::trials(),
        recovery_within::trials(),
        recovery_connection::trials(),
        reinstatement::trials(),
        fencing::trials(),
        async_message::trials(),
        initiator::trials(),
    ];
    wansan_peers::trial::run(trials.into_iter().flatten().collect())
}
