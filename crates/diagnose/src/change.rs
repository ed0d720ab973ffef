//! Remedies for a limit, as commands for the software in use.

mod buffers;
pub(crate) mod shell;
mod simulated;
mod stalls;

use serde::Serialize;
use wansan_insight::cause::{Cause, Limit};

use crate::judge::{Bound, Verdict};
use crate::software::Software;
use shell::{is_plain, quoted};
pub use simulated::{PARALLEL, Predicted, Setting};

/// One change.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Change {
    /// Its effect, as a sentence without full stop.
    pub what: String,
    /// Commands to run as given, in this order; empty if something that they need is unknown.
    pub commands: Vec<String>,
    /// A caveat.
    pub note: Option<String>,
    /// The same change as plan settings; empty if not simulated.
    pub settings: Vec<Setting>,
    /// The predicted effect, if requested.
    pub predicted: Option<Predicted>,
}

/// The properties of a session's end that determine commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    /// Its software.
    pub software: Software,
    /// Whether it is on this host.
    pub is_here: bool,
}

/// The LIO portal group of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LioGroup {
    /// Its tag.
    pub tag: u32,
    /// Names of initiators with an ACL: the session's own or, if unknown, those that have a session.
    pub acls: Vec<String>,
}

/// The values to fill into commands.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// The initiator's end.
    pub initiator: Party,
    /// The target's end.
    pub target: Party,
    /// The target's name, if known.
    pub target_name: Option<String>,
    /// The portal in the initiator's record.
    pub portal: String,
    /// The target's portal group, if it is LIO's, on this host.
    pub lio: Option<LioGroup>,
    /// Commands that would be outstanding without any limit.
    pub wanted: u64,
    /// The session's command slots, if known.
    pub can_queue: Option<u64>,
    /// Disks whose I/O scheduler has requests of its own, beside the driver's.
    pub scheduled: Vec<String>,
    /// The block devices with read-ahead, and their read-ahead in KiB.
    pub read_ahead: Vec<(String, u64)>,
    /// Whether most bytes are reads.
    pub is_reading: bool,
    /// Whether only one command is outstanding at a time.
    pub is_one_at_a_time: bool,
    /// Which end's TCP waited: the sender whose data waits most in total.
    pub sender_is_target: bool,
    /// The sender's congestion control, if it is on this host.
    pub congestion_control: Option<String>,
    /// Maximum receive and send buffer of this host's TCP, in bytes.
    pub buffers: [Option<u64>; 2],
}

/// open-iscsi's maximum (`libiscsi.h`, ISCSI_TOTAL_CMDS_MAX).
const MOST_CMDS_MAX: u64 = 4096;
/// open-iscsi's default.
const USUAL_CMDS_MAX: u64 = 128;
/// Commands that it reserves for task management and NOPs (`libiscsi.h`, ISCSI_MGMT_CMDS_MAX).
const KEPT_COMMANDS: u64 = 15;
/// LIO's maximum (`iscsi_target_tpg.h`, TA_DEFAULT_CMDSN_DEPTH_MAX).
const MOST_CMDSN_DEPTH: u64 = 512;
/// The block layer's maximum number of scheduler requests (`blk-mq-sched.h`, MAX_SCHED_RQ).
const MOST_REQUESTS: u64 = 2048;
/// Its default (`blkdev.h`, BLKDEV_DEFAULT_RQ).
const USUAL_REQUESTS: u64 = 128;
/// tgt's largest command window; greater values of MaxQueueCmd have no effect.
const MOST_QUEUE_CMD: u64 = 128;
/// Recommended FirstBurstLength, and the largest MaxBurstLength that is a multiple of 512 (RFC 7143 §13.13).
const FIRST_BURST: u64 = 1 << 20;
const MAX_BURST: u64 = (1 << 24) - 512;

/// Recommended congestion control.
const BBR: &str = "bbr";

const LOGS_OUT: &str = "this logs all sessions with that portal out and in again: nothing may use their disks meanwhile";
const STORE: &str = "Use a store with a shorter service time or more parallelism";
const TARGETCLI: &str = "`targetcli saveconfig` keeps it";

impl Place {
    /// The end whose TCP waited.
    #[must_use]
    pub fn sender(&self) -> &Party {
        match self.sender_is_target {
            true => &self.target,
            false => &self.initiator,
        }
    }

    /// The end that receives.
    fn receiver(&self) -> &Party {
        match self.sender_is_target {
            true => &self.initiator,
            false => &self.target,
        }
    }

    /// The target's name, quoted for the shell; `None` if it is unknown or not a plain name.
    fn target_word(&self) -> Option<String> {
        let name = self.target_name.as_deref().filter(|name| is_plain(name))?;
        Some(quoted(name))
    }

    fn node(&self) -> Option<String> {
        let (target, portal) = (self.target_word()?, quoted(&self.portal));
        Some(format!("iscsiadm -m node -T {target} -p {portal}"))
    }

    /// Sets values in open-iscsi's record, effective at the next login.
    fn of_node(&self, values: &[(&str, String)]) -> Vec<String> {
        let set = |node: String| {
            let each = values
                .iter()
                .map(|(name, value)| format!("{node} -o update -n {} -v {value}", quoted(name)));
            each.collect()
        };
        self.node().map(set).unwrap_or_default()
    }

    fn login_again(&self) -> Vec<String> {
        let again = |node: String| ["-u", "-l"].map(|how| format!("{node} {how}")).to_vec();
        self.node().map(again).unwrap_or_default()
    }

    /// Writes an attribute of LIO's portal group in configfs.
    fn of_group(&self, name: &str, value: u64) -> Option<String> {
        let (target, group) = (self.target_name.as_deref()?, self.lio.as_ref()?);
        if !is_plain(target) || !is_plain(name) {
            return None;
        }
        let at = format!(
            "/sys/kernel/config/target/iscsi/{target}/tpgt_{}/{name}",
            group.tag
        );
        Some(format!("echo {value} > {}", quoted(&at)))
    }

    /// Sets parameters of tgt's target.
    fn of_tgt(&self, values: &[(&str, u64)]) -> Vec<String> {
        let Some(name) = self.target_name.as_deref().filter(|name| is_plain(name)) else {
            return Vec::new();
        };
        let tid = format!(
            "$(tgtadm --lld iscsi --op show --mode target | awk '$1 == \"Target\" && $3 == \"{name}\" {{ print $2 + 0 }}')"
        );
        let each = values.iter().map(|(key, value)| {
            format!(
                "tgtadm --lld iscsi --op update --mode target --tid {tid} --name {key} --value {value}"
            )
        });
        each.collect()
    }

    /// The end at which to make a change.
    fn on(&self, party: &Party) -> &'static str {
        match (party.is_here, *party == self.target) {
            (true, _) => "on this host",
            (false, true) => "on the target",
            (false, false) => "on the initiator",
        }
    }
}

/// The changes against `verdict`, most effective first; empty if nothing is known to help.
#[must_use]
pub fn changes(verdict: &Verdict, place: &Place) -> Vec<Change> {
    match verdict {
        Verdict::Bound { bound } => match &bound.bound {
            Bound::QueueDepth { disk } => queue_depth(place, disk, bound.commands),
            Bound::Requests { disk } => requests(place, disk, bound.commands),
            Bound::SessionCommands => session_commands(place, bound.commands),
            Bound::CommandWindow => command_window(place, bound.commands),
        },
        Verdict::HostQueue { scheduler } => host_queue(scheduler),
        Verdict::Wire { of, cause } => wire(*of, *cause, place),
        Verdict::TooFewIos => read_ahead(place),
        Verdict::Store => vec![sentence(STORE)],
        Verdict::Target | Verdict::Host | Verdict::Unknown | Verdict::Idle => Vec::new(),
    }
}

/// The queue depth to recommend instead of `commands`: the wanted one, but at least twice as many, rounded up to a
/// multiple of 8.
fn more(place: &Place, commands: u64) -> u64 {
    place.wanted.max(2 * commands).next_multiple_of(8)
}

fn sentence(what: &str) -> Change {
    Change {
        what: what.to_owned(),
        ..Change::default()
    }
}

fn queue_depth(place: &Place, disk: &str, commands: u64) -> Vec<Change> {
    let depth = more(place, commands);
    let slots = place.can_queue.unwrap_or(u64::MAX);
    let now = depth.min(slots);
    let mut changes = Vec::new();
    if now > commands && is_plain(disk) {
        let at = quoted(&format!("/sys/block/{disk}/device/queue_depth"));
        let mut each = vec![format!("echo {now} > {at}")];
        each.extend(place.of_node(&[("node.session.queue_depth", now.to_string())]));
        changes.push(Change {
            what: format!("Allow {now} outstanding commands for {disk}"),
            commands: each,
            note: Some("the second command makes it permanent for later logins".to_owned()),
            settings: simulated::slots(place, commands, now),
            ..Change::default()
        });
    }
    if depth > slots {
        changes.extend(session_commands(place, slots));
    }
    changes
}

/// Without a scheduler, the requests are the session's slots, and no more than those exist.
fn requests(place: &Place, disk: &str, commands: u64) -> Vec<Change> {
    let is_scheduled = place.scheduled.iter().any(|name| name == disk);
    let most = match place.can_queue {
        Some(slots) if !is_scheduled => slots,
        _ => MOST_REQUESTS,
    };
    // A blocked program's real queue depth is unknown.
    let requests = more(place, commands).max(USUAL_REQUESTS).min(most);
    if requests <= commands && !is_scheduled {
        return session_commands(place, commands);
    }
    if requests <= commands || !is_plain(disk) {
        return Vec::new();
    }
    let at = quoted(&format!("/sys/block/{disk}/queue/nr_requests"));
    vec![Change {
        what: format!("Allow {requests} requests in the queue of {disk}"),
        commands: vec![format!("echo {requests} > {at}")],
        note: Some("until the next login of the disk; a udev rule makes it permanent".to_owned()),
        settings: simulated::slots(place, commands, requests),
        ..Change::default()
    }]
}

fn session_commands(place: &Place, commands: u64) -> Vec<Change> {
    let wanted = more(place, commands).max(USUAL_CMDS_MAX - KEPT_COMMANDS);
    // cmds_max must be a power of two.
    let all = (wanted + KEPT_COMMANDS)
        .next_power_of_two()
        .min(MOST_CMDS_MAX);
    if all <= commands + KEPT_COMMANDS {
        return several_sessions(place);
    }
    let depth = wanted.min(all - KEPT_COMMANDS);
    let values = [
        ("node.session.cmds_max", all.to_string()),
        ("node.session.queue_depth", depth.to_string()),
    ];
    vec![Change {
        what: format!("Raise cmds_max to {all} (open-iscsi reserves {KEPT_COMMANDS})"),
        commands: [place.of_node(&values), place.login_again()].concat(),
        note: Some(LOGS_OUT.to_owned()),
        settings: simulated::slots(place, commands, depth),
        ..Change::default()
    }]
}

fn several_sessions(place: &Place) -> Vec<Change> {
    if place.initiator.software != Software::OpenIscsi {
        return Vec::new();
    }
    let mut commands = place.of_node(&[("node.session.nr_sessions", "4".to_owned())]);
    commands.extend(place.login_again().pop());
    vec![Change {
        what: "Or use several sessions below dm-multipath, each with its own command slots"
            .to_owned(),
        commands,
        note: None,
        ..Change::default()
    }]
}

fn command_window(place: &Place, commands: u64) -> Vec<Change> {
    let window = more(place, commands);
    let at = place.on(&place.target);
    let granted = |window: u64| format!("Grant a command window of {window} {at}");
    let mut changes = Vec::new();
    match place.target.software {
        Software::Lio if commands >= MOST_CMDSN_DEPTH => {}
        Software::Lio => {
            let depth = window.min(MOST_CMDSN_DEPTH);
            let acls = place.lio.as_ref().map_or(&[][..], |group| &group.acls);
            let (paths, note) = match acls {
                [] => (
                    vec!["attrib/default_cmdsn_depth".to_owned()],
                    "for initiators without an ACL, from their next login on",
                ),
                acls => (
                    acls.iter()
                        .map(|name| format!("acls/{name}/cmdsn_depth"))
                        .collect(),
                    "this ends the session of the initiator with that ACL, which logs in again",
                ),
            };
            let each = paths.iter().filter_map(|path| place.of_group(path, depth));
            changes.push(Change {
                what: granted(depth),
                commands: each.collect(),
                note: Some(format!("{note}; {TARGETCLI}")),
                settings: simulated::window(place, commands, depth),
                ..Change::default()
            });
        }
        Software::Wansan => changes.push(Change {
            what: granted(window),
            commands: vec![format!("wansan target --command-window {window}")],
            note: Some("with the target's other options; sessions log in again".to_owned()),
            settings: simulated::window(place, commands, window),
            ..Change::default()
        }),
        Software::Tgt if commands < MOST_QUEUE_CMD => changes.push(Change {
            what: granted(MOST_QUEUE_CMD),
            commands: place.of_tgt(&[("MaxQueueCmd", MOST_QUEUE_CMD)]),
            note: Some("tgt grants no more; sessions log in again".to_owned()),
            settings: simulated::window(place, commands, MOST_QUEUE_CMD),
            ..Change::default()
        }),
        Software::Tgt => changes.push(sentence(
            "Use several sessions, or another target: tgt grants no more than 128 commands",
        )),
        _ => changes.push(Change {
            settings: simulated::window(place, commands, window),
            ..sentence(&format!(
                "Raise the command window, its queue depth for each session, to {window} {at}"
            ))
        }),
    }
    changes.extend(several_sessions(place));
    changes
}

/// I/Os that wait in the host while slots are free wait for the I/O scheduler.
fn host_queue(scheduler: &[(String, String)]) -> Vec<Change> {
    let others = scheduler
        .iter()
        .filter(|(disk, name)| name != "none" && is_plain(disk));
    let commands: Vec<String> = others
        .map(|(disk, _)| {
            format!(
                "echo none > {}",
                quoted(&format!("/sys/block/{disk}/queue/scheduler"))
            )
        })
        .collect();
    match commands.is_empty() {
        true => Vec::new(),
        false => vec![Change {
            what: "Bypass the I/O scheduler of the disk".to_owned(),
            commands,
            note: None,
            ..Change::default()
        }],
    }
}

fn wire(limit: Limit, cause: Cause, place: &Place) -> Vec<Change> {
    match limit {
        Limit::R2tRoundTrips => r2t(place),
        Limit::ReceiveWindow => buffers::receive(place),
        Limit::SendBuffer => buffers::send(place),
        Limit::CongestionWindow if place.sender().is_here => congestion(place),
        // Only the sender can distinguish the two.
        Limit::CongestionWindow => [congestion(place), buffers::send(place)].concat(),
        Limit::Stalls => stalls::changes(cause, place),
        Limit::RouteLockstep => vec![sentence(
            "Use one session for each route, not one session over unequal routes",
        )],
        Limit::PathRate => vec![sentence(
            "Use a path with a higher rate, or transfer fewer bytes",
        )],
        Limit::Encryption => vec![sentence("Use a cipher that costs less CPU time")],
        Limit::Store => vec![sentence(STORE)],
        Limit::Processor => vec![sentence("Use a faster CPU, or several sessions")],
        // None of these shows up as a wait in packets.
        Limit::CommandWindow | Limit::TooFewIos | Limit::Nothing => Vec::new(),
    }
}

fn r2t(place: &Place) -> Vec<Change> {
    let mut changes = Vec::new();
    let at = place.on(&place.target);
    let what = format!("Allow unsolicited data for writes {at}");
    let again = "sessions negotiate it at their next login";
    match place.target.software {
        Software::Lio => {
            let values = [
                ("param/MaxBurstLength", MAX_BURST.to_string()),
                ("param/FirstBurstLength", FIRST_BURST.to_string()),
                ("param/InitialR2T", "No".to_owned()),
                ("param/ImmediateData", "Yes".to_owned()),
            ];
            let each = values.iter().filter_map(|(name, value)| {
                let command = place.of_group(name, 0)?;
                Some(command.replacen("echo 0", &format!("echo {value}"), 1))
            });
            changes.push(Change {
                what,
                commands: each.collect(),
                note: Some(format!("{again}; {TARGETCLI}")),
                settings: simulated::unasked(),
                ..Change::default()
            });
        }
        Software::Tgt => {
            let mut commands = place.of_tgt(&[
                ("MaxBurstLength", MAX_BURST),
                ("FirstBurstLength", FIRST_BURST),
            ]);
            let flags = place.of_tgt(&[("InitialR2T", 0), ("ImmediateData", 1)]);
            let yes_or_no = flags.iter().map(|command| match command.strip_suffix('0') {
                Some(rest) => format!("{rest}No"),
                None => format!("{}Yes", command.trim_end_matches('1')),
            });
            commands.extend(yes_or_no);
            changes.push(Change {
                what,
                commands,
                note: Some(again.to_owned()),
                settings: simulated::unasked(),
                ..Change::default()
            });
        }
        Software::Wansan => changes.push(Change {
            what,
            commands: vec![format!(
                "wansan target --initial-r2t no --immediate-data yes --first-burst {FIRST_BURST}"
            )],
            note: Some("with the target's other options".to_owned()),
            settings: simulated::unasked(),
            ..Change::default()
        }),
        _ => changes.push(Change {
            settings: simulated::unasked(),
            ..sentence(&format!(
                "Set InitialR2T=No, ImmediateData=Yes and a FirstBurstLength as long as the writes {at}"
            ))
        }),
    }
    match place.initiator.software {
        Software::OpenIscsi => {
            let values = [
                ("node.session.iscsi.InitialR2T", "No".to_owned()),
                ("node.session.iscsi.ImmediateData", "Yes".to_owned()),
                ("node.session.iscsi.MaxBurstLength", MAX_BURST.to_string()),
                ("node.session.iscsi.FirstBurstLength", FIRST_BURST.to_string()),
            ];
            changes.push(Change {
                what: "Request the same at the initiator".to_owned(),
                commands: [place.of_node(&values), place.login_again()].concat(),
                note: Some(LOGS_OUT.to_owned()),
                settings: simulated::unasked(),
                ..Change::default()
            });
        }
        Software::Windows => changes.push(Change {
            what: format!(
                "Request the same at the initiator: MaxBurstLength={MAX_BURST}, FirstBurstLength={FIRST_BURST}, InitialR2T=0 \
                 and ImmediateData=1"
            ),
            commands: Vec::new(),
            note: Some(
                r"DWORDs of HKLM\SYSTEM\CurrentControlSet\Control\Class\{4D36E97B-E325-11CE-BFC1-08002BE10318}\NNNN\Parameters, where NNNN has the DriverDesc Microsoft iSCSI Initiator; restart afterwards"
                    .to_owned(),
            ),
            ..Change::default()
        }),
        _ => {}
    }
    changes
}

fn congestion(place: &Place) -> Vec<Change> {
    let sender = place.sender();
    let what = format!(
        "Use a congestion control designed for long paths {}",
        place.on(sender)
    );
    let losses = sentence(
        "Find the cause of packet loss on the path, or enlarge the queue in front of its slowest link",
    );
    if place.congestion_control.as_deref() == Some(BBR) {
        return vec![losses];
    }
    if !sender.software.is_on_linux() {
        return vec![sentence(&what), losses];
    }
    let mut commands = vec![
        format!("modprobe tcp_{BBR}"),
        format!("sysctl -w net.ipv4.tcp_congestion_control={BBR}"),
    ];
    let mut note =
        "it may take more than its share beside other flows; new connections use it".to_owned();
    if place.initiator.software == Software::OpenIscsi {
        commands.extend(place.login_again());
        note = format!("{note}: {LOGS_OUT}");
    }
    vec![
        Change {
            what,
            commands,
            note: Some(note),
            settings: simulated::congestion_control(place, BBR),
            ..Change::default()
        },
        losses,
    ]
}

/// More read-ahead helps a program that reads files sequentially, one request at a time.
fn read_ahead(place: &Place) -> Vec<Change> {
    const READ_AHEAD_KIB: u64 = 4096;
    let is_one_reader = place.is_reading && place.is_one_at_a_time;
    let shorter = place
        .read_ahead
        .iter()
        .filter(|(disk, kib)| *kib < READ_AHEAD_KIB && is_plain(disk));
    let commands: Vec<String> = shorter
        .map(|(disk, _)| {
            let at = quoted(&format!("/sys/block/{disk}/queue/read_ahead_kb"));
            format!("echo {READ_AHEAD_KIB} > {at}")
        })
        .collect();
    match is_one_reader && !commands.is_empty() {
        true => vec![Change {
            what: "If files are read sequentially, increase read-ahead".to_owned(),
            commands,
            note: None,
            ..Change::default()
        }],
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::BoundUse;

    pub(super) fn place(target: Software, name: &str) -> Place {
        let party = |software, is_here| Party { software, is_here };
        Place {
            initiator: party(Software::OpenIscsi, true),
            target: party(target, false),
            target_name: Some(name.to_owned()),
            portal: "[fd00::1]:3260".to_owned(),
            lio: None,
            wanted: 20,
            can_queue: Some(113),
            scheduled: vec!["sdb".to_owned()],
            read_ahead: vec![("sdb".to_owned(), 128), ("sdc".to_owned(), 8192)],
            is_reading: true,
            is_one_at_a_time: true,
            sender_is_target: true,
            congestion_control: None,
            buffers: [Some(32 << 20), None],
        }
    }

    fn bound(bound: Bound, commands: u64) -> Verdict {
        Verdict::Bound {
            bound: BoundUse {
                bound,
                commands,
                full_share: 1.0,
                waited_ns: None,
                blocked_share: 0.0,
            },
        }
    }

    fn depth(commands: u64) -> Verdict {
        let disk = "sdb".to_owned();
        bound(Bound::QueueDepth { disk }, commands)
    }

    fn commands(verdict: &Verdict, place: &Place) -> Vec<String> {
        let changes = changes(verdict, place).into_iter();
        changes.flat_map(|change| change.commands).collect()
    }

    pub(super) const NAME: &str = "iqn.2026-11.net.example:vault";

    #[test]
    fn no_advice_lowers_a_limit() {
        let found = commands(&depth(32), &place(Software::Unknown, NAME));
        assert_eq!(found[0], "echo 64 > /sys/block/sdb/device/queue_depth");
        assert_eq!(
            found[1],
            format!(
                "iscsiadm -m node -T {NAME} -p '[fd00::1]:3260' -o update -n node.session.queue_depth -v 64"
            )
        );
        // The session has no further slots: cmds_max is raised.
        let found = commands(&depth(113), &place(Software::Unknown, NAME));
        assert!(
            found[0].ends_with("node.session.cmds_max -v 256"),
            "{found:?}"
        );
        let most = bound(Bound::SessionCommands, 4081);
        let found = commands(&most, &place(Software::Unknown, NAME));
        assert!(found[0].ends_with("nr_sessions -v 4"), "{found:?}");
    }

    #[test]
    fn requests_are_raised_as_far_as_there_are_any() {
        let requests = |disk: &str, commands| {
            let disk = disk.to_owned();
            bound(Bound::Requests { disk }, commands)
        };
        let place = place(Software::Unknown, NAME);
        let found = commands(&requests("sdb", 4), &place);
        assert_eq!(found, ["echo 128 > /sys/block/sdb/queue/nr_requests"]);
        assert!(commands(&requests("sdb", 2048), &place).is_empty());
        // No scheduler has requests of its own.
        let found = commands(&requests("sdc", 64), &place);
        assert_eq!(found, ["echo 113 > /sys/block/sdc/queue/nr_requests"]);
        let found = commands(&requests("sdc", 113), &place);
        assert!(
            found[0].ends_with("node.session.cmds_max -v 256"),
            "{found:?}"
        );
    }

    #[test]
    fn what_a_peer_calls_itself_runs_no_command() {
        for name in [
            "iqn.x;reboot",
            "iqn.x$(reboot)",
            "iqn.x\nreboot",
            "iqn.x`a`",
            "iqn x",
            "",
        ] {
            for target in [Software::Lio, Software::Tgt, Software::Unknown] {
                let mut place = place(target, name);
                place.lio = Some(LioGroup {
                    tag: 1,
                    acls: vec![name.to_owned()],
                });
                let window = bound(Bound::CommandWindow, 4);
                let r2t = wire(Limit::R2tRoundTrips, Cause::R2tWait, &place);
                let r2t = r2t.into_iter().flat_map(|change| change.commands);
                let all = commands(&window, &place).into_iter().chain(r2t);
                let all = all.chain(commands(&depth(4), &place));
                for command in all {
                    assert!(!command.contains("iqn"), "{command}");
                }
            }
        }
    }

    #[test]
    fn windows_are_changed_where_the_target_has_them() {
        let window = bound(Bound::CommandWindow, 4);
        let mut place = place(Software::Lio, NAME);
        let group = format!("/sys/kernel/config/target/iscsi/{NAME}/tpgt_2");
        place.lio = Some(LioGroup {
            tag: 2,
            acls: Vec::new(),
        });
        let found = commands(&window, &place);
        assert_eq!(
            found[0],
            format!("echo 24 > {group}/attrib/default_cmdsn_depth")
        );
        place.lio = Some(LioGroup {
            tag: 2,
            acls: vec!["iqn.1993-08.org.debian:01:a".to_owned()],
        });
        let found = commands(&window, &place);
        assert_eq!(
            found[0],
            format!("echo 24 > {group}/acls/iqn.1993-08.org.debian:01:a/cmdsn_depth")
        );
        place.target.software = Software::Tgt;
        let found = commands(&window, &place);
        assert!(
            found[0].ends_with("--name MaxQueueCmd --value 128"),
            "{found:?}"
        );
        assert!(found[0].contains(&format!("$3 == \"{NAME}\"")), "{found:?}");
    }

    #[test]
    fn bursts_are_raised_before_what_must_not_exceed_them() {
        for target in [Software::Lio, Software::Tgt] {
            let mut place = place(target, NAME);
            place.lio = Some(LioGroup {
                tag: 1,
                acls: Vec::new(),
            });
            let found = wire(Limit::R2tRoundTrips, Cause::R2tWait, &place);
            let of_target = &found[0].commands;
            let at = |name: &str| of_target.iter().position(|command| command.contains(name));
            assert!(at("MaxBurstLength").unwrap() < at("FirstBurstLength").unwrap());
            assert!(
                of_target.iter().any(|command| command.contains("16776704")),
                "{of_target:?}"
            );
            let no = of_target
                .iter()
                .find(|command| command.contains("InitialR2T"));
            assert!(no.unwrap().contains("No"), "{of_target:?}");
        }
    }

    #[test]
    fn buffers_are_raised_and_never_shrunk() {
        let found = wire(
            Limit::ReceiveWindow,
            Cause::ReceiveWindow,
            &place(Software::Lio, NAME),
        );
        let commands = &found[0].commands;
        assert!(
            commands[1].ends_with("tcp_rmem='4096 131072 67108864'"),
            "{commands:?}"
        );
        let mut windows = place(Software::Lio, NAME);
        windows.initiator = Party {
            software: Software::Windows,
            is_here: false,
        };
        let found = wire(Limit::ReceiveWindow, Cause::ReceiveWindow, &windows);
        assert!(
            found.iter().all(|change| change.commands.is_empty()),
            "{found:?}"
        );
    }

    #[test]
    fn a_congestion_control_is_not_advised_where_it_is_in_use() {
        let advised = |name: &str| {
            let place = Place {
                sender_is_target: false,
                congestion_control: Some(name.to_owned()),
                ..place(Software::Lio, NAME)
            };
            let found = wire(Limit::CongestionWindow, Cause::CongestionWindow, &place);
            assert!(
                found
                    .iter()
                    .any(|change| change.what.contains("packet loss"))
            );
            found.iter().any(|change| !change.commands.is_empty())
        };
        assert_eq!(["cubic", "bbr"].map(advised), [true, false]);
    }

    #[test]
    fn only_shorter_read_ahead_is_changed() {
        let found = commands(&Verdict::TooFewIos, &place(Software::Lio, NAME));
        assert_eq!(found, ["echo 4096 > /sys/block/sdb/queue/read_ahead_kb"]);
    }
}
