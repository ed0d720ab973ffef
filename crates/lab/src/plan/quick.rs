//! The quick form of a plan: the same experiment with fewer cells in less time.

use toml::Value;

use super::PlanError;
use super::document::{self, Document};
use super::parameter::flatten;
use super::sweep;
use wansan_mistake::Mistake;

/// Prefix of mistakes in it.
const PLACE: &str = "[quick]";
/// The key in `[quick]` that replaces lists of the sweep.
const SWEEP: &str = "sweep";
/// Tables that the quick form does not change: it is judged by the plan's expectations.
const FIXED: [&str; 4] = ["case", "expect", "paper", "quick"];

/// The document of the quick form.
pub(super) fn document(planned: &Document) -> Result<Document, Mistake> {
    let quick = &planned.quick;
    if quick.is_empty() {
        return Err(Mistake::new(
            "the plan has no quick form: say in [quick] what is set instead, such as \
             `workload.time = \"500ms\"`",
        ));
    }
    if let Some(key) = FIXED.iter().find(|key| quick.contains_key(**key)) {
        return Err(within(Mistake::new(format!("`{key}` cannot be changed"))));
    }
    let mut table = document::to_table(planned)?;
    let mut settings = quick.clone();
    match settings.remove(SWEEP) {
        None => {}
        Some(Value::Table(lists)) => {
            let sweep = sweep::replaced(&planned.sweep, &lists).map_err(within)?;
            table.insert(SWEEP.to_owned(), Value::Table(sweep));
        }
        Some(other) => {
            let mistake = format!("`sweep` is {}: name an axis", other.type_str());
            return Err(within(Mistake::new(mistake)));
        }
    }
    for (parameter, value) in flatten(&settings) {
        parameter.set(&mut table, value).map_err(within)?;
    }
    table.remove("quick");
    document::from_table(&table).map_err(within)
}

/// Moves a mistake in the quick form, which is a whole plan of its own, to the line of the key in `[quick]` that it
/// names, or to the table's first line.
pub(super) fn located(error: PlanError, text: &str) -> PlanError {
    if error.line.is_some() {
        return error;
    }
    let mistake = Mistake::new(error.mistake);
    let mistake = match mistake.text.starts_with(PLACE) {
        true => mistake,
        false => within(mistake),
    };
    // The first name in it identifies the mistake: a full key, its last word, or a key without the path's name.
    let wrong = mistake.text.split('`').nth(1).unwrap_or_default();
    let wrong = wrong.strip_prefix("sweep.").unwrap_or(wrong).to_owned();
    let names = |key: &str| {
        let key = key.strip_prefix("sweep.").unwrap_or(key);
        let parts: Vec<&str> = key.split('.').collect();
        let unnamed = match parts[..] {
            [table, _, ref rest @ ..] if !rest.is_empty() => format!("{table}.{}", rest.join(".")),
            _ => key.to_owned(),
        };
        [key, &unnamed].contains(&wrong.as_str()) || parts.last() == Some(&wrong.as_str())
    };
    let placed = mistake.at_dotted(text, "quick", names);
    PlanError {
        line: placed.line,
        mistake: placed.text,
        ..error
    }
}

fn within(mistake: Mistake) -> Mistake {
    mistake.within(PLACE)
}
