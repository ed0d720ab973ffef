//! What the standard asks of an initiator, of ours: `wansan bench` against targets that a test
//! plays.

mod fake_target;
mod flow;
mod login;
mod messages;

use libtest_mimic::Trial;
use wansan_peers::trial::{Stop, trial};

/// A rule, and the play that shows whether our initiator keeps it.
#[derive(Debug, Clone, Copy)]
struct Play {
    name: &'static str,
    rule: &'static str,
    body: fn() -> Result<(), Stop>,
}

impl Play {
    /// `rule` quotes or tells what RFC 7143 says, with its section.
    const fn new(name: &'static str, rule: &'static str, body: fn() -> Result<(), Stop>) -> Self {
        Play { name, rule, body }
    }

    fn run(self) -> Result<(), Stop> {
        (self.body)().map_err(|stop| match stop {
            Stop::Failed(what) => Stop::Failed(format!("{what}\nRFC 7143 {}", self.rule)),
            stop => stop,
        })
    }
}

pub(crate) fn trials() -> Vec<Trial> {
    let chapters = [&login::PLAYS[..], &flow::PLAYS, &messages::PLAYS];
    let plays = chapters.into_iter().flatten();
    plays
        .map(|&play| trial(format!("initiator::{}", play.name), move || play.run()))
        .collect()
}
