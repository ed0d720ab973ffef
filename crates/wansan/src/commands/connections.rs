//! The arguments about the connections of a session, which all initiators have.

use std::time::Duration;

use clap::Args;
use wansan_iscsi::initiator::Schedule;
use wansan_iscsi::keys::Wanted;
use wansan_san::Route;
use wansan_san::url::IscsiUrl;
use wansan_trace::units;

/// Over which connections a session goes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connections (RFC 7143 §4.2.1)")]
pub(super) struct ConnectionArgs {
    /// Connections in the session (MC/S), all to the portal in the URL
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u16).range(1..=1024),
        conflicts_with = "route"
    )]
    connections: u16,
    /// Source address and portal of one connection of the session; repeat for each connection. With
    /// 0.0.0.0 or [::] the kernel picks the source address. The URL still names the target
    #[arg(long, value_name = "SRC[:PORT]→DST[:PORT]")]
    route: Vec<Route>,
    /// Which connection carries the next command: the next in turn, the one with the fewest
    /// commands in flight, or the one with the fewest bytes in flight
    #[arg(long, value_name = "HOW", default_value = "least-in-flight")]
    schedule: Sharing,
    /// ErrorRecoveryLevel to offer, that is what is recovered without a new session: 0 nothing, 1
    /// lost PDUs, 2 lost PDUs and connections. The target may agree to less
    #[arg(
        long,
        value_name = "LEVEL",
        default_value_t = 2,
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u8).range(0..=2)
    )]
    error_recovery_level: u8,
    /// How long to try to re-establish a lost session before its I/Os fail; 0s does not try
    #[arg(
        long,
        value_name = "TIME",
        default_value = "120s",
        allow_hyphen_values = true,
        value_parser = units::parse_duration
    )]
    replacement_timeout: Duration,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Sharing {
    RoundRobin,
    LeastInFlight,
    LeastBytes,
}

impl ConnectionArgs {
    /// The route of each connection to `url`.
    pub(super) fn routes(&self, url: &IscsiUrl) -> Vec<Route> {
        if self.route.is_empty() {
            vec![Route::to(url); usize::from(self.connections)]
        } else {
            self.route.clone()
        }
    }

    /// Adds what all connections have to negotiate for.
    pub(super) fn add_to(&self, wanted: Wanted) -> Wanted {
        Wanted {
            error_recovery_level: self.error_recovery_level,
            // Else a target that recovers lost PDUs may ask for data only piece by piece (§13.19).
            data_sequence_in_order: self.error_recovery_level == 0,
            ..wanted
        }
    }

    /// How long a lost session may take to come back.
    pub(super) fn replacement_timeout(&self) -> Duration {
        self.replacement_timeout
    }

    /// How commands are shared out.
    pub(super) fn schedule(&self) -> Schedule {
        match self.schedule {
            Sharing::RoundRobin => Schedule::RoundRobin,
            Sharing::LeastInFlight => Schedule::LeastInFlight,
            Sharing::LeastBytes => Schedule::LeastBytes,
        }
    }
}
