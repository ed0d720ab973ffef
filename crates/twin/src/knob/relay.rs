//! The knobs of relays: of a recorded one, and of additional ones at the edges of the path.

use wansan_sim::tcp::congestion::Law;

use super::Setting;
use super::host::{Knob, has_reads, has_writes};
use super::tcp::check_law;
use crate::setup::{INITIATOR, Relay, Setup, TARGET};

/// Value of a relay knob without a relay.
const NO_RELAY: &str = "none";

/// Value of the knob of a recorded relay.
const RECORDED: &str = "as recorded";

/// The knobs of relays. For those at the edges, where none was recorded, the value is the relay's congestion control
/// over the path.
pub(super) static KNOBS: &[Knob] = &[
    Knob {
        name: "relay",
        get: |setup| has_relay(setup).then(|| RECORDED.to_owned()),
        set: |setup, text| match text {
            NO_RELAY => {
                setup.connections_mut().for_each(|it| it.relay = None);
                Ok(())
            }
            _ => Err(format!("`{text}`: expected `{NO_RELAY}`")),
        },
        tries: |_| vec![vec![Setting::new("relay", NO_RELAY)]],
    },
    Knob {
        name: "relay.in.congestion_control",
        get: |setup| Some(recorded(setup)?.ends[INITIATOR].congestion_control.clone()),
        set: |setup, text| set_law(setup, INITIATOR, text),
        tries: |setup| match has_reads(setup) {
            true => try_laws(setup, INITIATOR, "relay.in.congestion_control"),
            false => Vec::new(),
        },
    },
    Knob {
        name: "relay.out.congestion_control",
        get: |setup| Some(recorded(setup)?.ends[TARGET].congestion_control.clone()),
        set: |setup, text| set_law(setup, TARGET, text),
        tries: |setup| match has_writes(setup) {
            true => try_laws(setup, TARGET, "relay.out.congestion_control"),
            false => Vec::new(),
        },
    },
    Knob {
        name: "relay.initiator_edge",
        get: |setup| relay(setup, INITIATOR),
        set: |setup, text| set_relay(setup, INITIATOR, text),
        tries: |setup| match has_writes(setup) {
            true => try_relays(setup, INITIATOR, "relay.initiator_edge"),
            false => Vec::new(),
        },
    },
    Knob {
        name: "relay.target_edge",
        get: |setup| relay(setup, TARGET),
        set: |setup, text| set_relay(setup, TARGET, text),
        tries: |setup| match has_reads(setup) {
            true => try_relays(setup, TARGET, "relay.target_edge"),
            false => Vec::new(),
        },
    },
];

fn recorded(setup: &Setup) -> Option<&Relay> {
    setup.first_connection().relay.as_ref()
}

fn has_relay(setup: &Setup) -> bool {
    recorded(setup).is_some()
}

/// Sets the congestion control of the recorded relay on one side.
fn set_law(setup: &mut Setup, side: usize, text: &str) -> Result<(), String> {
    check_law(text)?;
    let relays = setup.connections_mut().filter_map(|it| it.relay.as_mut());
    relays.for_each(|relay| text.clone_into(&mut relay.ends[side].congestion_control));
    Ok(())
}

/// Other kernel congestion controls for the recorded relay on one side.
fn try_laws(setup: &Setup, side: usize, name: &str) -> Vec<Vec<Setting>> {
    let own = recorded(setup).map(|relay| &relay.ends[side].congestion_control);
    let others = Law::KERNEL
        .into_iter()
        .filter(|law| own.is_none_or(|own| own != law));
    others.map(|law| vec![Setting::new(name, law)]).collect()
}

/// The relay at an edge; no knob if a relay was recorded.
fn relay(setup: &Setup, edge: usize) -> Option<String> {
    let named = || setup.relays[edge].clone();
    (!has_relay(setup)).then(|| named().unwrap_or_else(|| NO_RELAY.to_owned()))
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

/// Relays with a kernel congestion control other than that of the host at their edge.
fn try_relays(setup: &Setup, edge: usize, name: &str) -> Vec<Vec<Setting>> {
    let own = &setup.first_connection().ends[edge].congestion_control;
    let others = Law::KERNEL.into_iter().filter(|law| law != own);
    others.map(|law| vec![Setting::new(name, law)]).collect()
}
