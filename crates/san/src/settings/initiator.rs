//! Settings of an initiator: the disk, its identity, and the session.

use std::time::Duration;

use wansan_iscsi::initiator::Schedule;
use wansan_iscsi::keys::Wanted;
use wansan_settings::quantity::{SomeTime, Span};
use wansan_settings::{Text, given, settings, usual};
use wansan_tcp::DelayedAck;
use wansan_trace::clock;

use super::{ChapSettings, ChapSettingsError, NegotiationSettings, RecoverySettings};
use crate::initiator::{InitiatorConfig, Portal, Route};
use crate::url::IscsiUrl;

settings! {
    /// Which disk to log in to, and how.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct InitiatorSettings {
        /// The disk: iscsi://HOST[:PORT]/TARGET-IQN/LUN
        pub url: Text<IscsiUrl>, "URL", as "";
        /// This initiator's iSCSI name
        pub initiator_name: String = "iqn.2026-01.net.wansan:bench".to_owned(), "IQN";
        /// TCP congestion control of the connections, by its kernel name
        pub congestion_control: Option<String>, "NAME";
        /// Time limit for login, and for logout
        pub patience: SomeTime = SomeTime(Duration::from_secs(30)), "TIME";
        /// Authentication
        pub chap: ChapSettings = usual(), of ChapSettings, "CHAP (RFC 7143 §12.1.3)";
        /// Values to offer in negotiation
        pub negotiation: NegotiationSettings = usual(), of NegotiationSettings,
            "Negotiation (RFC 7143 §13)";
        with connections: ConnectionSettings, "Connections (RFC 7143 §4.2.1)";
        with acks: AckSettings, "TCP sending (RFC 1122 §4.2.3)";
    }
}

settings! {
    /// The connections of a session.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ConnectionSettings {
        /// Connections in the session (MC/S) to the portal in the URL [default: 1]
        pub connections: Option<u16>, in 1..=1024, "N", without route;
        /// Source address and portal of one connection of the session; repeat for each connection. With
        /// 0.0.0.0 or [::] the kernel picks the source address. The URL still names the target
        pub route: Vec<Text<Route>> = Vec::new(), "SRC[:PORT]→DST[:PORT]";
        /// How long to try to re-establish a lost session before its I/Os fail; 0s does not try
        pub replacement_timeout: Span = Span(Duration::from_secs(120)), "TIME";
        with schedule: ScheduleSettings;
        with recovery: RecoverySettings;
    }
}

settings! {
    /// How commands are distributed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ScheduleSettings {
        /// Which connection carries the next command: the next in turn, the one with the fewest
        /// commands in flight, the one with the fewest bytes in flight, or the one with the earliest expected
        /// completion, for routes of unequal rate and delay
        pub schedule: Schedule = Schedule::default(), "HOW", without multipath;
        /// Open a separate session for each connection, and send each command over the one with the earliest expected
        /// completion (multipath). Without connections or routes, open one to each portal that the target lists
        pub multipath: bool = false;
    }
}

settings! {
    /// When an end sends ACKs.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct AckSettings {
        /// Delayed ACKs (RFC 1122 §4.2.3.2): as the kernel does, which may hold an ACK back for outgoing
        /// data, or quick: acknowledge at once
        pub delayed_ack: DelayedAck = DelayedAck::default(), "HOW";
    }
}

impl InitiatorSettings {
    /// The default settings for that disk.
    #[must_use]
    pub fn new(url: IscsiUrl) -> InitiatorSettings {
        given::<InitiatorSettings>(|given| given.url = Some(Text(url)))
    }

    /// The route of each connection; empty where the target is to list them.
    fn routes(&self) -> Vec<Route> {
        let are_listed =
            self.connections.schedule.multipath && self.connections.connections.is_none();
        match &self.connections.route[..] {
            [] if are_listed => Vec::new(),
            [] => {
                let count = self.connections.connections.unwrap_or(1);
                vec![Route::to(&self.url.0); count.into()]
            }
            routes => routes.iter().map(|route| route.0.clone()).collect(),
        }
    }

    /// Adds as many connections to each of these portals as to the one in the URL; one, where routes were given.
    pub fn add_portals<'a>(&mut self, portals: impl IntoIterator<Item = &'a Portal>) {
        let mut portals = portals.into_iter().peekable();
        if portals.peek().is_none() {
            return;
        }
        let mut routes = self.routes();
        if routes.is_empty() {
            routes.push(Route::to(&self.url.0));
        }
        let each = self.connections.connections.unwrap_or(1);
        for portal in portals {
            routes.extend(vec![Route::from(portal.clone()); each.into()]);
        }
        self.connections.connections = None;
        self.connections.route = routes.into_iter().map(Text).collect();
    }

    /// The values to negotiate.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        let connections = u16::try_from(self.routes().len()).unwrap_or(u16::MAX);
        let recovery = self.connections.recovery;
        let wanted = self.negotiation.wanted(recovery);
        Wanted {
            // Otherwise a target that recovers lost PDUs may request data only piece by piece (§13.19).
            data_sequence_in_order: recovery.error_recovery_level == 0,
            max_connections: wanted.max_connections.max(connections),
            ..wanted
        }
    }

    /// The configuration of the session, for at most `tasks` tasks at once. Reads secrets from their files.
    ///
    /// # Errors
    /// When a secret cannot be read or used.
    pub fn config(
        &self,
        tasks: usize,
        tcp_interval: Duration,
    ) -> Result<InitiatorConfig, ChapSettingsError> {
        Ok(InitiatorConfig {
            name: self.initiator_name.clone(),
            isid: isid(),
            chap: self.chap.initiator()?,
            wanted: self.wanted(),
            tasks,
            routes: self.routes(),
            multipath: self.connections.schedule.multipath,
            reservation: None,
            schedule: self.connections.schedule.schedule,
            replacement_timeout: self.connections.replacement_timeout.0,
            congestion_control: self.congestion_control.clone(),
            delayed_ack: self.acks.delayed_ack,
            patience: self.patience.0,
            tcp_interval,
        })
    }
}

/// An ISID that no other process on this or another machine is likely to have: the random format of RFC 7143 §11.12.5,
/// filled from the time and the process ID.
fn isid() -> [u8; 6] {
    let mixed = clock::realtime_ns()
        .wrapping_add(u64::from(std::process::id()) << 32)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let [_, _, _, a, b, c, d, e] = mixed.to_be_bytes();
    [0x80, a, b, c, d, e]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_portal_has_as_many_connections_as_the_first() {
        let url = "iscsi://192.0.2.1/iqn.2026-01.net.example:x/0".parse();
        let mut settings = InitiatorSettings::new(url.unwrap());
        settings.connections.connections = Some(2);
        settings.add_portals(&["192.0.2.9:3261".parse().unwrap()]);
        let routes = settings.routes();
        let portals: Vec<String> = routes.iter().map(Route::portal).collect();
        let expected = ["192.0.2.1:3260", "192.0.2.9:3261"];
        assert_eq!(portals, expected.map(|portal| [portal; 2]).concat());
        assert_eq!(settings.wanted().max_connections, 4);
    }

    #[test]
    fn with_multipath_the_target_lists_portals_that_nobody_named() {
        let url = "iscsi://192.0.2.1/iqn.2026-01.net.example:x/0".parse();
        let mut settings = InitiatorSettings::new(url.unwrap());
        settings.connections.schedule.multipath = true;
        settings.add_portals(&[]);
        assert_eq!(settings.routes(), []);
        settings.add_portals(&["192.0.2.9".parse().unwrap()]);
        assert_eq!(settings.routes().len(), 2);
    }

    #[test]
    fn routes_say_how_many_connections_there_are() {
        let read = |text: &str| wansan_mistake::read::<ConnectionSettings>(text, "the file");
        let route = "route = [\"192.0.2.1→192.0.2.9\"]";
        read(route).unwrap();
        for count in [1, 2] {
            let both = read(&format!("connections = {count}\n{route}"));
            let said = both.unwrap_err().text;
            assert!(
                said.contains("`connections` cannot be used with `route`"),
                "{said}"
            );
        }
    }
}
