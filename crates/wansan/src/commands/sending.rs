//! The arguments and keys about when TCP sends, which show what waiting costs.

use clap::Args;
use serde::Deserialize;
use wansan_san::DelayedAck;
use wansan_san::target::Sending;

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Switch {
    On,
    Off,
}

/// Where the status of a read comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Status {
    InData,
    Separate,
}

/// When is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Acknowledging {
    On,
    Quick,
}

impl Acknowledging {
    fn wanted(self) -> DelayedAck {
        match self {
            Acknowledging::On => DelayedAck::On,
            Acknowledging::Quick => DelayedAck::Quick,
        }
    }
}

/// Of both ends.
#[derive(Debug, Args)]
#[command(next_help_heading = "TCP sending (RFC 1122 §4.2.3)")]
pub(super) struct AckArgs {
    /// Delayed ACKs: as the kernel does, which may hold an ACK back for outgoing data, or quick:
    /// acknowledge at once
    #[arg(long, value_name = "HOW", default_value = "on")]
    delayed_ack: Acknowledging,
}

impl AckArgs {
    /// As both ends take it.
    pub(super) fn wanted(&self) -> DelayedAck {
        self.delayed_ack.wanted()
    }
}

/// Of targets. Each of the other choices makes short reads over a long path slower.
#[derive(Debug, Args)]
#[command(next_help_heading = "TCP sending (RFC 1122 §4.2.3)")]
pub(super) struct SendingArgs {
    /// Nagle's algorithm: hold back a short segment while data is unacknowledged
    #[arg(long, value_name = "ON|OFF", default_value = "off")]
    nagle: Switch,
    /// How to return the status of a read: in its last Data-In (at error recovery level 0 only), or
    /// in a separate SCSI Response
    #[arg(long, value_name = "WHERE", default_value = "in-data")]
    status: Status,
    /// Write queued PDUs to the socket together, instead of one by one
    #[arg(long, value_name = "ON|OFF", default_value = "on")]
    join_sends: Switch,
    #[command(flatten)]
    acks: AckArgs,
}

impl SendingArgs {
    /// As a target takes it.
    pub(super) fn wanted(&self) -> Sending {
        Sending {
            nagle: self.nagle == Switch::On,
            separate_status: self.status == Status::Separate,
            join_sends: self.join_sends == Switch::On,
            delayed_ack: self.acks.wanted(),
        }
    }
}

/// The same of one target in a `target.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SendingTable {
    nagle: Option<bool>,
    status: Option<Status>,
    join_sends: Option<bool>,
    delayed_ack: Option<Acknowledging>,
}

impl SendingTable {
    /// As a target takes it.
    pub(super) fn wanted(&self) -> Sending {
        let usual = Sending::default();
        Sending {
            nagle: self.nagle.unwrap_or(usual.nagle),
            separate_status: self.status == Some(Status::Separate),
            join_sends: self.join_sends.unwrap_or(usual.join_sends),
            delayed_ack: self
                .delayed_ack
                .map_or(usual.delayed_ack, Acknowledging::wanted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_can_say_what_arguments_can() {
        let read = |text: &str| wansan_mistake::read::<SendingTable>(text, "the file");
        assert_eq!(read("").unwrap().wanted(), Sending::default());
        let all =
            "nagle = true\nstatus = \"separate\"\njoin_sends = false\ndelayed_ack = \"quick\"";
        let wanted = Sending {
            nagle: true,
            separate_status: true,
            join_sends: false,
            delayed_ack: DelayedAck::Quick,
        };
        assert_eq!(read(all).unwrap().wanted(), wanted);
        let mistake = read("status = \"seperate\"").unwrap_err().to_string();
        assert!(mistake.contains("`separate`"), "{mistake}");
    }
}
