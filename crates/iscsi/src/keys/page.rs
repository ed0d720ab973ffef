//! The table as a page: `docs/reference/keys.md`.

use core::fmt::Write;

use super::parameters::Wanted;
use super::table::{Key, KeyName, LoginStages, Rule, Scope, Senders, TABLE, Use};

/// The text of `docs/reference/keys.md`; `cargo run -p wansan-iscsi --example keys_page` prints it.
#[must_use]
pub fn page() -> String {
    let mut page = String::from(
        "# Login and text keys\n\
         \n\
         Every key of RFC 7143 §12.1 and §13, as wansan negotiates it. This page is generated \
         from the table that the code uses (`crates/iscsi/src/keys/table.rs`), and a test \
         compares the two:\n\
         \n\
         ```sh\n\
         cargo run -p wansan-iscsi --example keys_page > docs/reference/keys.md\n\
         ```\n\
         \n\
         *Sent*: by I (initiator) or T (target); IO = in the login of any connection, LO = of a \
         session's first connection, FFPO = in the full feature phase, ALL = in both; S and O = \
         in the security and the operational stage of login. *Result*: how the result of a \
         negotiation follows from both values. *Default*: in force if neither end sends the key. \
         *wansan*: the value that wansan offers by default. A † marks keys that are Irrelevant in \
         a discovery session.\n\
         \n\
         | Key | § | Scope | Sent | Values | Result | Default | wansan |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let wanted = Wanted::default();
    for key in &TABLE {
        // Writing to a String cannot fail.
        let _ = writeln!(
            page,
            "| {}{} | {} | {} | {} | {} | {} | {} | {} |",
            key.text,
            if key.irrelevant_in_discovery {
                " †"
            } else {
                ""
            },
            key.section,
            scope(key),
            sent(key),
            values(key),
            result(key),
            key.rule
                .default()
                .map_or_else(|| "–".to_owned(), |value| value.to_string()),
            wanted
                .wish(key.name)
                .map_or_else(|| "–".to_owned(), |value| value.to_string()),
        );
    }
    page.push_str("\n## Meanings\n\n");
    for key in TABLE.iter().filter(|key| key.rule != Rule::Obsolete) {
        let _ = writeln!(page, "- **{}**: {}", key.text, key.meaning);
    }
    let _ = writeln!(
        page,
        "- **IFMarker**, **OFMarker**, **IFMarkInt**, **OFMarkInt**: {}",
        KeyName::IfMarker.key().meaning
    );
    page.push_str(
        "\n## Other rules\n\n\
         - Any other key, including `X-` keys, is answered with `NotUnderstood`.\n\
         - A value that the table does not allow is answered with `Reject`, and the default stays \
         in force; a declared value that it does not allow ends the login with status 0200.\n\
         - A key in the wrong stage, from the wrong end, or repeated ends the login with status \
         0200 (§6.3).\n\
         - The text of one sequence has at most 65536 bytes (16384 for a target during login) \
         and 256 pairs, a key name at most 63 bytes, and a value, or one element of a list, at \
         most 255 bytes; CHAP_C and CHAP_R have their own limits.\n\
         - Numbers are read in decimal, hexadecimal (`0x`) and base64 (`0b`), and written in \
         decimal.\n",
    );
    page
}

fn scope(key: &Key) -> &'static str {
    match key.scope {
        Scope::Session => "session",
        Scope::Connection => "connection",
    }
}

fn sent(key: &Key) -> String {
    let who = match key.senders {
        Senders::Initiator => "I",
        Senders::Target => "T",
        Senders::Both => "I, T",
    };
    let when = match key.used {
        Use::Initialization => "IO",
        Use::LeadingOnly => "LO",
        Use::FullFeature => return format!("{who}; FFPO"),
        Use::Always => "ALL",
    };
    let stages = match key.stages {
        LoginStages::Security => "S",
        LoginStages::Operational => "O",
        LoginStages::Any => "S, O",
    };
    format!("{who}; {when}; {stages}")
}

fn values(key: &Key) -> String {
    match key.rule {
        Rule::Or { .. } | Rule::And { .. } => "Yes, No".to_owned(),
        Rule::Minimum { range, .. }
        | Rule::Maximum { range, .. }
        | Rule::DeclaredNumber { range, .. } => format!("{} to {}", range.min, range.max),
        Rule::List { values, .. } | Rule::DeclaredWord { values, .. } => values.join(", "),
        Rule::DeclaredName => "a name".to_owned(),
        Rule::DeclaredText => "text".to_owned(),
        Rule::Exchange { form } => form.to_owned(),
        Rule::Question => "All, empty, an iSCSI name".to_owned(),
        Rule::Obsolete => "any".to_owned(),
    }
}

fn result(key: &Key) -> &'static str {
    match key.rule {
        Rule::Or { .. } => "OR",
        Rule::And { .. } => "AND",
        Rule::Minimum { .. } => "minimum",
        Rule::Maximum { .. } => "maximum",
        Rule::List { .. } => "first of the offer that the other supports",
        Rule::DeclaredNumber { .. }
        | Rule::DeclaredWord { .. }
        | Rule::DeclaredName
        | Rule::DeclaredText => "declared",
        Rule::Exchange { .. } => "a step of CHAP",
        Rule::Question => "TargetName, TargetAddress",
        Rule::Obsolete => "Reject",
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_in_docs_is_what_the_table_prints() {
        assert!(
            super::page() == include_str!("../../../../docs/reference/keys.md"),
            "docs/reference/keys.md is out of date; run: \
             cargo run -p wansan-iscsi --example keys_page > docs/reference/keys.md"
        );
    }
}
