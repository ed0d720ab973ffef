//! `docs/reference/commands.md`, from the command line's own help.

use std::fmt::Write;

use clap::CommandFactory;

use crate::Arguments;

/// The page: the help of each command.
fn page() -> String {
    let mut text = String::from(
        "# Commands\n\nWhat `--help` says of each command. Generated from the command line itself.\n",
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

/// `WANSAN_UPDATE=1` writes the page.
#[test]
fn the_page_is_what_help_says() {
    wansan_generated::check("docs/reference/commands.md", &page());
}
