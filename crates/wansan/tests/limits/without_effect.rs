//! Quick forms of papers without the effect that they are about: their expectations on it must fail then, since
//! one that holds either way proves nothing.

use libtest_mimic::Failed;
use wansan_arms::{Arm, open_to_all};

use super::{MISSED, wansan};

/// A plan without its effect.
pub(super) struct WithoutEffect {
    /// The plan's name in plans/papers.
    pub(super) plan: &'static str,
    /// What is taken away.
    pub(super) effect: &'static str,
    /// Pieces of the plan's text and their replacements: the effect, and the sweep, which shrinks to the cells
    /// that decide.
    changes: &'static [[&'static str; 2]],
    /// Expectations that fail without it: the beginning and the end of each.
    missed: &'static [[&'static str; 2]],
}

pub(super) const WITHOUT_EFFECT: [WithoutEffect; 6] = [
    WithoutEffect {
        plan: "p5-table5.1",
        effect: "HighSpeed TCP",
        changes: &[
            ["wansan_hstcp", "reno"],
            [
                r#"sweep.path.wan.delay = ["5ms", "40ms"]"#,
                r#"sweep.path.wan.delay = ["40ms"]"#,
            ],
        ],
        missed: &[["cells.bytes_per_s", "is at least 1.5"]],
    },
    WithoutEffect {
        plan: "p5-fairness",
        effect: "HighSpeed TCP behind the relay",
        changes: &[[
            r#"out = { congestion_control = "wansan_hstcp" }"#,
            r#"out = { congestion_control = "wansan_reno" }"#,
        ]],
        missed: &[["cells.streams.one.bytes_per_s", "is at least 1.32"]],
    },
    WithoutEffect {
        plan: "relay-latency",
        effect: "a law",
        changes: &[
            [
                r#"law = "arrival", relay.relay.latency = "20ms""#,
                r#"law = "none""#,
            ],
            ["[quick]", "[quick]\nsweep.case = [\"ours\"]"],
        ],
        missed: &[["cells.relays.relay.backlog_p99_ns", "is at most 30000000"]],
    },
    WithoutEffect {
        plan: "relay-latency",
        effect: "ECN",
        changes: &[
            ["ecn = true", "ecn = false"],
            ["[quick]", "[quick]\nsweep.case = [\"ours\"]"],
        ],
        missed: &[
            ["cells.relays.relay.ece_signals", "is at least 1"],
            ["cells.relays.relay.backlog_mean_ns", "is at most 14000000"],
        ],
    },
    WithoutEffect {
        plan: "p1-fig16",
        effect: "a second route",
        changes: &[
            [
                r#"routes = ["upper", "lower"]
schedule"#,
                r#"routes = ["upper"]
connections = 2
schedule"#,
            ],
            [
                r#"sweep.path.lower.delay = ["2ms", "8ms"]"#,
                r#"sweep.path.lower.delay = ["8ms"]"#,
            ],
        ],
        missed: &[["cells.bytes_per_s", "is at most 1.25"]],
    },
    WithoutEffect {
        plan: "relay-iscsi",
        effect: "HighSpeed TCP behind the relay",
        changes: &[
            [
                r#"out = { congestion_control = "wansan_hstcp" }"#,
                r#"out = { congestion_control = "wansan_reno" }"#,
            ],
            [
                r#"sweep.path.wan.loss = ["0%", "0.01%"]"#,
                r#"sweep.path.wan.loss = ["0.01%"]"#,
            ],
        ],
        missed: &[["cells.bytes_per_s", "is at least 1.2"]],
    },
];

impl WithoutEffect {
    /// Runs the quick form of the plan in `text` without the effect, and requires that it fails by it.
    pub(super) fn fails(&self, text: &str, arm: Arm) -> Result<(), Failed> {
        let mut text = text.to_owned();
        for [from, to] in self.changes {
            if !text.contains(from) {
                return Err(format!("the plan has no `{from}` any more").into());
            }
            text = text.replace(from, to);
        }
        let scratch = tempfile::tempdir()?;
        let plan = scratch.path().join("without-effect.toml");
        std::fs::write(&plan, text)?;
        open_to_all(scratch.path())?;
        let output = wansan(arm)
            .args(["lab", "run", "--quick"])
            .arg(&plan)
            .arg("--out")
            .arg(scratch.path().join("runs"))
            .output()?;
        let printed = [&output.stdout[..], &output.stderr[..]].concat();
        let printed = String::from_utf8_lossy(&printed);
        let failed = |[begin, end]: &[&str; 2]| {
            let mut missed = printed.lines().filter_map(|line| line.strip_prefix(MISSED));
            missed.any(|missed| missed.starts_with(begin) && missed.contains(&format!("{end} (")))
        };
        if output.status.code() == Some(1) && self.missed.iter().all(failed) {
            return Ok(());
        }
        Err(format!("it holds without {} all the same:\n{printed}", self.effect).into())
    }
}
