//! The types of results and manifests for the report page, which is written in TypeScript.

use std::fmt::Write;

use crate::metric::{CELLS, Metric, metrics};
use crate::table::{Kind, Table, Unit};
use crate::{Manifest, Results};

/// An interface for each struct that a run's files hold.
#[must_use]
pub fn types() -> String {
    let mut text = String::from(
        "/** What a run's results.json and manifest.json hold. Generated from crates/schema/src by \
         `WANSAN_UPDATE=1 cargo test -p wansan-schema`. */\n\n\
         export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };\n",
    );
    text += &tables().into_iter().map(interface).collect::<String>();
    text + METRIC + &metrics().iter().map(metric).collect::<String>() + "];\n"
}

/// An interface for each struct that `root` holds and [`types`] does not have; those that it has are
/// imported from `results`, and passed on.
#[must_use]
pub fn types_beside(root: &'static Table, results: &str) -> String {
    let known = tables();
    let mut all = Vec::new();
    add(root, &mut all);
    let (known, new): (Vec<&Table>, Vec<&Table>) = all
        .into_iter()
        .partition(|table| known.iter().any(|other| other.name == table.name));
    let mut names: Vec<&str> = known.iter().map(|table| table.name).collect();
    names.push("Json");
    names.sort_unstable();
    let names = names.join(", ");
    format!(
        "import type {{ {names} }} from \"{results}\";\n\nexport type {{ {names} }};\n{}",
        new.into_iter().map(interface).collect::<String>()
    )
}

fn interface(table: &Table) -> String {
    let with = table.with.map(|part| format!(" extends {}", part.name));
    let mut text = format!(
        "\n/** {} */\nexport interface {}{} {{\n",
        table.about(),
        table.name,
        with.unwrap_or_default()
    );
    for field in table.fields {
        let _ = writeln!(text, "  /** {} */", field.about());
        let _ = writeln!(text, "  {}: {};", field.name, of(field.kind));
    }
    text + "}\n"
}

const METRIC: &str = "
/** A result by its name; \"*\" stands for any name, and those of cells have no \"cells.\" before them. */
export interface Metric {
  name: string;
  /** What it is measured in. */
  unit: string;
  about: string;
}

export const METRICS: readonly Metric[] = [
";

fn metric(metric: &Metric) -> String {
    let name = metric.named(|_, _| "*".to_owned());
    let name = name.strip_prefix(CELLS).unwrap_or(&name);
    let unit = metric.field.unit.map_or("", Unit::name);
    let about = metric.field.about();
    format!("  {{ name: {name:?}, unit: {unit:?}, about: {about:?} }},\n")
}

/// Every struct, each before what it holds.
pub(crate) fn tables() -> Vec<&'static Table> {
    let mut tables = Vec::new();
    for root in [Results::TABLE, Manifest::TABLE] {
        add(root, &mut tables);
    }
    tables
}

fn add(table: &'static Table, tables: &mut Vec<&'static Table>) {
    if tables.iter().any(|known| known.name == table.name) {
        return;
    }
    tables.push(table);
    if let Some(part) = table.with {
        add(part, tables);
    }
    for field in table.fields {
        let mut kind = field.kind;
        while let Kind::Optional(inner) | Kind::List(inner) | Kind::Map(inner) = kind {
            kind = inner;
        }
        if let Kind::Struct(table) = kind {
            add(table, tables);
        }
    }
}

fn of(kind: &Kind) -> String {
    match kind {
        Kind::Number => "number".to_owned(),
        Kind::Truth => "boolean".to_owned(),
        Kind::Text => "string".to_owned(),
        Kind::Anything => "Json".to_owned(),
        Kind::Struct(table) => table.name.to_owned(),
        Kind::List(kind @ Kind::Optional(_)) => format!("({})[]", of(kind)),
        Kind::List(kind) => format!("{}[]", of(kind)),
        Kind::Map(kind) => format!("Record<string, {}>", of(kind)),
        Kind::Optional(kind) => format!("{} | null", of(kind)),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_knows_the_results() {
        wansan_generated::check("web/src/results.ts", &super::types());
    }
}
