//! What to change against a limit, in the software that runs there: the very commands.

use std::fmt::Display;

use serde::Serialize;
use wansan_insight::cause::{Cause, Limit};

use crate::judge::{Bound, Verdict};
use crate::software::Software;

/// One thing to change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What it does, as a sentence without its full stop.
    pub what: String,
    /// Commands, to be run as they stand, in this order.
    pub commands: Vec<String>,
    /// What to know before.
    pub note: Option<String>,
}

/// An end of a session, as far as commands need to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    /// Its software.
    pub software: Software,
    /// Whether it is this host.
    pub is_here: bool,
}

/// What commands are filled in with.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// The initiator's end.
    pub initiator: Party,
    /// The target's.
    pub target: Party,
    /// The target's name, where it is known.
    pub target_name: Option<String>,
    /// The initiator's.
    pub initiator_name: Option<String>,
    /// The target's portal.
    pub portal: String,
    /// The tag of its portal group, if it is LIO's.
    pub lio_tag: u32,
    /// The initiator's name, if LIO has an ACL for it.
    pub lio_acl: Option<String>,
    /// Commands that would be outstanding if nothing bounded them.
    pub wanted: u64,
    /// The commands that the session has room for, where that is known.
    pub can_queue: Option<u64>,
    /// Its disks.
    pub disks: Vec<String>,
    /// Whether most bytes go from the target to the initiator.
    pub is_reading: bool,
    /// Whether its largest requests are read one after the other by one reader.
    pub is_sequential: bool,
    /// Which end's TCP waited: the sender of what waits most.
    pub sender_is_target: bool,
}

/// open-iscsi refuses more (`libiscsi.h`, ISCSI_TOTAL_CMDS_MAX).
const MOST_CMDS_MAX: u64 = 4096;
/// What open-iscsi has without being told.
const USUAL_CMDS_MAX: u64 = 128;
/// What it keeps of them for task management and NOPs (`libiscsi.h`, ISCSI_MGMT_CMDS_MAX).
const KEPT_COMMANDS: u64 = 15;
/// LIO refuses more (`iscsi_target_tpg.h`, TA_DEFAULT_CMDSN_DEPTH_MAX).
const MOST_CMDSN_DEPTH: u64 = 512;
/// Buffers and windows of long paths grow to this, in bytes.
const LONG_BYTES: u64 = 16 << 20;

impl Place {
    /// The end whose TCP waited.
    #[must_use]
    pub fn sender(&self) -> &Party {
        match self.sender_is_target {
            true => &self.target,
            false => &self.initiator,
        }
    }

    fn node(&self) -> String {
        let target = self.target_name.as_deref().unwrap_or("TARGET");
        format!("iscsiadm -m node -T {target} -p {}", self.portal)
    }

    /// Sets a value of open-iscsi's records, which takes effect at the next login.
    fn of_node(&self, name: &str, value: &dyn Display) -> String {
        format!("{} -o update -n {name} -v {value}", self.node())
    }

    fn login_again(&self) -> [String; 2] {
        ["-u", "-l"].map(|how| format!("{} {how}", self.node()))
    }

    /// LIO's portal group in configfs.
    fn group(&self) -> String {
        let target = self.target_name.as_deref().unwrap_or("TARGET");
        let tag = self.lio_tag;
        format!("/sys/kernel/config/target/iscsi/{target}/tpgt_{tag}")
    }

    /// At which end something is to be done.
    fn on(party: &Party, name: &str) -> String {
        match party.is_here {
            true => "on this host".to_owned(),
            false => format!("on the {name}"),
        }
    }
}

const LOGS_OUT: &str =
    "the session is logged out and in again: nothing may use its disks meanwhile";

/// What to change against `verdict`, the most effective first; empty where nothing is known to help.
#[must_use]
pub fn changes(verdict: &Verdict, place: &Place) -> Vec<Change> {
    match verdict {
        Verdict::Bound { bound } => match &bound.bound {
            Bound::QueueDepth { disk } => queue_depth(place, disk),
            Bound::SessionCommands => session_commands(place),
            Bound::CommandWindow => command_window(place),
        },
        Verdict::Wire { of, cause } => wire(*of, *cause, place),
        Verdict::TooFewIos => read_ahead(place),
        Verdict::Target | Verdict::Unknown | Verdict::Idle => Vec::new(),
    }
}

/// Numbers of commands are advised in multiples of this.
fn rounded(wanted: u64) -> u64 {
    wanted.next_multiple_of(8).max(8)
}

fn queue_depth(place: &Place, disk: &str) -> Vec<Change> {
    let depth = rounded(place.wanted);
    let room = place.can_queue.unwrap_or(u64::MAX);
    let now = depth.min(room);
    let mut changes = vec![Change {
        what: format!("Let {now} commands of {disk} be outstanding"),
        commands: vec![
            format!("echo {now} > /sys/block/{disk}/device/queue_depth"),
            place.of_node("node.session.queue_depth", &now),
        ],
        note: Some("the second command keeps it for later logins".to_owned()),
    }];
    if depth > room {
        changes.extend(session_commands(place));
    }
    changes
}

fn session_commands(place: &Place) -> Vec<Change> {
    let wanted = rounded(place.wanted).max(USUAL_CMDS_MAX - KEPT_COMMANDS);
    let commands = (wanted + KEPT_COMMANDS)
        .next_power_of_two()
        .min(MOST_CMDS_MAX);
    let depth = wanted.min(commands - KEPT_COMMANDS);
    let mut all = vec![
        place.of_node("node.session.cmds_max", &commands),
        place.of_node("node.session.queue_depth", &depth),
    ];
    all.extend(place.login_again());
    vec![Change {
        what: format!("Give the session room for {commands} commands"),
        commands: all,
        note: Some(LOGS_OUT.to_owned()),
    }]
}

fn command_window(place: &Place) -> Vec<Change> {
    let window = rounded(place.wanted);
    let at = Place::on(&place.target, "target");
    let (what, commands, note) = match place.target.software {
        Software::Lio => {
            let depth = window.min(MOST_CMDSN_DEPTH);
            let what = format!("Grant a command window of {depth}, {at}");
            let group = place.group();
            let (command, note) = match &place.lio_acl {
                Some(initiator) => (
                    format!("echo {depth} > {group}/acls/{initiator}/cmdsn_depth"),
                    "this ends the initiator's session, which logs in again; `targetcli saveconfig` keeps it",
                ),
                None => (
                    format!("echo {depth} > {group}/attrib/default_cmdsn_depth"),
                    "for initiators without an ACL, from their next login on; `targetcli saveconfig` keeps it",
                ),
            };
            (what, vec![command], Some(note.to_owned()))
        }
        Software::Wansan => (
            format!("Grant a command window of {window}, {at}"),
            vec![format!("wansan target --command-window {window}")],
            Some("with the target's other options; sessions log in again".to_owned()),
        ),
        Software::Tgt => (
            "Use several sessions, or another target".to_owned(),
            Vec::new(),
            Some("tgt grants 128 commands whatever MaxQueueCmd says".to_owned()),
        ),
        _ => (
            format!(
                "Raise the command window (its queue depth for each session) to {window}, {at}"
            ),
            Vec::new(),
            None,
        ),
    };
    let mut changes = vec![Change {
        what,
        commands,
        note,
    }];
    if place.initiator.software == Software::OpenIscsi {
        changes.push(Change {
            what: "Or use several sessions, each with a window of its own, below dm-multipath"
                .to_owned(),
            commands: vec![
                place.of_node("node.session.nr_sessions", &4),
                place.login_again()[1].clone(),
            ],
            note: None,
        });
    }
    changes
}

fn wire(limit: Limit, cause: Cause, place: &Place) -> Vec<Change> {
    match limit {
        Limit::R2tRoundTrips => r2t(place),
        Limit::ReceiveWindow => receive_window(place),
        Limit::SendBuffer => send_buffer(place),
        Limit::CongestionWindow if place.sender().is_here => congestion(place),
        // Which of both it is, only the sender's end tells.
        Limit::CongestionWindow => [congestion(place), send_buffer(place)].concat(),
        Limit::Stalls => stalls(cause, place),
        Limit::RouteLockstep => vec![sentence(
            "Use one session for each route, not one session over unequal routes",
        )],
        Limit::PathRate => vec![sentence(
            "Use a path of a higher rate, or ask for fewer bytes",
        )],
        Limit::Encryption => vec![sentence("Use a cipher that takes less processor time")],
        Limit::Store => vec![sentence("Use a store that serves more I/Os at once")],
        Limit::Processor => vec![sentence(
            "Give the program a faster processor, or use several sessions",
        )],
        Limit::CommandWindow => command_window(place),
        Limit::TooFewIos | Limit::Nothing => Vec::new(),
    }
}

fn sentence(what: &str) -> Change {
    Change {
        what: what.to_owned(),
        commands: Vec::new(),
        note: None,
    }
}

fn r2t(place: &Place) -> Vec<Change> {
    const BURST: u64 = 1 << 20;
    let mut changes = Vec::new();
    let at = Place::on(&place.target, "target");
    match place.target.software {
        Software::Lio => changes.push(Change {
            what: format!("Let writes send their first data without being asked, and ask for more at once, {at}"),
            commands: [
                ("InitialR2T", "No".to_owned()),
                ("ImmediateData", "Yes".to_owned()),
                ("FirstBurstLength", BURST.to_string()),
                ("MaxBurstLength", (16 * BURST).to_string()),
                ("MaxOutstandingR2T", "16".to_owned()),
            ]
            .iter()
            .map(|(name, value)| format!("echo {value} > {}/param/{name}", place.group()))
            .collect(),
            note: Some(
                "sessions agree on it at their next login; `targetcli saveconfig` keeps it"
                    .to_owned(),
            ),
        }),
        Software::Tgt => changes.push(Change {
            what: format!("Let writes send their first data without being asked, {at}"),
            commands: [("InitialR2T", "No".to_owned()), ("ImmediateData", "Yes".to_owned()), ("FirstBurstLength", BURST.to_string())]
                .iter()
                .map(|(name, value)| {
                    format!("tgtadm --lld iscsi --op update --mode target --tid 1 --name {name} --value {value}")
                })
                .collect(),
            note: Some("--tid is the target's number, from `tgtadm --op show --mode target`".to_owned()),
        }),
        Software::Wansan => changes.push(Change {
            what: format!("Let writes send their first data without being asked, {at}"),
            commands: vec![format!("wansan target --initial-r2t no --immediate-data yes --first-burst {BURST}")],
            note: Some("with the target's other options".to_owned()),
        }),
        _ => changes.push(sentence(&format!(
            "Set InitialR2T=No, ImmediateData=Yes and a FirstBurstLength as long as the writes, {at}"
        ))),
    }
    if place.initiator.software == Software::OpenIscsi {
        let mut commands: Vec<String> = [
            ("node.session.iscsi.InitialR2T", "No".to_owned()),
            ("node.session.iscsi.ImmediateData", "Yes".to_owned()),
            ("node.session.iscsi.FirstBurstLength", BURST.to_string()),
        ]
        .iter()
        .map(|(name, value)| place.of_node(name, value))
        .collect();
        commands.extend(place.login_again());
        changes.push(Change {
            what: "Ask for the same at the initiator".to_owned(),
            commands,
            note: Some(LOGS_OUT.to_owned()),
        });
    }
    if place.initiator.software == Software::Windows {
        changes.push(windows(&[
            ("InitialR2T", 0),
            ("ImmediateData", 1),
            ("FirstBurstLength", BURST),
        ]));
    }
    changes
}

/// Values of Microsoft's initiator, which are below its driver's instance in the registry.
fn windows(values: &[(&str, u64)]) -> Change {
    const KEY: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\Class\{4D36E97B-E325-11CE-BFC1-08002BE10318}\INSTANCE\Parameters";
    let commands = values
        .iter()
        .map(|(name, value)| format!(r#"reg add "{KEY}" /v {name} /t REG_DWORD /d {value} /f"#));
    Change {
        what: "Ask for the same at the initiator".to_owned(),
        commands: commands.collect(),
        note: Some("INSTANCE is the number of the key with DriverDesc \"Microsoft iSCSI Initiator\"; restart afterwards".to_owned()),
    }
}

fn receive_window(place: &Place) -> Vec<Change> {
    let (receiver, name) = match place.sender_is_target {
        true => (&place.initiator, "initiator"),
        false => (&place.target, "target"),
    };
    let at = Place::on(receiver, name);
    let mut changes = vec![Change {
        what: format!("Let receive buffers grow to the bandwidth-delay product, {at}"),
        commands: vec![
            format!("sysctl -w net.core.rmem_max={LONG_BYTES}"),
            format!("sysctl -w net.ipv4.tcp_rmem='4096 131072 {LONG_BYTES}'"),
        ],
        note: Some("connections made from then on use it".to_owned()),
    }];
    changes.extend(fixed_buffers(receiver, place));
    changes
}

fn send_buffer(place: &Place) -> Vec<Change> {
    let (sender, name) = match place.sender_is_target {
        true => (&place.target, "target"),
        false => (&place.initiator, "initiator"),
    };
    let at = Place::on(sender, name);
    let mut changes = vec![Change {
        what: format!("Let send buffers grow to twice the bandwidth-delay product, {at}"),
        commands: vec![
            format!("sysctl -w net.core.wmem_max={LONG_BYTES}"),
            format!("sysctl -w net.ipv4.tcp_wmem='4096 16384 {LONG_BYTES}'"),
        ],
        note: Some("connections made from then on use it".to_owned()),
    }];
    changes.extend(fixed_buffers(sender, place));
    changes
}

/// open-iscsi sets both buffers of a connection, which then do not grow.
fn fixed_buffers(party: &Party, place: &Place) -> Option<Change> {
    if party.software != Software::OpenIscsi {
        return None;
    }
    let mut commands = vec![place.of_node("'node.conn[0].tcp.window_size'", &LONG_BYTES)];
    commands.extend(place.login_again());
    Some(Change {
        what: "Raise the size that open-iscsi fixes both buffers of a connection to".to_owned(),
        commands,
        note: Some(LOGS_OUT.to_owned()),
    })
}

fn congestion(place: &Place) -> Vec<Change> {
    let (sender, name) = match place.sender_is_target {
        true => (&place.target, "target"),
        false => (&place.initiator, "initiator"),
    };
    vec![
        Change {
            what: format!("Use a congestion control made for long paths, {}", Place::on(sender, name)),
            commands: vec![
                "modprobe tcp_bbr".to_owned(),
                "sysctl -w net.ipv4.tcp_congestion_control=bbr".to_owned(),
            ],
            note: Some("connections made from then on use it; beside flows of others it may take more than its share".to_owned()),
        },
        sentence("Find what loses packets on the path, or deepen the queue in front of its slowest link"),
    ]
}

fn stalls(cause: Cause, place: &Place) -> Vec<Change> {
    let (sender, name) = match place.sender_is_target {
        true => (&place.target, "target"),
        false => (&place.initiator, "initiator"),
    };
    match cause {
        Cause::SlowStartAfterIdle => vec![Change {
            what: format!(
                "Keep the congestion window over pauses, {}",
                Place::on(sender, name)
            ),
            commands: vec!["sysctl -w net.ipv4.tcp_slow_start_after_idle=0".to_owned()],
            note: None,
        }],
        Cause::Nagle | Cause::NagleAgainstDelayedAck => vec![sentence(&format!(
            "Set TCP_NODELAY on the connection, {}: {} lets Nagle's algorithm hold short segments",
            Place::on(sender, name),
            sender.software.in_words(),
        ))],
        Cause::ExtraRoundTrips => congestion(place),
        _ => vec![sentence("Find what loses packets on the path")],
    }
}

/// A program that reads one thing after the other gets more if more is read for it.
fn read_ahead(place: &Place) -> Vec<Change> {
    const READ_AHEAD_KIB: u64 = 4096;
    if place.initiator.software != Software::OpenIscsi || !place.is_reading || !place.is_sequential
    {
        return Vec::new();
    }
    let commands = place
        .disks
        .iter()
        .map(|disk| format!("echo {READ_AHEAD_KIB} > /sys/block/{disk}/queue/read_ahead_kb"));
    vec![Change {
        what: "If files are read in their order, read further ahead".to_owned(),
        commands: commands.collect(),
        note: None,
    }]
}
