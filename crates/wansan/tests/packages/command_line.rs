//! Man pages and completions: there for each command, and taken by what reads them.

use std::collections::BTreeSet;
use std::fs::{read_dir, read_to_string, write};
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Trial;
use tempfile::TempDir;
use wansan_peers::process::run;
use wansan_peers::program::find;
use wansan_peers::trial::{Stop, require, trial};

use crate::{LIMIT, REPOSITORY, WANSAN};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("each_command_has_a_man_page", pages),
        trial("man_pages_are_what_mandoc_takes", lint),
        trial("bash_completes", bash),
        trial("fish_completes", fish),
        trial("zsh_completes", zsh),
    ]
}

/// The names of the man pages that there should be: one for each command that the reference lists.
pub(crate) fn page_names() -> Result<BTreeSet<String>, Stop> {
    let commands = read_to_string(Path::new(REPOSITORY).join("docs/reference/commands.md"))?;
    let names = commands.lines().filter_map(|line| line.strip_prefix("## "));
    Ok(names
        .map(|name| format!("{}.1", name.replace(' ', "-")))
        .collect())
}

/// A folder with the man pages.
fn written() -> Result<(TempDir, Vec<PathBuf>), Stop> {
    let folder = TempDir::with_prefix("wansan-test-")?;
    // It makes the folder itself.
    let pages = folder.path().join("man/man1");
    run(Command::new(WANSAN).arg("man").arg(&pages), LIMIT)?.success()?;
    let mut files = Vec::new();
    for entry in read_dir(&pages)? {
        files.push(entry?.path());
    }
    Ok((folder, files))
}

fn pages() -> Result<(), Stop> {
    let (_folder, files) = written()?;
    let names: BTreeSet<String> = files
        .iter()
        .filter_map(|file| Some(file.file_name()?.to_str()?.to_owned()))
        .collect();
    let wanted = page_names()?;
    require(names == wanted, || {
        let differing: Vec<_> = names.symmetric_difference(&wanted).collect();
        format!("pages and commands differ by {differing:?}")
    })
}

fn lint() -> Result<(), Stop> {
    let mandoc = find("mandoc")?;
    let (_folder, files) = written()?;
    run(
        Command::new(mandoc)
            .args(["-T", "lint", "-W", "warning"])
            .args(files),
        LIMIT,
    )?
    .success()?;
    Ok(())
}

/// The script for a shell, in a file of a folder.
fn script(shell: &str) -> Result<(TempDir, PathBuf), Stop> {
    let printed = run(Command::new(WANSAN).args(["completions", shell]), LIMIT)?.success()?;
    let folder = TempDir::with_prefix("wansan-test-")?;
    let file = folder.path().join("_wansan");
    write(&file, printed.stdout)?;
    Ok((folder, file))
}

/// Fails unless a shell that runs `commands`, with the script as `$1`, prints these words and no others.
fn completes(shell: &str, commands: &str, words: &[&str]) -> Result<(), Stop> {
    let program = find(shell)?;
    let (_folder, file) = script(shell)?;
    let mut command = Command::new(program);
    match shell {
        "fish" => command.args(["--no-config", "--command", commands]),
        "zsh" => command.args(["-f", "-c", commands, shell]),
        _ => command.args(["--norc", "-c", commands, shell]),
    };
    let printed = run(command.arg(file), LIMIT)?.success()?;
    let mut found: Vec<&str> = printed.stdout.split_whitespace().collect();
    found.sort_unstable();
    require(found == words, || {
        format!("{words:?} expected: {}", printed.output())
    })
}

fn bash() -> Result<(), Stop> {
    let commands = "source \"$1\"
        COMP_WORDS=(wansan lab r) COMP_CWORD=2
        _wansan wansan r lab
        printf '%s\\n' \"${COMPREPLY[@]}\"
        COMP_WORDS=(wansan target --lu) COMP_CWORD=2
        _wansan wansan --lu target
        printf '%s\\n' \"${COMPREPLY[@]}\"";
    completes("bash", commands, &["--lun", "run"])
}

fn fish() -> Result<(), Stop> {
    let commands = "source $argv[1]
        complete --do-complete 'wansan lab r' | string replace --regex '\\t.*' ''
        complete --do-complete 'wansan target --lu' | string replace --regex '\\t.*' ''";
    completes("fish", commands, &["--lun", "run"])
}

/// Outside its line editor zsh only says whether the script is one, and whose.
fn zsh() -> Result<(), Stop> {
    let commands = "autoload -Uz compinit && compinit -D -u && zsh -n \"$1\" && source \"$1\" && print $_comps[wansan]";
    completes("zsh", commands, &["_wansan"])
}
