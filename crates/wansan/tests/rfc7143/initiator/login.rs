//! How the initiator logs in, follows a target that has moved, and leaves.

use wansan_iscsi::sequence::Sn;
use wansan_iscsi::wire::{
    Header, LoginStatus, LogoutReason, RESERVED_TAG, Stage, TextRequest, TextResponse,
};
use wansan_peers::trial::{Stop, require};

use super::Play;
use super::fake_target::{Bench, Portal, TARGET_NAME, refuse};
use crate::client::{pairs_of, text_of};
use crate::wire::{equal, expect_pdu};

pub(super) const PLAYS: [Play; 12] = [
    Play::new(
        "names_itself_and_its_target_first",
        "§6.3: InitiatorName and TargetName MUST be in the first Login Request",
        names,
    ),
    Play::new(
        "begins_a_new_session",
        "§11.12.1 to §11.12.9: version 0, TSIH 0, a stage that login may begin in, not continued",
        new_session,
    ),
    Play::new(
        "begins_with_the_cmd_sn_of_its_login",
        "§11.12.9: the first command carries the CmdSN that the login carried",
        first_cmd_sn,
    ),
    Play::new(
        "acknowledges_the_last_login_response",
        "§4.2.2.2: ExpStatSN is the StatSN that is expected next, here behind that of login",
        exp_stat_sn,
    ),
    Play::new(
        "follows_a_target_that_has_moved_for_now",
        "§11.13.5: status 0101: the initiator is to log in at the TargetAddress that comes along",
        || moved(LoginStatus::TargetMovedTemporarily),
    ),
    Play::new(
        "follows_a_target_that_has_moved_for_good",
        "§11.13.5: status 0102: as 0101, and the address stays",
        || moved(LoginStatus::TargetMovedPermanently),
    ),
    Play::new(
        "does_not_follow_in_circles",
        "§11.13.5: a redirection that leads back is followed no more than a few times",
        circles,
    ),
    Play::new(
        "wants_to_know_where_a_target_has_moved",
        "§11.13.5: a redirection MUST bring TargetAddress",
        nowhere,
    ),
    Play::new(
        "takes_no_for_an_answer",
        "§11.13.5: class 2: the initiator is not to repeat the login as it was",
        refused,
    ),
    Play::new(
        "reads_a_list_of_targets_over_several_responses",
        "§11.10, §11.11: a Text Response with C=1 goes on in answer to an empty Text Request with its tag",
        continued_text,
    ),
    Play::new(
        "logs_out_at_the_end",
        "§11.14: a session is closed by a Logout Request with reason 0, and its answer awaited",
        logs_out,
    ),
    Play::new(
        "sends_no_keys_of_the_leading_login_twice",
        "§6.2: no key is negotiated twice in one login",
        once,
    ),
];

const READS: [&str; 4] = ["--count", "4", "--parallel", "1"];

fn names() -> Result<(), Stop> {
    let portal = Portal::open()?;
    let bench = Bench::start(&portal, &READS)?;
    let mut target = portal.serve(&[])?;
    for (key, value) in [
        ("InitiatorName", "iqn.2026-01.net.wansan:bench"),
        ("TargetName", TARGET_NAME),
    ] {
        let pair = (key.to_owned(), value.to_owned());
        require(target.keys.contains(&pair), || {
            format!("no {pair:?} in {:?}", target.keys)
        })?;
    }
    target.serve_to_the_end()?;
    bench.ends_well()
}

fn new_session() -> Result<(), Stop> {
    let portal = Portal::open()?;
    let bench = Bench::start(&portal, &READS)?;
    let mut target = portal.serve(&[])?;
    let login = target.login;
    equal("Version-min", login.version_min, 0)?;
    equal("TSIH", login.tsih, 0)?;
    require(login.csg != Stage::FullFeaturePhase, || {
        "it begins in full feature phase".to_owned()
    })?;
    require(!login.continue_ || login.nsg.is_none(), || {
        "C and T".to_owned()
    })?;
    target.serve_to_the_end()?;
    bench.ends_well()
}

fn first_cmd_sn() -> Result<(), Stop> {
    let portal = Portal::open()?;
    let bench = Bench::start(&portal, &READS)?;
    let mut target = portal.serve(&[])?;
    let (command, _) = expect_pdu!(target.receive()?, ScsiCommand)?;
    equal("CmdSN", command.cmd_sn, target.login.cmd_sn)?;
    target.carry_out(&command)?;
    target.serve_to_the_end()?;
    bench.ends_well()
}

fn exp_stat_sn() -> Result<(), Stop> {
    let portal = Portal::open()?;
    let bench = Bench::start(&portal, &READS)?;
    let mut target = portal.serve(&[])?;
    for _ in 0..3 {
        let expected: Sn = target.stat_sn;
        let (command, _) = expect_pdu!(target.receive()?, ScsiCommand)?;
        equal("ExpStatSN", command.exp_stat_sn, expected)?;
        target.carry_out(&command)?;
    }
    target.serve_to_the_end()?;
    bench.ends_well()
}

fn moved(status: LoginStatus) -> Result<(), Stop> {
    let (old, new) = (Portal::open()?, Portal::open()?);
    let bench = Bench::start(&old, &READS)?;
    let address = new.address.to_string();
    refuse(&mut old.accept()?, status, &[("TargetAddress", &address)])?;
    let mut target = new.serve(&[])?;
    let wanted = ("TargetName".to_owned(), TARGET_NAME.to_owned());
    require(target.keys.contains(&wanted), || {
        format!("it asks for another target: {:?}", target.keys)
    })?;
    target.serve_to_the_end()?;
    bench.ends_well()
}

fn circles() -> Result<(), Stop> {
    /// More than anybody should follow.
    const MOST: usize = 64;
    let portal = Portal::open()?;
    let mut bench = Bench::start(&portal, &READS)?;
    let address = portal.address.to_string();
    let status = LoginStatus::TargetMovedTemporarily;
    for _ in 0..MOST {
        let Some(mut wire) = portal.accept_unless(|| bench.has_ended())? else {
            let (status, printed) = bench.end()?;
            return equal(&printed, status.code(), Some(2));
        };
        refuse(&mut wire, status, &[("TargetAddress", &address)])?;
    }
    Err(Stop::Failed(format!("it has logged in {MOST} times")))
}

fn nowhere() -> Result<(), Stop> {
    let portal = Portal::open()?;
    let bench = Bench::start(&portal, &READS)?;
    refuse(
        &mut portal.accept()?,
        LoginStatus::TargetMovedTemporarily,
        &[],
    )?;
    let (status, printed) = bench.end()?;
    equal(&printed, status.code(), Some(2))
}

fn refused() -> Result<(), Stop> {
    let portal = Portal::open()?;
    let bench = Bench::start(&portal, &READS)?;
    refuse(
        &mut portal.accept()?,
        LoginStatus::AuthorizationFailure,
        &[],
    )?;
    let (status, printed) = bench.end()?;
    equal(&printed, status.code(), Some(2))
}

fn continued_text() -> Result<(), Stop> {
    let portal = Portal::open()?;
    let bench = Bench::start(&portal, &READS)?;
    refuse(&mut portal.accept()?, LoginStatus::NotFound, &[])?;
    // Now it asks which targets there are.
    let mut target = portal.serve(&[])?;
    let discovery = ("SessionType".to_owned(), "Discovery".to_owned());
    require(target.keys.contains(&discovery), || {
        format!("{:?}", target.keys)
    })?;
    let (first, received) = expect_pdu!(target.receive()?, TextRequest)?;
    let asked = pairs_of(&received.data)?;
    equal(
        "text",
        asked,
        vec![("SendTargets".to_owned(), "All".to_owned())],
    )?;
    let text = text_of(&[("TargetName", "iqn.2026-11.net.example:listed")]);
    let (head, tail) = text.split_at(15);
    answer_text(&mut target, &first, head, Some(0x77))?;
    let (second, received) = expect_pdu!(target.receive()?, TextRequest)?;
    require(received.data.is_empty(), || "it is not empty".to_owned())?;
    equal("Target Transfer Tag", second.transfer_tag, 0x77)?;
    equal("task", second.task_tag, first.task_tag)?;
    answer_text(&mut target, &second, tail, None)?;
    if let Header::LogoutRequest(request) = target.receive()?.header {
        target.log_out(request.task_tag)?;
    }
    let (_, printed) = bench.end()?;
    let named = printed.contains("iqn.2026-11.net.example:listed");
    require(named, || printed)
}

/// A part of an answer, with the tag to go on with, or its end.
fn answer_text(
    target: &mut super::fake_target::Target,
    request: &TextRequest,
    text: &[u8],
    more: Option<u32>,
) -> Result<(), Stop> {
    let response = TextResponse {
        final_: more.is_none(),
        continue_: more.is_some(),
        lun: request.lun,
        task_tag: request.task_tag,
        transfer_tag: more.unwrap_or(RESERVED_TAG),
        stat_sn: target.take_stat_sn(),
        exp_cmd_sn: target.exp_cmd_sn,
        max_cmd_sn: target.max_cmd_sn(),
    };
    target.wire.send(response, text)
}

fn logs_out() -> Result<(), Stop> {
    let portal = Portal::open()?;
    let bench = Bench::start(&portal, &READS)?;
    let mut target = portal.serve(&[])?;
    loop {
        let received = target.receive()?;
        match received.header {
            Header::ScsiCommand(command) => target.carry_out(&command)?,
            Header::LogoutRequest(request) => {
                equal("reason", request.reason, LogoutReason::CloseSession)?;
                target.log_out(request.task_tag)?;
                return bench.ends_well();
            }
            other => return Err(Stop::Failed(format!("unexpected {other:?}"))),
        }
    }
}

fn once() -> Result<(), Stop> {
    let portal = Portal::open()?;
    let bench = Bench::start(&portal, &READS)?;
    let mut target = portal.serve(&[])?;
    let mut keys: Vec<&String> = target.keys.iter().map(|(key, _)| key).collect();
    let all = keys.len();
    keys.sort();
    keys.dedup();
    equal("different keys", keys.len(), all)?;
    target.serve_to_the_end()?;
    bench.ends_well()
}
