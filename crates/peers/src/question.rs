//! What a benchmark asks: questions that are chosen by name, and their answers for people or as data.

use std::process::ExitCode;

use serde_json::json;

use crate::compare::Comparison;
use crate::process::PeerError;

/// A question by its short name.
pub struct Question {
    /// The short name, by which it is chosen.
    pub name: &'static str,
    /// Measures it. One measurement may answer several questions.
    pub measure: fn() -> Result<Vec<Comparison>, PeerError>,
}

/// Asks those of `questions` that `arguments` name, or all, and prints the answers: lines of JSON after
/// `--json`.
///
/// A bound that is missed is reported and does not fail the run; what could not be measured does.
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
    match (question.measure)() {
        Ok(comparisons) => {
            for comparison in comparisons {
                match as_json {
                    true => println!("{}", comparison.json()),
                    false => println!("{}\n", comparison.text()),
                }
            }
        }
        Err(PeerError::Missing(missing)) if as_json => {
            let reason = missing.to_string();
            println!("{}", json!({"question": name, "not_run": reason}));
        }
        Err(PeerError::Missing(missing)) => println!("{name}: not run: {missing}\n"),
        Err(error) => return Err(error),
    }
    Ok(())
}
