//! A session in place of one of the same I_T nexus (RFC 7143 §6.3.5): what stores still do for the
//! old one is over before they do anything for the new one.
//!
//! The old session has a slow unit copied to a fast one, which takes two seconds, and ends at once;
//! the new one writes to the same blocks of the fast unit, which takes no time.

use libtest_mimic::Trial;
use wansan_iscsi::wire::{LogoutReason, LogoutResult};
use wansan_peers::trial::Stop;

use crate::case::{self, Case};
use crate::client::{Client, LEAD, Login, new_isid};
use crate::peer::Peer;
use crate::slow_copy::{KEYS, NOT_SLOW, SlowCopy};
use crate::wire::equal;

const CASES: [Case; 4] = [
    Case::new(
        "nothing_of_a_session_that_was_cut_comes_late",
        "§6.3.5: with the new session, the old one and its tasks are gone",
        |peer| late_write(peer, End::Cut),
    )
    .tgtd_lacks(NOT_SLOW),
    Case::new(
        "nothing_of_a_session_that_lived_comes_late",
        "§6.3.5: a login with the ISID of a session is an implicit logout of that one",
        |peer| late_write(peer, End::Replaced),
    )
    .tgtd_lacks(NOT_SLOW),
    Case::new(
        "nothing_of_a_session_that_logged_out_comes_late",
        "§11.14: \"the target MUST terminate all pending commands\" of a session that logs out",
        |peer| late_write(peer, End::LoggedOut),
    )
    .tgtd_lacks(NOT_SLOW),
    Case::new(
        "a_host_that_comes_back_with_another_isid_meets_no_late_write",
        "§6.3.5 ends the old session only for the same ISID; a host that restarts may choose another one",
        |peer| late_write(peer, End::OtherIsid),
    )
    .tgtd_lacks(NOT_SLOW),
];

pub(crate) fn trials() -> Vec<Trial> {
    case::trials("reinstatement", &CASES)
}

/// How the old session ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Cut,
    Replaced,
    LoggedOut,
    OtherIsid,
}

fn late_write(peer: &Peer, end: End) -> Result<(), Stop> {
    let mut old = Client::log_in(peer, KEYS)?;
    let copy = SlowCopy::start(&mut old)?;
    match end {
        End::Cut | End::OtherIsid => old.connections[LEAD].wire.drop_connection(),
        End::Replaced => {}
        End::LoggedOut => {
            let response = old.log_out(LEAD, LogoutReason::CloseSession, 0)?;
            equal("response", response.response, LogoutResult::Closed)?;
        }
    }

    let mut login = Login::connect(peer)?;
    login.request.isid = match end {
        End::OtherIsid => new_isid(),
        End::Cut | End::Replaced | End::LoggedOut => old.isid,
    };
    let mut new = login.finish(KEYS)?;
    new.settle()?;
    copy.lands_before_writes_of(&mut new)
}
