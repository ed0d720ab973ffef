//! Generated pages of `docs/reference`: `commands.md` from the command line's help, `settings.md` from the tables of
//! settings.

use std::fmt::Write;

use clap::CommandFactory;
use serde_json::Value;
use wansan_attach::settings::{self as attach, AttachFile, CopySettings};
use wansan_relay::{self as relay, RelayFile};
use wansan_san::settings::{self as san, BenchSettings, TargetFile};
use wansan_settings::{Row, Settings, Shape};
use wansan_stream::{ReceiveSettings, SendSettings};

use crate::Arguments;

/// The help of each command.
fn commands() -> String {
    let mut text = String::from(
        "# Commands\n\nThe output of `--help` for each command. Generated from the command line.\n",
    );
    let mut root = Arguments::command().term_width(100);
    root.build();
    add(&mut text, &root, "wansan");
    text
}

fn add(text: &mut String, command: &clap::Command, path: &str) {
    let help = command
        .clone()
        .bin_name(path)
        .render_long_help()
        .to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = writeln!(
        text,
        "\n## {path}\n\n```text\n{}\n```",
        lines.join("\n").trim()
    );
    for inner in command.get_subcommands() {
        if !inner.is_hide_set() && inner.get_name() != "help" {
            add(text, inner, &format!("{path} {}", inner.get_name()));
        }
    }
}

/// The settings of each program and file.
fn settings() -> String {
    let mut text = String::from(
        "# Settings\n\n\
         The keys of `target.toml`, of `attach.toml`, of `relay.toml` and of plans, and those that programs take as JSON. Generated\n\
         from the tables in the code that read them.\n\n\
         Values with a unit are text, such as `\"64KiB\"` or `\"10ms\"`; I/O rates are `\"500IOPS\"` or `500`. What\n\
         is on or off is `true`, `\"on\"` or `\"yes\"`, and `false`, `\"off\"` or `\"no\"`, in upper or lower case. The\n\
         options of the command line take the same values ([commands.md](commands.md)); those of flags have none.\n",
    );
    part::<TargetFile>(
        &mut text,
        "target.toml",
        "Read by `wansan target --config`; SIGHUP reloads it.",
    );
    part::<AttachFile>(
        &mut text,
        "attach.toml",
        "Read by `wansan attach --config`; SIGHUP reloads it.",
    );
    part::<RelayFile>(
        &mut text,
        "relay.toml",
        "Read by `wansan relay --config`; SIGHUP reloads it.",
    );
    part::<wansan_lab::plan::Document>(&mut text, "Plans", "Read by `wansan lab`.");
    text.push_str(
        "\n## Settings on standard input\n\n\
         With `--settings -` a program reads all its settings from standard input, as a JSON object of up to 1 MiB, as\n\
         `wansan lab` starts it. A program that is held (`hold`) starts on the line after it, or at the end of the\n\
         input.\n\n\
         ```sh\n\
         echo '{\"listener\": [{\"listen\": \"127.0.0.1:3261\", \"to\": \"192.0.2.1:3260\"}], \"drain\": \"1s\"}' |\n    \
             wansan relay --settings -\n\
         ```\n",
    );
    let file = "The keys of the file above, and:";
    program::<san::ProcessSettings>(&mut text, "wansan target", file);
    program::<attach::ProcessSettings>(&mut text, "wansan attach", file);
    program::<relay::ProcessSettings>(&mut text, "wansan relay", file);
    program::<BenchSettings>(&mut text, "wansan bench", "");
    program::<CopySettings>(&mut text, "wansan copy", "");
    program::<SendSettings>(&mut text, "wansan stream send", "");
    program::<ReceiveSettings>(&mut text, "wansan stream receive", "");
    text
}

fn part<T: Settings>(text: &mut String, title: &str, about: &str) {
    let _ = writeln!(text, "\n## {title}\n\n{about}");
    table(text, "", &T::rows());
}

fn program<T: Settings>(text: &mut String, title: &str, about: &str) {
    let _ = writeln!(text, "\n### `{title}`");
    if !about.is_empty() {
        let _ = writeln!(text, "\n{about}");
    }
    table(text, "", &T::rows());
}

/// A table of a file, whose dotted name ends in a dot, and its nested tables.
fn table(text: &mut String, path: &str, rows: &[Row]) {
    let is_table = |row: &&Row| !row.rows.is_empty();
    let plain: Vec<&Row> = rows
        .iter()
        .filter(|row| row.rows.is_empty() || row.shape == Shape::List(Box::new(Shape::Text)))
        .collect();
    if !plain.is_empty() {
        text.push_str("\n| key | value | default | |\n|---|---|---|---|\n");
    }
    for row in plain {
        let (about, default) = about(row);
        let value = value(row).replace('|', "\\|");
        let _ = writeln!(
            text,
            "| `{}` | {value} | {default} | {} |",
            row.key,
            about.replace('|', "\\|")
        );
    }
    for row in rows.iter().filter(is_table) {
        let name = format!("{path}{}", row.key);
        let heading = match row.shape {
            Shape::Table => format!("[{name}]"),
            _ => format!("[[{name}]]"),
        };
        let (about, _) = about(row);
        let _ = writeln!(text, "\n#### `{heading}`\n\n{about}.");
        table(text, &format!("{name}."), &row.rows);
    }
}

/// The description of a row, and its default.
fn about(row: &Row) -> (String, String) {
    let (about, told) = match row.about.split_once(" [default: ") {
        Some((about, told)) => (about, Some(told.trim_end_matches(']'))),
        None => (row.about.as_str(), None),
    };
    let default = match (&row.default, told) {
        _ if row.is_required => "required".to_owned(),
        (_, Some(told)) => told.to_owned(),
        (None, None) => String::new(),
        (Some(Value::Array(list)), None) if list.is_empty() => String::new(),
        (Some(Value::Array(list)), None) => {
            let each: Vec<String> = list.iter().map(|it| format!("`{it}`")).collect();
            each.join(", ")
        }
        (Some(default), None) => format!("`{default}`"),
    };
    (about.to_owned(), default)
}

/// The form of a row's value.
fn value(row: &Row) -> String {
    let mut text = match (&row.shape, row.value) {
        (Shape::Choice(words), _) => words
            .iter()
            .map(|word| format!("`\"{word}\"`"))
            .collect::<Vec<_>>()
            .join(", "),
        (Shape::List(each), _) if matches!(**each, Shape::Choice(_)) => {
            let Shape::Choice(words) = **each else {
                unreachable!()
            };
            format!("list of {}", words.join(", "))
        }
        (Shape::List(_), Some(value)) => format!("list of {value}"),
        (Shape::List(_), None) => "list".to_owned(),
        (Shape::Flag, None) => "flag".to_owned(),
        (_, Some(value)) => value.to_owned(),
        (Shape::Number, None) => "number".to_owned(),
        (Shape::Table, None) => "table".to_owned(),
        (Shape::Text, None) => "text".to_owned(),
    };
    if let Some(range) = &row.range {
        let _ = write!(text, ", {range}");
    }
    text
}

/// `WANSAN_UPDATE=1` rewrites the page.
#[test]
fn the_page_of_commands_is_what_help_says() {
    wansan_generated::check("docs/reference/commands.md", &commands());
}

/// `WANSAN_UPDATE=1` rewrites the page.
#[test]
fn the_page_of_settings_is_what_the_tables_say() {
    wansan_generated::check("docs/reference/settings.md", &settings());
}
