//! Reject and what brings it (RFC 7143 §7.3, §7.7, §7.13, §11.17).

use libtest_mimic::Trial;
use wansan_iscsi::sequence::Sn;
use wansan_iscsi::wire::{
    BHS_BYTES, Bhs, LoginRequest, Opcode, RejectReason, Snack, SnackKind, Stage,
};
use wansan_peers::trial::{Stop, require};
use wansan_trace::TaskTag;

use crate::case::{self, Case};
use crate::client::{Client, LEAD};
use crate::peer::Peer;
use crate::wire::{Received, equal, expect_pdu, opcode_byte};

const CASES: [Case; 9] = [
    Case::new(
        "an_unknown_opcode_is_rejected",
        "§11.17.1: reason 05, command not supported",
        unknown_opcode,
    )
    .tgtd_deviates("the peer closed the connection"),
    Case::new(
        "a_targets_pdu_is_rejected",
        "§11.17.1: a PDU that only a target sends is no request: 04 or 05",
        targets_opcode,
    )
    .tgtd_deviates("the peer closed the connection"),
    Case::new(
        "a_login_after_login_is_rejected",
        "§6.3: a Login Request on a connection in full feature phase is a protocol error (04)",
        login_again,
    )
    .tgtd_deviates("the peer closed the connection"),
    Case::new(
        "a_reserved_task_attribute_is_rejected",
        "§11.3.1: ATTR 5 to 7 are reserved; §11.17.1: invalid PDU field (09)",
        reserved_attribute,
    )
    .tgtd_deviates("the peer closed the connection"),
    Case::new(
        "a_task_tag_is_in_use_once",
        "§11.2.1.8: tags are unique among the tasks of a session; §11.17.1: task in progress (07)",
        tag_in_use,
    )
    .tgtd_deviates("expected Reject"),
    Case::new(
        "a_segment_that_is_too_long_is_rejected",
        "§13.12: no longer than MaxRecvDataSegmentLength; a format error (§7.7) ends the session",
        too_long,
    ),
    Case::new(
        "snack_needs_level_one",
        "§7.1.5, §11.16: at level 0 nothing is sent again; §11.17.1: SNACK reject (03)",
        snack,
    )
    .tgtd_deviates("the peer closed the connection"),
    Case::new(
        "a_reject_carries_the_header",
        "§11.17: \"Complete Header of Bad PDU\" is the data of the Reject",
        carries_header,
    )
    .tgtd_deviates("the peer closed the connection"),
    Case::new(
        "a_reject_has_no_task",
        "§11.17.2: the Initiator Task Tag is 0xffffffff, and StatSN is that of a status",
        no_task,
    )
    .tgtd_deviates("the peer closed the connection"),
];

pub(crate) fn trials() -> Vec<Trial> {
    case::trials("reject", &CASES)
}

/// Sends a header of our own making; fails unless a Reject comes, with one of these reasons.
fn rejects(client: &mut Client, bhs: &Bhs, reasons: &[RejectReason]) -> Result<Received, Stop> {
    let bytes = client.connections[LEAD].wire.encode_bhs(bhs, &[], &[]);
    client.connections[LEAD].wire.send_bytes(&bytes)?;
    let (reject, received) = expect_pdu!(client.receive(LEAD)?, Reject)?;
    require(reasons.contains(&reject.reason), || {
        format!("the reason is {:?}, not one of {reasons:?}", reject.reason)
    })?;
    Ok(received)
}

/// A header with nothing but an opcode and a task tag.
fn bare(opcode: u8) -> Bhs {
    let mut bhs = [0; BHS_BYTES];
    (bhs[0], bhs[1], bhs[19]) = (0x40 | opcode, 0x80, 0x33);
    bhs
}

fn unknown_opcode(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let reasons = [RejectReason::CommandNotSupported];
    rejects(&mut client, &bare(0x1a), &reasons)?;
    Ok(())
}

fn targets_opcode(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let reasons = [
        RejectReason::CommandNotSupported,
        RejectReason::ProtocolError,
    ];
    rejects(
        &mut client,
        &bare(opcode_byte(Opcode::R2t, false)),
        &reasons,
    )?;
    Ok(())
}

fn login_again(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let again = LoginRequest {
        continue_: false,
        csg: Stage::OperationalNegotiation,
        nsg: Some(Stage::FullFeaturePhase),
        version_max: 0,
        version_min: 0,
        isid: client.isid,
        tsih: client.tsih,
        task_tag: TaskTag(9),
        cid: 1,
        cmd_sn: client.cmd_sn,
        exp_stat_sn: Sn(0),
    };
    client.send(LEAD, again, &[])?;
    let (reject, _) = expect_pdu!(client.receive(LEAD)?, Reject)?;
    equal("reason", reject.reason, RejectReason::ProtocolError)
}

fn reserved_attribute(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let command = client.test_unit_ready();
    let mut bytes = client.encode(LEAD, command, &[]);
    bytes[1] |= 7;
    client.connections[LEAD].wire.send_bytes(&bytes)?;
    let (reject, _) = expect_pdu!(client.receive(LEAD)?, Reject)?;
    equal("reason", reject.reason, RejectReason::InvalidPduField)
}

fn tag_in_use(peer: &Peer) -> Result<(), Stop> {
    let asked = [("InitialR2T", "Yes"), ("ImmediateData", "No")];
    let mut client = Client::log_in(peer, &asked)?;
    let write = client.write10(0, 8);
    client.send(LEAD, write, &[])?;
    let r2t = client.r2t(LEAD, write.task_tag)?;
    let mut second = client.test_unit_ready();
    second.task_tag = write.task_tag;
    client.send(LEAD, second, &[])?;
    let (reject, _) = expect_pdu!(client.receive(LEAD)?, Reject)?;
    equal("reason", reject.reason, RejectReason::TaskInProgress)?;
    client.answer_r2t(LEAD, &r2t, &[1; 4096])?;
    client.good(LEAD, write.task_tag)?;
    Ok(())
}

fn too_long(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let tag = client.tag();
    let ping = wansan_iscsi::wire::NopOut {
        immediate: true,
        lun: client.lun,
        task_tag: tag,
        transfer_tag: wansan_iscsi::wire::RESERVED_TAG,
        cmd_sn: client.cmd_sn,
        exp_stat_sn: Sn(0),
    };
    let mut bytes = client.encode(LEAD, ping, &[]);
    bytes[5..8].fill(0xff);
    client.connections[LEAD].wire.send_bytes(&bytes)?;
    for came in client.connections[LEAD].wire.until_closed()? {
        expect_pdu!(came, Reject)?;
    }
    Ok(())
}

/// A SNACK that asks for all Data-In of a task.
fn ask_again(client: &mut Client) -> Result<Received, Stop> {
    let snack = Snack {
        kind: SnackKind::DataOrR2t,
        lun: client.lun,
        task_tag: client.tag(),
        transfer_tag: wansan_iscsi::wire::RESERVED_TAG,
        exp_stat_sn: Sn(0),
        beg_run: 0,
        run_length: 0,
    };
    client.send(LEAD, snack, &[])?;
    client.receive(LEAD)
}

fn snack(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[("ErrorRecoveryLevel", "0")])?;
    let (reject, _) = expect_pdu!(ask_again(&mut client)?, Reject)?;
    equal("reason", reject.reason, RejectReason::SnackReject)
}

fn carries_header(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[("ErrorRecoveryLevel", "0")])?;
    let (_, received) = expect_pdu!(ask_again(&mut client)?, Reject)?;
    equal("length of its data", received.data.len(), BHS_BYTES)?;
    let opcode = received.data[0] & 0x3f;
    equal("opcode inside", opcode, opcode_byte(Opcode::Snack, false))
}

fn no_task(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[("ErrorRecoveryLevel", "0")])?;
    let before = client.ping(LEAD)?.stat_sn;
    let (reject, received) = expect_pdu!(ask_again(&mut client)?, Reject)?;
    equal("task tag", received.word(16), 0xffff_ffff)?;
    equal("StatSN", reject.stat_sn, before.next())?;
    equal(
        "StatSN behind it",
        client.ping(LEAD)?.stat_sn,
        before.add(2),
    )
}
