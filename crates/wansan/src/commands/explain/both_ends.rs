//! Explains two captures taken at both ends of one path.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use serde::Serialize;
use wansan_insight::both_ends::{BothEnds, PassedIo, join};
use wansan_insight::capture::{Capture, read_parts};

use super::parts;
use crate::commands::{print_json, print_text};

/// The output of `--json`.
#[derive(Serialize)]
struct Explanation {
    both_ends: BothEnds,
    /// The initiator's end and the target's.
    ends: [Seen; 2],
}

/// What one capture shows alone.
#[derive(Serialize)]
struct Seen {
    capture: PathBuf,
    finding: String,
}

/// Explains two captures together, given in any order.
///
/// # Errors
/// There are not exactly two, one is not a capture, or they have no I/O in common.
pub(super) fn explain(files: &[PathBuf], json: bool) -> Result<ExitCode> {
    let [one, other] = files else {
        bail!("--both-ends takes two captures, one of each end");
    };
    let (first, of_first) = read(one)?;
    let (second, of_second) = read(other)?;
    let Some(both_ends) = join(&of_first, &of_second) else {
        bail!(
            "{} and {} have no I/O in common: were they taken at the same time, and without address translation in between?",
            one.display(),
            other.display()
        );
    };
    let explanation = Explanation {
        ends: match both_ends.is_turned {
            true => [second, first],
            false => [first, second],
        },
        both_ends,
    };
    if json {
        print_json(&serde_json::to_string_pretty(&explanation)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    print_text(|out| {
        for (end, name) in explanation.ends.iter().zip(["initiator", "target"]) {
            let (capture, finding) = (end.capture.display(), &end.finding);
            writeln!(out, "{capture}, at the {name}'s end:\n  {finding}\n")?;
        }
        let both = &explanation.both_ends;
        writeln!(out, "{}", both.sentence())?;
        writeln!(
            out,
            "The clock at the target's end is {:.6} s ahead, and gains {:.0} ns a second.",
            both.ahead_ns as f64 / 1e9,
            both.drift_ppb
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

fn read(file: &Path) -> Result<(Seen, Vec<PassedIo>)> {
    let mut read = parts::Read::default();
    let mut ios = Vec::new();
    let mut take = |capture: Capture| {
        read.take(&capture);
        ios.extend(capture.passed_ios());
    };
    read_parts(&[file.to_owned()], &mut take)?;
    let seen = Seen {
        capture: file.to_owned(),
        finding: parts::finding_of(&read.parts),
    };
    Ok((seen, ios))
}
