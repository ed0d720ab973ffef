//! The knob of tunnels, which removes them.

use super::Setting;
use super::host::Knob;
use crate::setup::{HEADERS_BYTES, Setup};

/// Name of the knob, and its values with and without tunnels.
const NAME: &str = "vpn";
const RECORDED: &str = "as recorded";
const NONE: &str = "none";
/// The usual limit on IP packets: Ethernet's (RFC 894). A path on which longer ones were seen keeps carrying those.
const MTU_BYTES: u32 = 1_500;

/// The knob of tunnels.
pub(super) static KNOBS: &[Knob] = &[Knob {
    name: NAME,
    get: |setup| {
        let has_tunnels = !setup.tunnels.is_empty();
        has_tunnels.then(|| if is_used(setup) { RECORDED } else { NONE }.to_owned())
    },
    set: |setup, text| match text {
        NONE => {
            take_out(setup);
            Ok(())
        }
        RECORDED if is_used(setup) => Ok(()),
        _ => Err(format!("`{text}`: expected `{NONE}`")),
    },
    tries: |setup| match is_used(setup) {
        true => vec![vec![Setting::new(NAME, NONE)]],
        false => Vec::new(),
    },
}];

fn is_used(setup: &Setup) -> bool {
    let mut connections = setup.initiators.iter().flat_map(|it| &it.connections);
    connections.any(|connection| connection.through.is_some())
}

/// Sends all packets unencapsulated, as long as the path carries them.
fn take_out(setup: &mut Setup) {
    let tunnels = setup.tunnels.clone();
    for connection in setup.connections_mut() {
        let Some(through) = connection.through.take() else {
            continue;
        };
        let wrapping = tunnels[through.tunnel].wrapping;
        for end in &mut connection.ends {
            let seen_bytes = wrapping.outer_bytes(end.mss_bytes + HEADERS_BYTES);
            end.mss_bytes = seen_bytes.max(MTU_BYTES) - HEADERS_BYTES;
        }
    }
}
