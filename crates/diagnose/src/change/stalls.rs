//! Stalls in TCP.

use std::net::SocketAddr;

use wansan_insight::cause::Cause;

use super::{Change, Place, congestion, sentence, simulated};
use crate::software::Software;

/// Changes against the stall of the longest waits.
pub(super) fn changes(cause: Cause, place: &Place) -> Vec<Change> {
    let (sender, at) = (place.sender(), place.on(place.sender()));
    match cause {
        Cause::SlowStartAfterIdle if sender.software.is_on_linux() => vec![Change {
            what: format!("Keep the congestion window across idle periods {at}"),
            commands: vec!["sysctl -w net.ipv4.tcp_slow_start_after_idle=0".to_owned()],
            note: None,
            ..Change::default()
        }],
        Cause::SlowStartAfterIdle => vec![sentence(&format!(
            "Keep the congestion window across idle periods {at}"
        ))],
        Cause::Nagle => vec![no_delay(place)],
        Cause::NagleAgainstDelayedAck => {
            let mut changes = vec![no_delay(place)];
            changes.extend(acknowledge_at_once(place));
            changes
        }
        Cause::ExtraRoundTrips => congestion(place),
        _ => vec![sentence("Find the cause of packet loss on the path")],
    }
}

fn no_delay(place: &Place) -> Change {
    let (sender, at) = (place.sender(), place.on(place.sender()));
    let option = match sender.software {
        Software::Wansan => " (`--nagle off`)",
        _ => "",
    };
    Change {
        what: format!(
            "Set TCP_NODELAY on the connection {at}: {} lets Nagle's algorithm hold short segments{option}",
            sender.software.in_words(),
        ),
        settings: simulated::no_delay(place),
        ..Change::default()
    }
}

/// Ends the wait for a delayed acknowledgement of this host, where the sender cannot be changed: one of a round trip
/// remains.
fn acknowledge_at_once(place: &Place) -> Option<Change> {
    let portal: SocketAddr = place.portal.parse().ok()?;
    let target = portal.ip();
    let is_receiving = place.sender_is_target && place.initiator.is_here && !place.target.is_here;
    is_receiving.then(|| Change {
        what: format!("Acknowledge data from {target} at once {}", place.on(&place.initiator)),
        commands: vec![format!(
            "ip route replace $(ip -o route get {target} | sed 's/ from :://; s/ uid .*//; s/ cache.*//') quickack 1"
        )],
        note: Some(
            "more acknowledgements, also on existing connections; the host route lasts until the next boot and does \
             not follow other routes; `quickack 0` in its place undoes it"
                .to_owned(),
        ),
        settings: simulated::quick_acknowledgements(),
        ..Change::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NAME, place};
    use super::*;

    #[test]
    fn a_host_that_waits_with_acknowledgements_can_send_them_at_once() {
        let commands = |place: &Place| -> Vec<String> {
            let changes = changes(Cause::NagleAgainstDelayedAck, place);
            assert!(changes[0].what.contains("TCP_NODELAY on the connection"));
            changes
                .into_iter()
                .flat_map(|change| change.commands)
                .collect()
        };
        let mut place = place(Software::Tgt, NAME);
        let [found] = &commands(&place)[..] else {
            panic!("there is a command");
        };
        assert!(
            found.starts_with("ip route replace $(ip -o route get fd00::1 |"),
            "{found}"
        );
        // A name, not an address.
        place.portal = "$(reboot):3260".to_owned();
        assert_eq!(commands(&place), [""; 0]);
        place.portal = "10.0.0.2:3260".to_owned();
        place.target.is_here = true;
        assert_eq!(commands(&place), [""; 0]);
        (place.initiator.is_here, place.target.is_here) = (false, false);
        assert_eq!(commands(&place), [""; 0]);
    }
}
