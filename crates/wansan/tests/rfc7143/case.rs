//! A test of the suite: what the standard says, who can be asked, and what is asked.

use libtest_mimic::Trial;
use wansan_peers::trial::{Stop, trial};

use crate::peer::{Kind, Peer};

/// What is known of a peer before it is asked.
#[derive(Debug, Clone, Copy)]
enum Known {
    /// It does as the standard says.
    Conforms,
    /// It does not: this is what is seen of it, and the test fails when anything else is.
    Deviates(&'static str),
    /// It lacks what the test is about.
    Lacks(&'static str),
}

/// One rule of RFC 7143, and how to see whether a target keeps it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    name: &'static str,
    rule: &'static str,
    body: fn(&Peer) -> Result<(), Stop>,
    tgtd: Known,
}

impl Case {
    /// `rule` quotes or tells what the standard says, with its section.
    pub(crate) const fn new(
        name: &'static str,
        rule: &'static str,
        body: fn(&Peer) -> Result<(), Stop>,
    ) -> Self {
        Case {
            name,
            rule,
            body,
            tgtd: Known::Conforms,
        }
    }

    /// tgtd is known to break the rule: `seen` is part of what the test then says.
    pub(crate) const fn tgtd_deviates(mut self, seen: &'static str) -> Self {
        self.tgtd = Known::Deviates(seen);
        self
    }

    /// tgtd has nothing that the test could ask: why.
    pub(crate) const fn tgtd_lacks(mut self, what: &'static str) -> Self {
        self.tgtd = Known::Lacks(what);
        self
    }

    fn run(self, kind: Kind) -> Result<(), Stop> {
        let known = match kind {
            Kind::Ours => Known::Conforms,
            Kind::Tgtd => self.tgtd,
        };
        let ask = |deviates| Peer::start(kind, deviates).and_then(|peer| (self.body)(&peer));
        match known {
            Known::Lacks(what) => Err(Stop::NotRun(what.to_owned())),
            Known::Conforms => ask(false).map_err(|stop| match stop {
                Stop::Failed(what) => Stop::Failed(format!("{what}\nRFC 7143 {}", self.rule)),
                stop => stop,
            }),
            Known::Deviates(seen) => match ask(true) {
                Ok(()) => Err(Stop::Failed(format!(
                    "it does as the standard says; it was known for: {seen}"
                ))),
                Err(Stop::Failed(what)) if what.contains(seen) => Ok(()),
                Err(Stop::Failed(what)) => Err(Stop::Failed(format!(
                    "{what}\nit was known for something else: {seen}"
                ))),
                Err(stop) => Err(stop),
            },
        }
    }
}

/// The tests of a chapter: each case with each peer.
pub(crate) fn trials(chapter: &str, cases: &[Case]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for &case in cases {
        for kind in [Kind::Ours, Kind::Tgtd] {
            let peer = match (kind, case.tgtd) {
                (Kind::Ours, _) => "wansan",
                (Kind::Tgtd, Known::Deviates(_)) => "tgtd_deviates",
                (Kind::Tgtd, _) => "tgtd",
            };
            let name = format!("{chapter}::{}::{peer}", case.name);
            trials.push(trial(name, move || case.run(kind)));
        }
    }
    trials
}
