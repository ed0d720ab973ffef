//! Buffers that limit windows.

use super::{Change, LOGS_OUT, Party, Place, sentence, simulated};
use crate::software::Software;

/// Smallest maximum buffer size to recommend for long paths, in bytes.
const LONG_BYTES: u64 = 16 << 20;

/// Raises the buffer behind the receive window.
pub(super) fn receive(place: &Place) -> Vec<Change> {
    let receiver = place.receiver();
    let what = format!(
        "Let receive buffers grow to the bandwidth-delay product {}",
        place.on(receiver)
    );
    raise(place, receiver, what, ("rmem", 131_072, place.buffers[0]))
}

/// Raises the buffer for data in flight.
pub(super) fn send(place: &Place) -> Vec<Change> {
    let sender = place.sender();
    let what = format!(
        "Let send buffers grow to twice the bandwidth-delay product {}",
        place.on(sender)
    );
    raise(place, sender, what, ("wmem", 16_384, place.buffers[1]))
}

/// Raises the maximum buffer of a kind, never below its current value.
fn raise(
    place: &Place,
    party: &Party,
    what: String,
    (kind, usual_bytes, now): (&str, u64, Option<u64>),
) -> Vec<Change> {
    if !party.software.is_on_linux() {
        return vec![sentence(&what)];
    }
    let now = now.filter(|_| party.is_here);
    let bytes = now.map_or(LONG_BYTES, |now| LONG_BYTES.max(2 * now));
    let mut commands = vec![
        format!("sysctl -w net.core.{kind}_max={bytes}"),
        format!("sysctl -w net.ipv4.tcp_{kind}='4096 {usual_bytes} {bytes}'"),
    ];
    let mut note = "new connections use it".to_owned();
    if party.software == Software::OpenIscsi {
        // open-iscsi sets both buffers of a connection explicitly, which turns off their autotuning.
        commands.extend(place.of_node(&[("node.conn[0].tcp.window_size", bytes.to_string())]));
    }
    if place.initiator.software == Software::OpenIscsi {
        commands.extend(place.login_again());
        note = format!("{note}: {LOGS_OUT}");
    }
    vec![Change {
        what,
        commands,
        note: Some(note),
        settings: simulated::buffer(kind, bytes),
        ..Change::default()
    }]
}
