//! `wansan attach list` and `wansan attach detach`.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::process::{Signal, getpid, kill_process};
use wansan_attach::control::{Answer, Listed, Request, ask_all};

use super::super::grid::{grid, right};
use super::super::{print_json, print_text};
use super::{Disk, Disks, locked};

/// Arguments of `wansan attach list`.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Print one JSON object per disk
    #[arg(long)]
    json: bool,
}

/// Arguments of `wansan attach detach`.
#[derive(Debug, Args)]
pub(super) struct DetachArgs {
    /// The disk: its URL, or the place where it is served
    disk: String,
}

const FOLDER: &str = "the sockets of `wansan attach` cannot be looked for";

pub(super) fn list(args: &ListArgs) -> Result<ExitCode> {
    let mut disks = Vec::new();
    for answer in ask_all(&Request::List).context(FOLDER)? {
        if let Answer::List(of_one) = answer {
            disks.extend(of_one);
        }
    }
    if args.json {
        for disk in &disks {
            print_json(&serde_json::to_string(disk)?)?;
        }
    } else {
        print_text(|out| write!(out, "{}", table(&disks)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(disks: &[Listed]) -> String {
    if disks.is_empty() {
        return "no disk is attached\n".to_owned();
    }
    let mut table = grid(["disk", "served at", "size", "session", "clients", "behind"]);
    for disk in disks {
        let gib = disk.size_bytes as f64 / f64::from(1 << 30);
        let behind = match disk.behind_bytes {
            0 => "-".to_owned(),
            bytes => format!(
                "{:.1} MiB, {:.1} s",
                bytes as f64 / f64::from(1 << 20),
                disk.behind_ns as f64 / 1e9
            ),
        };
        table.add_row(vec![
            disk.url.clone(),
            disk.nbd.clone(),
            format!("{gib:.2} GiB"),
            disk.standing.clone(),
            disk.clients.to_string(),
            behind,
        ]);
    }
    right(&mut table, [2, 4, 5]);
    format!("{table}\n")
}

pub(super) fn detach(args: &DetachArgs) -> Result<ExitCode> {
    let mut detached = 0;
    for answer in ask_all(&Request::Detach(args.disk.clone())).context(FOLDER)? {
        match answer {
            Answer::Detached(disks) => detached += disks,
            Answer::Failed(why) => bail!("{why}"),
            Answer::List(_) => {}
        }
    }
    if detached == 0 {
        bail!(
            "no disk {} is attached; `wansan attach list` lists those that are",
            args.disk
        );
    }
    print_text(|out| writeln!(out, "detached {}", args.disk))?;
    Ok(ExitCode::SUCCESS)
}

/// Answers a request to this process. With its last disk the process ends as well.
pub(super) fn answer(disks: &Disks, request: &Request) -> Answer {
    match request {
        Request::List => Answer::List(locked(disks).iter().map(listed).collect()),
        Request::Detach(name) => {
            let (gone, stay): (Vec<Disk>, Vec<Disk>) = std::mem::take(&mut *locked(disks))
                .into_iter()
                .partition(|disk| is_called(disk, name));
            let (detached, ends) = (gone.len(), stay.is_empty());
            *locked(disks) = stay;
            for disk in gone {
                let url = disk.settings.initiator.url.to_string();
                match super::detach(disk, true, || false) {
                    Ok(true) => {}
                    Ok(false) => return Answer::Failed(format!("not all has reached {url}")),
                    Err(error) => return Answer::Failed(format!("{error:#}")),
                }
            }
            if detached > 0 && ends {
                // The main thread waits for signals.
                let _ = kill_process(getpid(), Signal::TERM);
            }
            Answer::Detached(detached)
        }
    }
}

fn is_called(disk: &Disk, name: &str) -> bool {
    name == disk.settings.initiator.url.to_string() || name == disk.attached.place().to_string()
}

fn listed(disk: &Disk) -> Listed {
    let status = disk.attached.status();
    Listed {
        process: std::process::id(),
        url: disk.settings.initiator.url.to_string(),
        nbd: disk.attached.place().to_string(),
        size_bytes: disk.attached.facts().capacity.bytes(),
        standing: status.standing.name().to_owned(),
        clients: status.clients,
        behind_bytes: status.behind_bytes,
        behind_ns: status.behind_ns,
    }
}
