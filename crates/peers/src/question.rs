//! The questions that a benchmark measures, selectable by name, with answers as text or JSON.

use std::process::ExitCode;

use serde_json::json;

use crate::compare::Comparison;
use crate::machine::Machine;
use crate::process::PeerError;
use crate::verdict::Verdict;

/// A question with a short name.
pub struct Question {
    /// The short name that selects it.
    pub name: &'static str,
    /// Measures it. One measurement may answer several questions.
    pub measure: fn() -> Result<Vec<Comparison>, PeerError>,
}

/// Measures those of `questions` that `arguments` name, or all, and prints the answers: lines of JSON after `--json`.
///
/// A bound that is missed, or not measurable on a busy machine, is reported and does not fail the run; a program's
/// failure on a quiet machine does.
pub fn ask(arguments: &[String], questions: &[Question]) -> ExitCode {
    let (options, names): (Vec<_>, Vec<_>) = arguments
        .iter()
        .map(String::as_str)
        .partition(|argument| argument.starts_with("--"));
    let known: Vec<&str> = questions.iter().map(|question| question.name).collect();
    let wrong = options.iter().find(|option| **option != "--json");
    if let Some(wrong) = wrong.or_else(|| names.iter().find(|name| !known.contains(name))) {
        eprintln!("{wrong}: expected --json, or one of: {}", known.join(" "));
        return ExitCode::from(2);
    }
    let chosen = questions
        .iter()
        .filter(|question| names.is_empty() || names.contains(&question.name));
    let mut status = ExitCode::SUCCESS;
    for question in chosen {
        if let Err(error) = answer(question, !options.is_empty()) {
            status = ExitCode::FAILURE;
            eprintln!("{}: {error}\n", question.name);
        }
    }
    status
}

fn answer(question: &Question, as_json: bool) -> Result<(), PeerError> {
    let name = question.name;
    if !as_json {
        println!("{name} ...");
    }
    let machine = Machine::watch();
    let measured = (question.measure)();
    let disturbance = machine.disturbance();
    match measured {
        Ok(comparisons) => {
            for comparison in comparisons {
                let verdict = comparison.judge(disturbance.as_deref());
                match as_json {
                    true => println!("{}", comparison.json(&verdict)),
                    false => println!("{}\n", comparison.text(&verdict)),
                }
            }
        }
        Err(error) => {
            let verdict = Verdict::of_error(&error, disturbance).ok_or(error)?;
            verdict.record(name, "");
            match as_json {
                true => println!(
                    "{}",
                    json!({"question": name, "verdict": verdict.to_string()})
                ),
                false => println!("{name}: {verdict}\n"),
            }
        }
    }
    Ok(())
}
