//! Negotiation of keys (RFC 7143 §6.1, §6.2, §13).

use libtest_mimic::Trial;
use wansan_iscsi::wire::Stage;
use wansan_peers::trial::{Stop, require};

use crate::case::{self, Case};
use crate::client::{Answer, Client, INITIATOR_NAME, LEAD, Login};
use crate::peer::Peer;
use crate::wire::equal;

const CASES: [Case; 32] = [
    Case::new(
        "initial_r2t_is_yes_if_either_says_so",
        "§13.10: \"Result function is OR\"",
        |peer| settles(peer, "InitialR2T", "Yes", |value| value == "Yes"),
    ),
    Case::new(
        "immediate_data_is_no_if_either_says_so",
        "§13.11: \"Result function is AND\"",
        |peer| settles(peer, "ImmediateData", "No", |value| value == "No"),
    ),
    Case::new(
        "data_pdus_are_in_order_if_either_says_so",
        "§13.18: \"Result function is OR\"",
        |peer| settles(peer, "DataPDUInOrder", "Yes", |value| value == "Yes"),
    ),
    Case::new(
        "data_sequences_are_in_order_if_either_says_so",
        "§13.19: \"Result function is OR\"",
        |peer| settles(peer, "DataSequenceInOrder", "Yes", |value| value == "Yes"),
    ),
    Case::new(
        "max_burst_is_the_smaller",
        "§13.13: \"Result function is Minimum\"",
        |peer| {
            settles(peer, "MaxBurstLength", "12288", |value| {
                at_most(value, 12_288)
            })
        },
    ),
    Case::new(
        "first_burst_is_the_smaller",
        "§13.14: \"Result function is Minimum\"",
        |peer| {
            settles(peer, "FirstBurstLength", "4096", |value| {
                at_most(value, 4096)
            })
        },
    ),
    Case::new(
        "outstanding_r2ts_are_the_fewer",
        "§13.17: \"Result function is Minimum\"",
        |peer| settles(peer, "MaxOutstandingR2T", "2", |value| at_most(value, 2)),
    ),
    Case::new(
        "connections_are_the_fewer",
        "§13.2: \"Result function is Minimum\"",
        |peer| settles(peer, "MaxConnections", "2", |value| at_most(value, 2)),
    ),
    Case::new(
        "the_recovery_level_is_the_lower",
        "§13.20: \"Result function is Minimum\"",
        |peer| settles(peer, "ErrorRecoveryLevel", "0", |value| value == "0"),
    ),
    Case::new(
        "time_to_wait_is_the_longer",
        "§13.15: \"Result function is Maximum\"",
        |peer| settles(peer, "DefaultTime2Wait", "7", |value| at_least(value, 7)),
    ),
    Case::new(
        "time_to_retain_is_the_shorter",
        "§13.16: \"Result function is Minimum\"",
        |peer| settles(peer, "DefaultTime2Retain", "3", |value| at_most(value, 3)),
    ),
    Case::new(
        "the_first_digest_that_both_have_is_taken",
        "§6.2.1: the acceptor answers \"with the first value that it supports and is allowed to use\"",
        |peer| {
            settles(peer, "HeaderDigest", "CRC32C,None", |value| {
                value == "CRC32C"
            })
        },
    ),
    Case::new(
        "a_list_of_one_leaves_no_choice",
        "§6.2.1: the answer is one of the values offered",
        |peer| settles(peer, "DataDigest", "None", |value| value == "None"),
    ),
    Case::new(
        "unknown_values_of_a_list_are_passed_over",
        "§6.2.1: values that the acceptor does not understand are skipped; §13.1 allows extensions",
        |peer| {
            let offer = "Z-net.example.sum,None";
            settles(peer, "HeaderDigest", offer, |value| value == "None")
        },
    )
    .tgtd_deviates("Some(\"CRC32C\")"),
    Case::new(
        "a_list_without_a_known_value_is_rejected",
        "§6.2.1: with no common value \"the constant Reject\" is the answer",
        no_common_digest,
    )
    .tgtd_deviates("Some(\"CRC32C\")"),
    Case::new(
        "numbers_may_be_hexadecimal",
        "§6.1: a hex-constant is a numerical value as good as a decimal one",
        |peer| {
            settles(peer, "MaxBurstLength", "0x2000", |value| {
                ["0x2000", "0X2000", "8192"].contains(&value)
            })
        },
    ),
    Case::new(
        "an_unknown_key_is_not_understood",
        "§6.2: \"Any key not understood by the acceptor … MUST be answered NotUnderstood\"",
        |peer| {
            let key = "X-net.example.colour";
            settles(peer, key, "blue", |value| value == "NotUnderstood")
        },
    ),
    Case::new(
        "every_unknown_key_is_answered",
        "§6.2: each key that needs an answer gets one, in the same negotiation sequence",
        many_unknown,
    ),
    Case::new(
        "a_key_name_may_have_63_characters",
        "§6.1: a standard-label is \"up to 63 characters long\"",
        longest_key,
    ),
    Case::new(
        "key_names_tell_case_apart",
        "§6.1: \"Key names are case sensitive\"",
        |peer| {
            settles(peer, "maxburstlength", "8192", |value| {
                value == "NotUnderstood"
            })
        },
    )
    .tgtd_deviates("Some(\"8192\")"),
    Case::new(
        "a_value_out_of_range_is_not_taken",
        "§6.2.2: \"Reject\" or a value of the range; §13.13: MaxBurstLength is 512 to 2^24-1",
        out_of_range,
    ),
    Case::new(
        "a_boolean_is_yes_or_no",
        "§6.1: \"Yes\" and \"No\" are the only values; §6.2.2: anything else is rejected",
        not_boolean,
    ),
    Case::new(
        "a_key_is_negotiated_once",
        "§6.2: a key renegotiated in one sequence is a protocol error, and the login fails",
        twice,
    )
    .tgtd_deviates("Status-Class is 0"),
    Case::new(
        "a_declared_key_has_no_answer",
        "§6.2: declarative keys such as MaxRecvDataSegmentLength are not answered, but declared by each",
        declared,
    ),
    Case::new(
        "the_portal_group_comes_with_the_first_response",
        "§13.9: TargetPortalGroupTag MUST be in the first Login Response of a normal session",
        portal_group,
    ),
    Case::new(
        "markers_are_rejected",
        "§13.25: the obsolete OFMarker and IFMarker keys are answered with Reject",
        |peer| settles(peer, "OFMarker", "Yes", |value| value == "Reject"),
    )
    .tgtd_deviates("Some(\"No\")"),
    Case::new(
        "a_task_reporting_that_is_not_offered_is_not_chosen",
        "§13.23: TaskReporting is a list; RFC3720 is what every target does",
        |peer| {
            settles(peer, "TaskReporting", "FastAbort,RFC3720", |value| {
                ["RFC3720", "FastAbort"].contains(&value)
            })
        },
    )
    .tgtd_deviates("Some(\"NotUnderstood\")"),
    Case::new(
        "the_protocol_level_is_the_lower",
        "§13.24: iSCSIProtocolLevel, \"Result function is Minimum\"",
        |peer| settles(peer, "iSCSIProtocolLevel", "1", |value| at_most(value, 1)),
    )
    .tgtd_deviates("Some(\"NotUnderstood\")"),
    Case::new(
        "what_makes_no_sense_in_discovery_is_irrelevant",
        "§13.17: MaxOutstandingR2T is \"Irrelevant when: SessionType=Discovery\"",
        irrelevant,
    ),
    Case::new(
        "first_burst_does_not_matter_without_unsolicited_data",
        "§13.14: \"Irrelevant when: InitialR2T=Yes and ImmediateData=No\"",
        no_first_burst,
    ),
    Case::new(
        "the_shortest_segments_are_kept_to",
        "§13.12: no data segment is longer than the MaxRecvDataSegmentLength of its receiver",
        shortest_segments,
    ),
    Case::new(
        "the_shortest_bursts_are_kept_to",
        "§13.13, §13.14: 512 is the least value of both",
        shortest_bursts,
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    case::trials("negotiation", &CASES)
}

/// The numbers of a negotiation may come as decimal or hexadecimal.
fn number(value: &str) -> Option<u64> {
    let hex = value
        .strip_prefix("0x")
        .or_else(|| value.strip_prefix("0X"));
    match hex {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => value.parse().ok(),
    }
}

fn at_most(value: &str, most: u64) -> bool {
    number(value).is_some_and(|value| value <= most)
}

fn at_least(value: &str, least: u64) -> bool {
    number(value).is_some_and(|value| value >= least)
}

/// Offers a key; fails unless it is answered with what is `right`, and the session then works.
fn settles(peer: &Peer, key: &str, offer: &str, right: fn(&str) -> bool) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let answer = login.begin(&[(key, offer)])?.accepted()?;
    let value = answer.value(key).map(str::to_owned);
    require(value.as_deref().is_some_and(right), || {
        format!("{key}={offer} is answered with {value:?}")
    })?;
    let last = login.lead_on(answer)?;
    login.into_client(&last).ping(LEAD)?;
    Ok(())
}

/// Offers a key that can only be refused: with Reject, or by failing the login.
fn refuses(peer: &Peer, key: &str, offer: &str, chosen: fn(&str) -> bool) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let answer = login.begin(&[(key, offer)])?;
    if answer.response.status.class() == 2 {
        return Ok(());
    }
    let value = answer.value(key);
    let fits = value == Some("Reject") || value.is_some_and(chosen);
    require(fits, || format!("{key}={offer} is answered with {value:?}"))
}

fn no_common_digest(peer: &Peer) -> Result<(), Stop> {
    refuses(peer, "HeaderDigest", "Z-net.example.sum", |_| false)
}

fn out_of_range(peer: &Peer) -> Result<(), Stop> {
    refuses(peer, "MaxBurstLength", "100", |value| {
        number(value).is_some_and(|value| (512..1 << 24).contains(&value))
    })
}

fn not_boolean(peer: &Peer) -> Result<(), Stop> {
    refuses(peer, "ImmediateData", "Maybe", |value| {
        ["Yes", "No"].contains(&value)
    })
}

fn many_unknown(peer: &Peer) -> Result<(), Stop> {
    let keys = ["X-net.example.a", "Zebra", "X-net.example.b"];
    let mut login = Login::connect(peer)?;
    let answer = login.begin(&keys.map(|key| (key, "1")))?.accepted()?;
    for key in keys {
        equal(key, answer.value(key), Some("NotUnderstood"))?;
    }
    Ok(())
}

fn longest_key(peer: &Peer) -> Result<(), Stop> {
    let key = format!("X-{}", "k".repeat(61));
    let mut login = Login::connect(peer)?;
    let answer = login.begin(&[(&key, "1")])?.accepted()?;
    equal(&key, answer.value(&key), Some("NotUnderstood"))
}

fn twice(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let names = [&login.names()[..], &[("MaxBurstLength", "65536")]].concat();
    let stage = Stage::OperationalNegotiation;
    login.ask_in(stage, None, &names)?.accepted()?;
    let again = login.ask_in(stage, None, &[("MaxBurstLength", "32768")])?;
    equal("Status-Class", again.response.status.class(), 2)
}

fn declared(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let answer = login.begin(&[("MaxRecvDataSegmentLength", "3000")])?;
    let value = answer
        .accepted()?
        .value("MaxRecvDataSegmentLength")
        .map(str::to_owned);
    // What comes is the target's own declaration, which no rule ties to ours.
    let fits = value.as_deref().is_none_or(|value| at_least(value, 512));
    require(fits, || format!("it declares {value:?}"))
}

fn portal_group(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let answer = login.begin(&[])?.accepted()?;
    let tag = answer.value("TargetPortalGroupTag");
    let fits = tag.is_some_and(|tag| at_most(tag, 65_535));
    require(fits, || format!("TargetPortalGroupTag is {tag:?}"))
}

fn irrelevant(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let answer = login.ask(&[
        ("InitiatorName", INITIATOR_NAME),
        ("SessionType", "Discovery"),
        ("MaxOutstandingR2T", "4"),
    ])?;
    irrelevant_or(&answer.accepted()?, "MaxOutstandingR2T", 4)
}

fn no_first_burst(peer: &Peer) -> Result<(), Stop> {
    let mut login = Login::connect(peer)?;
    let answer = login.begin(&[
        ("InitialR2T", "Yes"),
        ("ImmediateData", "No"),
        ("FirstBurstLength", "4096"),
    ])?;
    irrelevant_or(&answer.accepted()?, "FirstBurstLength", 4096)
}

/// Fails unless the key is answered with Irrelevant, or negotiated as ever, which does no harm.
fn irrelevant_or(answer: &Answer, key: &str, most: u64) -> Result<(), Stop> {
    let value = answer.value(key);
    let fits = value.is_some_and(|value| value == "Irrelevant" || at_most(value, most));
    require(fits, || format!("{key} is answered with {value:?}"))
}

fn shortest_segments(peer: &Peer) -> Result<(), Stop> {
    let mut client = Client::log_in(peer, &[("MaxRecvDataSegmentLength", "512")])?;
    // The receiver of the client takes no longer segment.
    let (data, pdus) = client.read(LEAD, 0, 8)?;
    equal("bytes read", data.len(), 4096)?;
    equal("Data-In PDUs", pdus.len(), 8)
}

fn shortest_bursts(peer: &Peer) -> Result<(), Stop> {
    let bursts = [
        ("MaxBurstLength", "512"),
        ("FirstBurstLength", "512"),
        ("InitialR2T", "Yes"),
        ("ImmediateData", "No"),
    ];
    let mut client = Client::log_in(peer, &bursts)?;
    let data = crate::client::distinct(2048, 1);
    let r2ts = client.write(LEAD, 0, &data)?;
    equal("R2Ts", r2ts.len(), 4)?;
    client.holds(LEAD, 0, &data)
}
