//! wansan on a long path, beside tgtd and libiscsi and beside a bare TCP stream: two network
//! namespaces and an emulated path of 50 ms there and back; and over two unequal routes, beside MPTCP. Needs no root.
//!
//! `cargo bench -p wansan --bench long_path -- [--json] [QUESTION...]`
//!
//! Without questions, all but `attached`, which takes three minutes.
//!
//! A bound that is missed, or cannot be measured on a machine that does other things, is reported and does not
//! fail the run.

mod answer;
mod attached;
mod client;
mod disk;
mod questions;
mod session;
mod stream;
mod unequal;
mod world;

use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::json;
use wansan_lab::world::isolate;
use wansan_peers::machine::Machine;
use wansan_peers::process::PeerError;
use wansan_peers::verdict::Verdict;

use disk::Disks;
use questions::{QUESTIONS, Question, Stage};
use world::LongPath;

/// The one congestion control that every kernel lets a namespace have as its default, so that all
/// programs use the same, the foreign ones too. Its slow start has no early end, and its window
/// stays above the bandwidth-delay product once it has been there, so what is measured is not luck.
const CONGESTION_CONTROL: &str = "reno";

fn main() -> ExitCode {
    // cargo itself adds --bench.
    let arguments = std::env::args().skip(1).filter(|a| a != "--bench");
    let (options, names): (Vec<_>, Vec<_>) =
        arguments.partition(|argument| argument.starts_with("--"));
    match ask(&options, &names) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("long path: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Asks the questions of these names, or all; says whether all could be measured.
fn ask(options: &[String], names: &[String]) -> Result<bool> {
    let known = QUESTIONS.map(|question| question.name);
    if let Some(wrong) = options.iter().find(|option| *option != "--json") {
        bail!("{wrong}: expected --json");
    }
    if let Some(wrong) = names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("{wrong}: expected one of: {}", known.join(" "));
    }
    let as_json = !options.is_empty();
    isolate()?;
    let path = LongPath::build(CONGESTION_CONTROL)?;
    let disks = Disks::start(path.storage())?;
    let stage = Stage { path, disks };
    if !as_json {
        println!("long path: {}", LongPath::text(CONGESTION_CONTROL));
    }
    let mut all = true;
    let chosen = QUESTIONS.iter().filter(|question| match names.is_empty() {
        true => !question.on_request,
        false => names.iter().any(|name| name == question.name),
    });
    for Question { name, measure, .. } in chosen {
        if !as_json {
            println!("{name} ...");
        }
        let lost_before = stage.path.lost_frames();
        let machine = Machine::watch();
        let measured = measure(&stage);
        // TCP takes frames for congestion that this machine loses and the path would have carried.
        let lost = stage.path.lost_frames() - lost_before;
        let lost = (lost > 0).then(|| format!("the machine lost {lost} frames"));
        let disturbance = lost.or_else(|| machine.disturbance());
        let error = match measured {
            Ok(answers) => {
                for answer in answers {
                    let verdict = answer.judge(disturbance.as_deref());
                    match as_json {
                        true => println!("{}", answer.json(&verdict)),
                        false => println!("  {}", answer.text(&verdict)),
                    }
                }
                continue;
            }
            Err(error) => error,
        };
        let verdict = match error.downcast_ref::<PeerError>() {
            Some(error) => Verdict::of_error(error, disturbance),
            None => disturbance.map(|by| Verdict::NotMeasurable(format!("{by}: {error:#}"))),
        };
        match verdict {
            Some(verdict) => {
                verdict.record(name, "");
                match as_json {
                    true => println!(
                        "{}",
                        json!({"question": name, "verdict": verdict.to_string()})
                    ),
                    false => println!("  {name}: {verdict}"),
                }
            }
            None => {
                all = false;
                eprintln!("{name}: {error:#}");
            }
        }
    }
    Ok(all)
}
