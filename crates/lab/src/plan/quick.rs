//! The quick form of a plan: the same experiment with fewer cells and less time.

use toml::Value;

use super::document::{self, Document};
use super::parameter::flatten;
use super::sweep;
use wansan_mistake::Mistake;

/// The key under which `[quick]` replaces lists of the sweep.
const SWEEP: &str = "sweep";
/// Tables that stay as they are: the quick form is judged by what the plan says.
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

fn within(mistake: Mistake) -> Mistake {
    mistake.within("[quick]")
}
