//! `wansan diagnose`: why the disks of this host are slow, now.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use wansan_diagnose::block::Disk;
use wansan_diagnose::change::Change;
use wansan_diagnose::diagnosis::{Diagnosis, SessionDiagnosis, Share};
use wansan_diagnose::host::Role;
use wansan_diagnose::multipath::MultipathDiagnosis;
use wansan_diagnose::software::Software;
use wansan_diagnose::traced::DiskUse;
use wansan_diagnose::{Host, watch};
use wansan_trace::units;

use super::grid::{grid, right};
use super::measuring::bar;
use super::{INTERRUPTED, print_json, print_text};

/// Arguments of `wansan diagnose`.
#[derive(Debug, Args)]
pub(crate) struct DiagnoseArgs {
    /// How long to look, 100ms to 1h
    #[arg(long = "for", value_name = "TIME", default_value = "30s", value_parser = time)]
    time: Duration,
    /// Where targets listen, here or elsewhere; repeat for each. Ports of open-iscsi's sessions and of LIO's portals are
    /// found
    #[arg(long = "port", value_name = "PORT", default_value = "3260")]
    ports: Vec<u16>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

fn time(text: &str) -> Result<Duration, String> {
    match units::parse_duration(text) {
        Ok(asked) if asked < Duration::from_millis(100) => Err("give at least 100ms".to_owned()),
        Ok(asked) if asked > Duration::from_secs(3600) => Err("give at most 1h".to_owned()),
        Ok(asked) => Ok(asked),
        Err(error) => Err(error.to_string()),
    }
}

/// A share of the latency that is left out of the table, as it changes nothing.
const LEAST_SHARE: f64 = 0.005;

/// Carries out `wansan diagnose`.
///
/// # Errors
/// There are no sessions on this host, or they cannot be looked at.
pub(crate) fn run(args: &DiagnoseArgs) -> Result<ExitCode> {
    let sys = Path::new("/sys");
    let asked: BTreeSet<u16> = args.ports.iter().copied().collect();
    let (host, ports) = Host::find(sys, Path::new("/proc"), &asked)?;
    if host.connections.is_empty() && host.sessions.is_empty() && host.portal_groups.is_empty() {
        let ports: Vec<String> = asked.iter().map(u16::to_string).collect();
        bail!(
            "there is no iSCSI on this host: no session of open-iscsi, no target of LIO, and no TCP connection with \
             port {}; name the target's port with --port, and look in the network namespace of the session",
            ports.join(" or ")
        );
    }
    let ends = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // A second one ends it at once.
        signal_hook::flag::register_conditional_shutdown(
            signal,
            INTERRUPTED.into(),
            Arc::clone(&ends),
        )
        .context("cannot wait for signals")?;
        signal_hook::flag::register(signal, Arc::clone(&ends))
            .context("cannot wait for signals")?;
    }
    let progress = bar(args.json);
    progress.set_message("watching packets");
    let diagnosis = watch(&host, &ports, sys, args.time, |share| {
        progress.set_position((share * 1000.0) as u64);
        // Interrupted, it prints what was seen until then.
        !ends.load(Ordering::Relaxed)
    });
    progress.finish_and_clear();
    let diagnosis = diagnosis?;
    match args.json {
        true => print_json(&serde_json::to_string_pretty(&diagnosis)?)?,
        false => print_text(|out| print(out, &diagnosis))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print(out: &mut dyn Write, diagnosis: &Diagnosis) -> io::Result<()> {
    writeln!(out, "Watched for {:.1} s:", diagnosis.seconds)?;
    for source in &diagnosis.sources {
        writeln!(out, "  {}: {}", source.name, source.what)?;
    }
    for session in &diagnosis.sessions {
        writeln!(out)?;
        print_session(out, session)?;
    }
    for multipath in &diagnosis.multipaths {
        writeln!(out)?;
        print_multipath(out, multipath)?;
    }
    if diagnosis.sessions.is_empty() {
        writeln!(out, "\nNo I/O began and ended meanwhile.")?;
    }
    if !diagnosis.quiet.is_empty() {
        writeln!(out, "\nWithout I/Os: {}", diagnosis.quiet.join(", "))?;
    }
    Ok(())
}

fn print_session(out: &mut dyn Write, session: &SessionDiagnosis) -> io::Result<()> {
    title(out, session)?;
    let latency_ns = session.judgement.latency_ns;
    writeln!(
        out,
        "  {:.0} IOPS, latency {:.2} ms, {:.1} commands outstanding on average, {} at most",
        session.iops,
        latency_ns / 1e6,
        session.outstanding,
        session.outstanding_max,
    )?;
    let told: Vec<&Share> = session
        .shares
        .iter()
        .filter(|share| share.share >= LEAST_SHARE)
        .collect();
    let rows = told.iter().map(|share| {
        let uncertain = match share.uncertain_ns / latency_ns.max(1.0) >= LEAST_SHARE {
            true => format!("±{:.2}", share.uncertain_ns / 1e6),
            false => String::new(),
        };
        vec![
            format!("{:.0} %", share.share * 100.0),
            format!("{:.2} ms", share.mean_ns / 1e6),
            uncertain,
            share.why.to_owned(),
            share.source.to_owned(),
        ]
    });
    let mut table = grid(["share", "mean", "", "of an I/O's latency", "known from"]);
    table.add_rows(rows);
    right(&mut table, 0..3);
    writeln!(out, "{table}\n")?;
    if session.disks.len() > 1 {
        writeln!(out, "{}\n", each_disk(&session.disks))?;
    }
    writeln!(out, "  {}", session.finding)?;
    print_changes(out, &session.changes)
}

/// How the disks of a session share it.
fn each_disk(disks: &[DiskUse]) -> comfy_table::Table {
    let columns = [
        "disk",
        "LUN",
        "I/Os",
        "latency",
        "in queues",
        "on the wire",
        "outstanding",
        "queue depth",
        "full",
    ];
    let ms = |ns: f64| format!("{:.2} ms", ns / 1e6);
    let mut table = grid(columns);
    table.add_rows(disks.iter().map(|disk| {
        vec![
            disk.disk.clone(),
            disk.lun.to_string(),
            disk.ios.to_string(),
            ms(disk.latency_ns),
            ms(disk.queued_ns),
            disk.wire_ns.map(ms).unwrap_or_default(),
            format!("{:.1}", disk.outstanding),
            disk.queue_depth
                .map(|depth| depth.to_string())
                .unwrap_or_default(),
            format!("{:.0} %", disk.full_share * 100.0),
        ]
    }));
    right(&mut table, 1..columns.len());
    table
}

fn print_multipath(out: &mut dyn Write, multipath: &MultipathDiagnosis) -> io::Result<()> {
    let group = multipath
        .table
        .as_ref()
        .and_then(|table| table.groups.first());
    let chosen = group.map(|group| {
        let in_a_row = group.paths.iter().find_map(|(_, in_a_row)| *in_a_row);
        let in_a_row = in_a_row.map(|count| format!(", rr_min_io_rq {count}"));
        format!(
            ": path_selector {}{}",
            group.selector,
            in_a_row.unwrap_or_default()
        )
    });
    writeln!(
        out,
        "{} ({}){}",
        multipath.name,
        multipath.device,
        chosen.unwrap_or_default()
    )?;
    if let Some(latency_ns) = multipath.latency_ns {
        writeln!(out, "  latency {:.2} ms above its paths", latency_ns / 1e6)?;
    }
    let mut table = grid(["path", "to", "IOPS", "latency"]);
    table.add_rows(multipath.paths.iter().map(|path| {
        vec![
            path.disk.clone(),
            path.portal.clone(),
            format!("{:.0}", path.iops),
            format!("{:.2} ms", path.latency_ns / 1e6),
        ]
    }));
    right(&mut table, 2..4);
    writeln!(out, "{table}\n")?;
    match &multipath.finding {
        Some(finding) => writeln!(out, "  {finding}")?,
        None => writeln!(out, "  No path is slow beside the others.")?,
    }
    print_changes(out, &multipath.changes)
}

fn print_changes(out: &mut dyn Write, changes: &[Change]) -> io::Result<()> {
    for change in changes {
        writeln!(out, "  {}:", change.what)?;
        for command in &change.commands {
            writeln!(out, "      {command}")?;
        }
        if let Some(note) = &change.note {
            writeln!(out, "      ({note})")?;
        }
    }
    Ok(())
}

fn title(out: &mut dyn Write, session: &SessionDiagnosis) -> io::Result<()> {
    let disks: Vec<String> = session
        .kernel
        .iter()
        .flat_map(|it| &it.disks)
        .map(disk)
        .collect();
    let target = session.target_name.as_deref().unwrap_or("a target");
    let ends = session.connections.iter();
    let ends: Vec<String> = ends
        .map(|(initiator, target)| format!("{initiator} to {target}"))
        .collect();
    match disks.is_empty() {
        true => writeln!(out, "Session with {target}")?,
        false => writeln!(out, "{}: {target}", disks.join(", "))?,
    }
    let software = |role: &str, software: Software| match software {
        Software::Unknown => None,
        known => Some(format!("{role} {}", known.in_words())),
    };
    let here = match session.role {
        Role::Initiator => "this host is the initiator",
        Role::Target => "this host is the target",
        Role::Both => "both ends are on this host",
    };
    let told = [
        Some(here.to_owned()),
        software("initiator", session.initiator),
        software("target", session.target),
        session
            .process
            .as_ref()
            .map(|process| format!("process {process}")),
    ];
    let told: Vec<String> = told.into_iter().flatten().collect();
    writeln!(out, "  {}; {}", ends.join(", "), told.join(", "))
}

fn disk(disk: &Disk) -> String {
    match &disk.multipath {
        Some(above) => format!("{} (LUN {}, a path of {})", disk.name, disk.lun, above.name),
        None => format!("{} (LUN {})", disk.name, disk.lun),
    }
}
