//! Generates `docs/reference/records.md` from the tables of record kinds.

use std::fmt::Write;

use crate::field::{Cell, Json};
use crate::kind::{Kind, all_columns};
use crate::names::Vocabulary;
use crate::recorder::{Recorded, Visitor, visit_kinds};

/// The page: a table of columns for each kind.
#[must_use]
pub fn page() -> String {
    let pages = Pages::default();
    let Ok(()) = visit_kinds(&pages);
    format!(
        "# Records\n\n\
         The records of programs, by kind: one Parquet file each in a cell's folder, readable by pandas, DuckDB\n\
         and Spark. 64-bit integers are signed: −1 means no limit. Times are\n\
         nanoseconds of CLOCK_MONOTONIC. Columns that were added later read as 0, or as their first\n\
         value, in older files. Generated from `crates/trace/src/event`.\n{}",
        pages.text.into_inner()
    )
}

#[derive(Default)]
struct Pages {
    text: std::cell::RefCell<String>,
}

impl Visitor for Pages {
    type Error = std::convert::Infallible;
    fn visit<T: Recorded>(&self) -> Result<(), Self::Error> {
        self.text.borrow_mut().push_str(&section::<T>());
        Ok(())
    }
}

fn section<T: Kind>() -> String {
    let about = plain(T::ABOUT);
    let about = about
        .strip_prefix(&format!("`{}`: ", T::NAME))
        .unwrap_or(&about);
    let (first, rest) = about.split_at(about.chars().next().map_or(0, char::len_utf8));
    let mut text = format!("\n## `{}`\n\n{}{rest}\n\n", T::NAME, first.to_uppercase());
    text += "| column | type | description |\n|---|---|---|\n";
    for column in all_columns::<T>() {
        let kind = match (column.cell, column.json) {
            (Cell::Int64, _) => "int64".to_owned(),
            (Cell::Uint(bits), Some(Json::Names(names))) => {
                let names: Vec<String> = names.iter().enumerate().map(numbered).collect();
                format!("uint{bits}: {}", names.join(", "))
            }
            (Cell::Uint(bits), _) => format!("uint{bits}"),
            (Cell::Text(Vocabulary::Fixed(names)), _) => {
                let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
                names.join(", ")
            }
            (Cell::Text(_), _) => "string".to_owned(),
        };
        let added = if column.may_lack { " Added later." } else { "" };
        let about = plain(column.about);
        let _ = writeln!(text, "| `{}` | {kind} | {about}{added} |", column.name);
    }
    text
}

fn numbered((number, name): (usize, &&str)) -> String {
    format!("{number} {name}")
}

/// A doc comment in the page's form: on one line, without intra-doc links.
pub(crate) fn plain(about: &str) -> String {
    let text = about.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace("[`", "`").replace("`]", "`")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `WANSAN_UPDATE=1` writes the page.
    #[test]
    fn the_page_is_what_the_tables_say() {
        wansan_generated::check("docs/reference/records.md", &page());
    }
}
