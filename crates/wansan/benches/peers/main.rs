//! wansan beside other implementations of iSCSI, and beside what the kernel allows: both sides of
//! each comparison in turns in one run, and their ratio beside its bound.
//!
//! `cargo bench -p wansan --bench peers -- [--json] [QUESTION...]`
//!
//! A bound that is missed is reported and does not fail the run; what could not be measured does.

mod echo;
mod questions;

use std::process::ExitCode;

use serde_json::json;
use wansan_peers::process::PeerError;

use questions::{QUESTIONS, Question};

fn main() -> ExitCode {
    // cargo itself adds --bench.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    if arguments
        .iter()
        .any(|argument| argument == echo::SERVER_ARGUMENT)
    {
        return match echo::serve() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("echo pair: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let (options, names): (Vec<_>, Vec<_>) = arguments
        .iter()
        .map(String::as_str)
        .partition(|argument| argument.starts_with("--"));
    let known = QUESTIONS.map(|question| question.name);
    let wrong = options.iter().find(|option| **option != "--json");
    if let Some(wrong) = wrong.or_else(|| names.iter().find(|name| !known.contains(name))) {
        eprintln!("{wrong}: expected --json, or one of: {}", known.join(" "));
        return ExitCode::from(2);
    }
    ask(&names, !options.is_empty())
}

fn ask(names: &[&str], as_json: bool) -> ExitCode {
    let chosen = QUESTIONS
        .iter()
        .filter(|question| names.is_empty() || names.contains(&question.name));
    let mut failed = false;
    for Question { name, measure } in chosen {
        match measure() {
            Ok(comparisons) if as_json => {
                comparisons
                    .iter()
                    .for_each(|comparison| println!("{}", comparison.json()));
            }
            Ok(comparisons) => {
                comparisons
                    .iter()
                    .for_each(|comparison| println!("{}\n", comparison.text()));
            }
            Err(PeerError::Missing(missing)) if as_json => {
                println!(
                    "{}",
                    json!({"question": name, "not_run": missing.to_string()})
                );
            }
            Err(PeerError::Missing(missing)) => println!("{name}: not run: {missing}\n"),
            Err(error) => {
                failed = true;
                eprintln!("{name}: {error}\n");
            }
        }
    }
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
