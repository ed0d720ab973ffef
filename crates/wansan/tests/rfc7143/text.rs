//! Texts in full feature phase, and discovery (RFC 7143 §4.3, §6.4, §11.10, §11.11, Appendix C).

use libtest_mimic::Trial;
use wansan_iscsi::sequence::Sn;
use wansan_iscsi::wire::{Lun, Opcode, RESERVED_TAG, TextRequest};
use wansan_peers::trial::{Stop, require};

use crate::case::{self, Case};
use crate::client::{Client, INITIATOR_NAME, LEAD, Login, Pairs, pairs_of, text_of};
use crate::peer::Peer;
use crate::wire::{Received, equal, expect_pdu, opcode_byte};

const CASES: [Case; 13] = [
    Case::new(
        "send_targets_all_lists_the_target",
        "Appendix C: All in a discovery session lists all targets that the initiator may see",
        all,
    ),
    Case::new(
        "a_target_is_listed_with_its_address",
        "Appendix C: TargetAddress follows TargetName, with the portal group tag behind a comma",
        address,
    ),
    Case::new(
        "a_target_is_listed_by_its_name",
        "Appendix C: with a name as its value, SendTargets asks for that target alone",
        by_name,
    ),
    Case::new(
        "an_unknown_target_is_not_listed",
        "Appendix C: no information is returned for a target that is not there",
        unknown_name,
    ),
    Case::new(
        "a_normal_session_lists_its_own_target",
        "Appendix C: in a normal session a null value asks for the session's target",
        own,
    )
    .tgtd_deviates("the peer closed the connection"),
    Case::new(
        "a_single_answer_is_final",
        "§11.11.1, §11.11.4: a Text Response with F=1 has the Target Transfer Tag 0xffffffff",
        final_answer,
    ),
    Case::new(
        "an_unknown_key_is_not_understood",
        "§6.2: a key that is not understood is answered NotUnderstood, in texts as in login",
        not_understood,
    )
    .tgtd_deviates("the peer closed the connection"),
    Case::new(
        "names_that_resemble_send_targets_are_not_understood",
        "§6.1: \"Key names are case sensitive\"; §6.2: the answer to any other key than those known MUST be NotUnderstood, and the session goes on",
        nearly_send_targets,
    )
    .tgtd_deviates("the peer closed the connection"),
    Case::new(
        "send_targets_takes_all_a_name_or_nothing",
        "Appendix C: All, an iSCSI name and nothing are the values of SendTargets; the session outlives others",
        bad_value,
    )
    .tgtd_deviates("the peer closed the connection"),
    Case::new(
        "the_bursts_of_a_session_are_not_renegotiated",
        "§13.13: MaxBurstLength is LO: leading login only",
        leading_only,
    )
    .tgtd_deviates("the peer closed the connection"),
    Case::new(
        "a_text_may_go_on_in_the_next_request",
        "§11.10.2: after C=1 the target answers with an empty text and a tag to go on with",
        continued,
    )
    .tgtd_deviates("the peer closed the connection"),
    Case::new(
        "a_tag_that_was_not_given_is_rejected",
        "§11.10.4: the Target Transfer Tag is that of the response that the text goes on from",
        wrong_tag,
    ),
    Case::new(
        "a_discovery_session_takes_no_commands",
        "§4.3: in a discovery session the target MUST accept only SendTargets texts and logouts, and reject others",
        no_commands,
    )
    .tgtd_deviates("the peer closed the connection"),
];

pub(crate) fn trials() -> Vec<Trial> {
    case::trials("text", &CASES)
}

/// A discovery session.
fn discover(peer: &Peer) -> Result<Client, Stop> {
    let mut login = Login::connect(peer)?;
    let text = [
        ("InitiatorName", INITIATOR_NAME),
        ("SessionType", "Discovery"),
    ];
    let answer = login.ask(&text)?.accepted()?;
    let last = login.lead_on(answer)?;
    Ok(login.into_client(&last))
}

/// A text request that is whole, and numbered as a command.
fn request(client: &mut Client) -> TextRequest {
    TextRequest {
        immediate: false,
        final_: true,
        continue_: false,
        lun: Lun::default(),
        task_tag: client.tag(),
        transfer_tag: RESERVED_TAG,
        cmd_sn: client.take_cmd_sn(),
        exp_stat_sn: Sn(0),
    }
}

/// Sends a whole text and gives the answer's PDU.
fn ask(client: &mut Client, pairs: Pairs<'_>) -> Result<Received, Stop> {
    let request = request(client);
    client.send(LEAD, request, &text_of(pairs))?;
    let (response, received) = expect_pdu!(client.receive(LEAD)?, TextResponse)?;
    equal("task", response.task_tag, request.task_tag)?;
    Ok(received)
}

/// What SendTargets with this value gives.
pub(crate) fn send_targets(
    client: &mut Client,
    value: &str,
) -> Result<Vec<(String, String)>, Stop> {
    let received = ask(client, &[("SendTargets", value)])?;
    pairs_of(&received.data)
}

fn names(listed: &[(String, String)]) -> Vec<&str> {
    let names = listed.iter().filter(|(key, _)| key == "TargetName");
    names.map(|(_, value)| value.as_str()).collect()
}

fn all(peer: &Peer) -> Result<(), Stop> {
    let listed = send_targets(&mut discover(peer)?, "All")?;
    equal("targets", names(&listed), vec![peer.portal.target_name])
}

fn address(peer: &Peer) -> Result<(), Stop> {
    let listed = send_targets(&mut discover(peer)?, "All")?;
    let address = listed.iter().find(|(key, _)| key == "TargetAddress");
    let fits = address.is_some_and(|(_, value)| {
        value.split_once(',').is_some_and(|(portal, tag)| {
            portal == peer.portal.address && tag.parse::<u16>().is_ok()
        })
    });
    require(fits, || {
        format!("{address:?} is not {}", peer.portal.address)
    })
}

fn by_name(peer: &Peer) -> Result<(), Stop> {
    let name = peer.portal.target_name;
    let listed = send_targets(&mut discover(peer)?, name)?;
    equal("targets", names(&listed), vec![name])
}

fn unknown_name(peer: &Peer) -> Result<(), Stop> {
    let name = "iqn.2026-11.net.example:nowhere";
    let listed = send_targets(&mut discover(peer)?, name)?;
    require(names(&listed).is_empty(), || format!("{listed:?}"))
}

fn own(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let listed = send_targets(&mut client, "")?;
    equal("targets", names(&listed), vec![peer.portal.target_name])
}

fn final_answer(peer: &Peer) -> Result<(), Stop> {
    let received = ask(&mut discover(peer)?, &[("SendTargets", "All")])?;
    let (response, received) = expect_pdu!(received, TextResponse)?;
    require(received.final_(), || "F is 0".to_owned())?;
    equal("Target Transfer Tag", response.transfer_tag, RESERVED_TAG)
}

fn not_understood(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let received = ask(&mut client, &[("X-net.example.colour", "blue")])?;
    let answered = pairs_of(&received.data)?;
    let wanted = (
        "X-net.example.colour".to_owned(),
        "NotUnderstood".to_owned(),
    );
    equal("answer", answered, vec![wanted])
}

fn nearly_send_targets(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    for (key, value) in [("SendTargetsPlease", "All"), ("sENDtARGETS", "aLL")] {
        let received = ask(&mut client, &[(key, value)])?;
        let wanted = (key.to_owned(), "NotUnderstood".to_owned());
        equal("answer", pairs_of(&received.data)?, vec![wanted])?;
    }
    client.settle()
}

fn bad_value(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    for value in ["Alle", "A", "all"] {
        let request = request(&mut client);
        client.send(LEAD, request, &text_of(&[("SendTargets", value)]))?;
        let received = client.receive(LEAD)?;
        if received.bhs[0] != opcode_byte(Opcode::Reject, false) {
            let wanted = ("SendTargets".to_owned(), "Reject".to_owned());
            equal("answer", pairs_of(&received.data)?, vec![wanted])?;
        }
    }
    client.settle()
}

fn leading_only(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[("MaxBurstLength", "8192")])?;
    let request = request(&mut client);
    client.send(LEAD, request, &text_of(&[("MaxBurstLength", "4096")]))?;
    let received = client.receive(LEAD)?;
    if received.bhs[0] != opcode_byte(Opcode::Reject, false) {
        let answered = pairs_of(&received.data)?;
        let wanted = ("MaxBurstLength".to_owned(), "Reject".to_owned());
        equal("answer", answered, vec![wanted])?;
    }
    Ok(())
}

fn continued(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[])?;
    let mut first = request(&mut client);
    (first.final_, first.continue_) = (false, true);
    client.send(LEAD, first, b"SendTar")?;
    let (response, received) = expect_pdu!(client.receive(LEAD)?, TextResponse)?;
    require(received.data.is_empty(), || "it answers a part".to_owned())?;
    require(!received.final_(), || "F is 1".to_owned())?;
    require(response.transfer_tag != RESERVED_TAG, || {
        "no tag".to_owned()
    })?;
    let mut last = request(&mut client);
    last.task_tag = first.task_tag;
    last.transfer_tag = response.transfer_tag;
    last.lun = response.lun;
    client.send(LEAD, last, b"gets=\0")?;
    let (_, received) = expect_pdu!(client.receive(LEAD)?, TextResponse)?;
    let listed = pairs_of(&received.data)?;
    equal("targets", names(&listed), vec![peer.portal.target_name])
}

fn wrong_tag(peer: &Peer) -> Result<(), Stop> {
    let mut client = discover(peer)?;
    let mut wrong = request(&mut client);
    wrong.transfer_tag = 0x1234;
    client.send(LEAD, wrong, &text_of(&[("SendTargets", "All")]))?;
    expect_pdu!(client.receive(LEAD)?, Reject)?;
    Ok(())
}

fn no_commands(peer: &Peer) -> Result<(), Stop> {
    let mut client = discover(peer)?;
    let command = client.test_unit_ready();
    client.send(LEAD, command, &[])?;
    expect_pdu!(client.receive(LEAD)?, Reject)?;
    Ok(())
}
