//! `docs/reference/results.md`, from the tables.

use std::fmt::Write;

use crate::metric::metrics;
use crate::table::{Field, Kind, Takes, Unit};
use crate::typescript::tables;

/// The page: what each file holds, and the metrics that plans can name.
#[must_use]
pub fn page() -> String {
    let mut text = String::from(
        "# Results\n\n\
         The contents of `results.json` (`Results`) and `manifest.json` (`Manifest`) in a run folder. Fields that\n\
         an earlier version did not write are absent: treat them as null, 0 or empty. Generated from\n\
         `crates/schema/src`.\n\n\
         ## Metrics\n\n\
         The metrics for a plan's `[[expect]]` and `[[paper.known]]`, for the report's charts, and for each cell in\n\
         `wansan lab export` and `wansan lab compare --json` (there without `cells.`).\n\n\
         | metric | unit | description | requires |\n|---|---|---|---|\n",
    );
    for metric in metrics() {
        let name = metric.named(|_, names| names.one().to_uppercase());
        let takes: Vec<String> = metric
            .takes
            .iter()
            .map(|takes| Takes::in_words(*takes))
            .collect();
        let field = metric.field;
        let _ = writeln!(
            text,
            "| `{name}` | {} | {} | {} |",
            unit(field),
            field.about(),
            takes.join(", ")
        );
    }
    for table in tables() {
        let _ = write!(
            text,
            "\n## `{}`\n\n{}\n\n| field | type | description |\n|---|---|---|\n",
            table.name,
            table.about()
        );
        for field in table.fields {
            let _ = writeln!(
                text,
                "| `{}` | {} | {} |",
                field.name,
                in_words(field.kind, field),
                field.about()
            );
        }
    }
    text
}

fn unit(field: &Field) -> String {
    match (field.unit, field.names) {
        (Some(Unit::Text), Some(names)) => format!("a {}", names.one()),
        (Some(Unit::Text), None) => "text".to_owned(),
        (Some(unit), _) => unit.name().to_owned(),
        (None, _) => String::new(),
    }
}

fn in_words(kind: &Kind, field: &Field) -> String {
    match kind {
        Kind::Number => "number".to_owned(),
        Kind::Truth => "true or false".to_owned(),
        Kind::Text => "text".to_owned(),
        Kind::Anything => "any".to_owned(),
        Kind::Struct(table) => format!("`{}`", table.name),
        Kind::List(kind) => format!("list of {}", in_words(kind, field)),
        Kind::Map(kind) => {
            let by = field.names.map_or("name", |names| names.one());
            format!("{} by {by}", in_words(kind, field))
        }
        Kind::Optional(kind) => format!("{} or null", in_words(kind, field)),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_is_what_the_tables_say() {
        wansan_generated::check("docs/reference/results.md", &super::page());
    }
}
