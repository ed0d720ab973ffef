//! Header and data digests at error recovery level 0 (RFC 7143 §7.8, §11.2.3, §13.1).

use libtest_mimic::Trial;
use wansan_iscsi::wire::{Ahs, BHS_BYTES, Header, RejectReason};
use wansan_peers::trial::{Stop, require};

use crate::case::{self, Case};
use crate::client::{Client, INITIATOR_NAME, LEAD, Login, Pairs, distinct};
use crate::peer::Peer;
use crate::wire::{equal, expect_pdu};

const CASES: [Case; 12] = [
    Case::new(
        "headers_have_digests_both_ways",
        "§11.2.3: a header digest follows each header, from the first PDU of full feature phase on",
        |peer| transfers(peer, HEADER),
    ),
    Case::new(
        "data_has_digests_both_ways",
        "§11.2.3: a data digest follows each data segment",
        |peer| transfers(peer, DATA),
    ),
    Case::new(
        "both_digests_go_together",
        "§13.1: HeaderDigest and DataDigest are negotiated apart, and may both be in force",
        |peer| transfers(peer, BOTH),
    ),
    Case::new(
        "padding_is_part_of_the_digest",
        "§11.2.3: the data digest covers \"the padding bytes\" as well",
        padding,
    ),
    Case::new(
        "padding_may_hold_anything",
        "§11.2.1.6: padding SHOULD be 0, so a receiver takes other bytes with a right digest",
        other_padding,
    ),
    Case::new(
        "no_data_has_no_digest",
        "§11.2.3: \"a zero-length data segment … implies a zero-length data digest\"",
        no_data,
    ),
    Case::new(
        "additional_segments_are_part_of_the_header_digest",
        "§11.2.3: the header digest covers BHS and AHS together",
        additional_segments,
    ),
    Case::new(
        "a_wrong_header_digest_ends_the_connection",
        "§7.8: a PDU with a header digest error is discarded unanswered; without a way to find the next one the connection ends",
        wrong_header,
    ),
    Case::new(
        "a_wrong_data_digest_is_rejected",
        "§7.8: the target \"MUST … send a Reject PDU with a reason code of Data-Digest-Error\"",
        wrong_data,
    )
    .tgtd_deviates("no Reject came"),
    Case::new(
        "data_with_a_wrong_digest_is_not_written",
        "§7.8: the target \"MUST discard the PDU\"",
        not_written,
    ),
    Case::new(
        "a_discovery_session_may_have_digests",
        "§13.1: digests are per connection, of any session",
        discovery,
    ),
    Case::new(
        "login_has_no_digests",
        "§13.1: digests begin behind the login, also when it goes on after they were agreed to",
        login_without,
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    case::trials("digest", &CASES)
}

const HEADER: Pairs<'static> = &[("HeaderDigest", "CRC32C"), ("DataDigest", "None")];
const DATA: Pairs<'static> = &[("HeaderDigest", "None"), ("DataDigest", "CRC32C")];
const BOTH: Pairs<'static> = &[("HeaderDigest", "CRC32C"), ("DataDigest", "CRC32C")];

/// Writes and reads; the client sends and checks digests as they are in force.
fn transfers(peer: &Peer, digests: Pairs<'_>) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let answer = login.begin(digests)?.accepted()?;
    for (key, value) in digests {
        equal(key, answer.value(key), Some(*value))?;
    }
    let last = login.lead_on(answer)?;
    let mut client = login.into_client(&last);
    client.settle()?;
    let data = distinct(16_384, 21);
    client.write(LEAD, 3, &data)?;
    client.holds(LEAD, 3, &data)
}

fn padding(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, BOTH)?;
    for length in 1..9 {
        let (tag, data) = (client.tag(), distinct(length, 22));
        client.send_ping(LEAD, tag, &data)?;
        let (_, received) = expect_pdu!(client.receive(LEAD)?, NopIn)?;
        equal("data", received.data, data)?;
    }
    Ok(())
}

fn other_padding(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, DATA)?;
    let tag = client.tag();
    // Seven bytes of data, then one of padding, as a whole segment of eight bytes has it.
    let ping = wansan_iscsi::wire::NopOut {
        immediate: true,
        lun: client.lun,
        task_tag: tag,
        transfer_tag: wansan_iscsi::wire::RESERVED_TAG,
        cmd_sn: client.cmd_sn,
        exp_stat_sn: client.connections[LEAD].exp_stat_sn,
    };
    let mut bytes = client.encode(LEAD, ping, b"padding!");
    bytes[7] = 7;
    client.connections[LEAD].wire.send_bytes(&bytes)?;
    let (_, received) = expect_pdu!(client.receive(LEAD)?, NopIn)?;
    equal("data", received.data, b"padding".to_vec())
}

fn no_data(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, BOTH)?;
    client.ping(LEAD)?;
    client.ping(LEAD)?;
    client.settle()
}

fn additional_segments(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, BOTH)?;
    let command = client.test_unit_ready();
    let mut bhs = [0; BHS_BYTES];
    Header::from(command).emit(&mut bhs);
    let ahs = [Ahs::BidirectionalReadLength(0)];
    let bytes = client.connections[LEAD].wire.encode_bhs(&bhs, &ahs, &[]);
    client.connections[LEAD].wire.send_bytes(&bytes)?;
    client.good(LEAD, command.task_tag)?;
    client.ping(LEAD)?;
    Ok(())
}

fn wrong_header(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, HEADER)?;
    let command = client.test_unit_ready();
    let mut bytes = client.encode(LEAD, command, &[]);
    bytes[BHS_BYTES] ^= 1;
    client.connections[LEAD].wire.send_bytes(&bytes)?;
    client.closed(LEAD)
}

/// Sends the data that an R2T asks for with one bit wrong.
fn send_wrong_data(client: &mut Client) -> Result<(), Stop> {
    let write = client.write10(0, 8);
    client.send(LEAD, write, &[])?;
    let r2t = client.r2t(LEAD, write.task_tag)?;
    let (pdu, ..) = client.sequence(LEAD, &r2t)[0];
    let mut bytes = client.encode(LEAD, pdu, &[5; 4096]);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    client.connections[LEAD].wire.send_bytes(&bytes)
}

fn wrong_data(peer: &Peer) -> Result<(), Stop> {
    let asked = [BOTH, &[("ImmediateData", "No"), ("InitialR2T", "Yes")]].concat();
    let mut client = Client::log_in(peer, &asked)?;
    send_wrong_data(&mut client)?;
    let came = client.receive_or_end(LEAD)?;
    let came = came.ok_or_else(|| Stop::Failed("no Reject came".to_owned()))?;
    let (reject, received) = expect_pdu!(came, Reject)?;
    equal("reason", reject.reason, RejectReason::DataDigestError)?;
    // §11.17: the complete header of the PDU comes along.
    equal("bytes of its header", received.data.len(), BHS_BYTES)
}

fn not_written(peer: &Peer) -> Result<(), Stop> {
    let asked = [BOTH, &[("ImmediateData", "No"), ("InitialR2T", "Yes")]].concat();
    let mut client = Client::log_in(peer, &asked)?;
    send_wrong_data(&mut client)?;
    client.connections[LEAD].wire.until_closed()?;
    let mut other = Client::log_in(peer, &[])?;
    other.holds(LEAD, 0, &[0; 4096])
}

fn discovery(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let text = [
        ("InitiatorName", INITIATOR_NAME),
        ("SessionType", "Discovery"),
    ];
    let answer = login.ask(&[&text[..], BOTH].concat())?.accepted()?;
    let last = login.lead_on(answer)?;
    let mut client = login.into_client(&last);
    let listed = crate::text::send_targets(&mut client, "All")?;
    require(!listed.is_empty(), || "no target is listed".to_owned())
}

fn login_without(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let names = [&login.names()[..], BOTH].concat();
    let stage = wansan_iscsi::wire::Stage::OperationalNegotiation;
    // Agreed to in the first request, in force after the last.
    let answer = login.ask_in(stage, None, &names)?.accepted()?;
    equal("HeaderDigest", answer.value("HeaderDigest"), Some("CRC32C"))?;
    let last = login.lead_on(answer)?;
    login.into_client(&last).ping(LEAD)?;
    Ok(())
}
