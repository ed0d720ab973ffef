//! TypeScript types of records, for the web pages.

use std::fmt::Write;

use crate::field::Json;
use crate::kind::Kind;

/// An interface of that name with a record's JSON fields.
#[must_use]
pub fn interface<T: Kind>(name: &str) -> String {
    let mut text = format!("export interface {name} {{\n");
    for column in T::columns() {
        let Some(json) = column.json else {
            continue;
        };
        let json = match json {
            Json::Number => "number".to_owned(),
            Json::Bool => "boolean".to_owned(),
            Json::Text => "string".to_owned(),
            Json::Names(names) => {
                let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
                names.join(" | ")
            }
        };
        let or_null = if column.may_be_null { " | null" } else { "" };
        let _ = writeln!(text, "  {}: {json}{or_null};", column.name);
    }
    text + "}\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Tcp;

    /// The page's copy of the types; `WANSAN_UPDATE=1` rewrites it.
    #[test]
    fn the_pages_know_the_records() {
        let text = format!(
            "/** Records as JSON has them. Generated from crates/trace/src/event by `WANSAN_UPDATE=1 cargo \
             test -p wansan-trace`. */\n\n{}",
            interface::<Tcp>("Tcp")
        );
        wansan_generated::check("web/src/records.ts", &text);
    }
}
