//! `wansan attach list` and `wansan attach detach`.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::process::{Signal, getpid, kill_process};
use wansan_attach::Standing;
use wansan_attach::control::{Answer, Listed, Request, Then, ask_all};

use super::super::grid::{grid, right};
use super::super::{print_json, print_text};
use super::disks::{Disk, Disks};
use super::waiting::Waiting;

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
    /// The disk: its URL, its device, or its NBD address
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
        let gib = |bytes: u64| format!("{:.2} GiB", bytes as f64 / f64::from(1 << 30));
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
            disk.size_bytes.map_or("-".to_owned(), gib),
            match (disk.connections_up, disk.connections) {
                (up, all) if up < all => format!("{}, {up} of {all} connections", disk.standing),
                _ => disk.standing.clone(),
            },
            disk.clients.to_string(),
            behind,
        ]);
    }
    right(&mut table, [2, 4, 5]);
    let mut text = format!("{table}\n");
    for disk in disks {
        if let Some(why) = &disk.waits_for {
            text.push_str(&format!("{}: not attached yet: {why}\n", disk.url));
        }
        if let Some(sharing) = disk.shared {
            let words = sharing.words(disk.journal);
            text.push_str(&format!("{}: {words}\n", disk.url));
        }
    }
    text
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

/// Answers a request to this process, which exits after its last disk.
pub(super) fn answer(disks: &Disks, request: &Request) -> (Answer, Then) {
    match request {
        Request::List => {
            // A disk that becomes served meanwhile is in at least one of them.
            let waiting: Vec<Listed> = disks.waiting().iter().map(awaited).collect();
            let mut all: Vec<Listed> = disks.served().iter().map(listed).collect();
            all.extend(waiting);
            (Answer::List(all), Then::Continue)
        }
        Request::Detach(name) => take_and_detach(disks, name),
    }
}

fn take_and_detach(disks: &Disks, name: &str) -> (Answer, Then) {
    let used = disks.served().iter().find_map(|disk| {
        let device = disk.attached.device()?;
        (is_called(disk, name) && device.is_used()).then(|| device.name())
    });
    if let Some(device) = used {
        let why = format!("{device} is in use: unmount it first");
        return (Answer::Failed(why), Then::Continue);
    }
    let waiting = {
        let mut waiting = disks.waiting();
        let all = waiting.len();
        waiting.retain(|disk| {
            let place = disk.settings.nbd.0.to_string();
            disk.settings.initiator.url.to_string() != name && place != name
        });
        all - waiting.len()
    };
    let gone = disks.take(|disk| is_called(disk, name));
    let detached = gone.len() + waiting;
    let wrong: Vec<String> = gone
        .into_iter()
        .filter_map(|disk| disks.detach(disk, true))
        .collect();
    let answer = match wrong.first() {
        Some(wrong) => Answer::Failed(wrong.clone()),
        None => Answer::Detached(detached),
    };
    // Only now: ending the process earlier would abort disks that are still draining.
    let then = match detached > 0 && disks.are_gone() {
        true => Then::End,
        false => Then::Continue,
    };
    (answer, then)
}

/// Ends this process as its user would: the main thread waits for signals.
pub(super) fn end() {
    // A process may always signal itself.
    let _ = kill_process(getpid(), Signal::TERM);
}

fn is_called(disk: &Disk, name: &str) -> bool {
    let device = disk
        .attached
        .device()
        .map(|device| device.name().to_string());
    name == disk.settings.initiator.url.to_string()
        || name == disk.attached.place().to_string()
        || Some(name) == device.as_deref()
}

fn listed(disk: &Disk) -> Listed {
    let status = disk.attached.status();
    Listed {
        process: std::process::id(),
        url: disk.settings.initiator.url.to_string(),
        nbd: disk.attached.place().to_string(),
        size_bytes: Some(disk.attached.facts().capacity.bytes()),
        standing: status.standing.name().to_owned(),
        connections_up: status.connections.0,
        connections: status.connections.1,
        clients: status.clients,
        behind_bytes: status.behind_bytes,
        behind_ns: status.behind_ns,
        ahead_bytes: status.ahead_bytes,
        shared: status.sharing,
        journal: status.has_journal,
        waits_for: None,
    }
}

/// The entry of a disk that is not attached yet.
fn awaited(disk: &Waiting) -> Listed {
    Listed {
        process: std::process::id(),
        url: disk.settings.initiator.url.to_string(),
        nbd: disk.settings.nbd.0.to_string(),
        size_bytes: None,
        standing: Standing::Waiting.name().to_owned(),
        connections_up: 0,
        connections: 0,
        clients: 0,
        behind_bytes: 0,
        behind_ns: 0,
        ahead_bytes: 0,
        shared: None,
        journal: disk.settings.cache.journal.is_some(),
        waits_for: Some(disk.why.clone()),
    }
}
