//! The knobs of relays, which a recording has none of.

use wansan_sim::tcp::congestion::Law;

use super::Setting;
use super::host::{Knob, has_reads, has_writes};
use super::tcp::check_law;
use crate::setup::{INITIATOR, Setup, TARGET};

/// What a knob of a relay says where there is none.
const NO_RELAY: &str = "none";

/// All of them, with the congestion control that a relay sends by over the path as their value.
pub(super) static KNOBS: &[Knob] = &[
    Knob {
        name: "relay.initiator_edge",
        get: |setup| Some(relay(setup, INITIATOR)),
        set: |setup, text| set_relay(setup, INITIATOR, text),
        tries: |setup| match has_writes(setup) {
            true => try_relays(setup, INITIATOR, "relay.initiator_edge"),
            false => Vec::new(),
        },
    },
    Knob {
        name: "relay.target_edge",
        get: |setup| Some(relay(setup, TARGET)),
        set: |setup, text| set_relay(setup, TARGET, text),
        tries: |setup| match has_reads(setup) {
            true => try_relays(setup, TARGET, "relay.target_edge"),
            false => Vec::new(),
        },
    },
];

fn relay(setup: &Setup, edge: usize) -> String {
    setup.relays[edge]
        .clone()
        .unwrap_or_else(|| NO_RELAY.to_owned())
}

fn set_relay(setup: &mut Setup, edge: usize, text: &str) -> Result<(), String> {
    setup.relays[edge] = match text {
        NO_RELAY => None,
        name => {
            check_law(name).map_err(|reason| format!("{reason}; or `{NO_RELAY}`"))?;
            Some(name.to_owned())
        }
    };
    Ok(())
}

/// Relays that send by another of the kernel's congestion controls than the host at their edge.
fn try_relays(setup: &Setup, edge: usize, name: &str) -> Vec<Vec<Setting>> {
    let own = &setup.first_connection().ends[edge].congestion_control;
    let others = Law::KERNEL.into_iter().filter(|law| law != own);
    others.map(|law| vec![Setting::new(name, law)]).collect()
}
