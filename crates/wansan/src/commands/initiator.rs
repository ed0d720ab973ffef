//! The arguments that all initiators have: which disk, as whom, and how.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use wansan_iscsi::keys::Wanted;
use wansan_san::InitiatorConfig;
use wansan_san::url::IscsiUrl;
use wansan_trace::clock;

use super::chap::ChapArgs;
use super::connections::ConnectionArgs;
use super::quantity::time_span;
use super::sending::AckArgs;
use super::session::SessionArgs;

/// Who logs in where.
#[derive(Debug, Args)]
pub(super) struct InitiatorArgs {
    /// The disk: iscsi://HOST[:PORT]/TARGET-IQN/LUN
    pub(super) url: IscsiUrl,
    /// This initiator's iSCSI name
    #[arg(
        long,
        value_name = "IQN",
        default_value = "iqn.2026-01.net.wansan:bench"
    )]
    initiator_name: String,
    /// TCP congestion control of the connections, by its kernel name
    #[arg(long, value_name = "NAME")]
    congestion_control: Option<String>,
    /// Time limit for login, and for logout
    #[arg(
        long,
        value_name = "TIME",
        default_value = "30s",
        allow_hyphen_values = true,
        value_parser = time_span
    )]
    patience: Duration,
    #[command(flatten)]
    connections: ConnectionArgs,
    #[command(flatten)]
    chap: ChapArgs,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    acks: AckArgs,
}

impl InitiatorArgs {
    /// What to negotiate for.
    pub(super) fn wanted(&self) -> Wanted {
        let connections = self.connections.routes(&self.url).len();
        let connections = u16::try_from(connections).unwrap_or(u16::MAX);
        let wanted = self.connections.add_to(self.session.wanted());
        Wanted {
            max_connections: wanted.max_connections.max(connections),
            ..wanted
        }
    }

    /// How the session is to be set up, for at most `tasks` tasks at once.
    ///
    /// # Errors
    /// When the secrets cannot be read.
    pub(super) fn config(&self, tasks: usize, tcp_interval: Duration) -> Result<InitiatorConfig> {
        Ok(InitiatorConfig {
            name: self.initiator_name.clone(),
            isid: isid(),
            chap: self.chap.initiator()?,
            wanted: self.wanted(),
            tasks,
            routes: self.connections.routes(&self.url),
            schedule: self.connections.schedule(),
            replacement_timeout: self.connections.replacement_timeout(),
            congestion_control: self.congestion_control.clone(),
            delayed_ack: self.acks.wanted(),
            patience: self.patience,
            tcp_interval,
        })
    }
}

/// An ISID that no other process on this or another machine has by chance: the random format of
/// RFC 7143 §11.12.5, filled from the time and the process id.
fn isid() -> [u8; 6] {
    let mixed = clock::realtime_ns()
        .wrapping_add(u64::from(std::process::id()) << 32)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let [_, _, _, a, b, c, d, e] = mixed.to_be_bytes();
    [0x80, a, b, c, d, e]
}
