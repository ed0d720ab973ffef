//! Prints a diagnosis as text.

use std::io::{self, Write};

use wansan_diagnose::Diagnosis;
use wansan_diagnose::block::Disk;
use wansan_diagnose::budget::CORE_SHARE;
use wansan_diagnose::change::{Change, PARALLEL, Predicted};
use wansan_diagnose::diagnosis::{SessionDiagnosis, Share};
use wansan_diagnose::host::{Ends, Role};
use wansan_diagnose::multipath::MultipathDiagnosis;
use wansan_diagnose::software::Software;
use wansan_diagnose::traced::DiskUse;
use wansan_trace::units::format_iops;

use crate::commands::explain::what_if::{limit, percent};
use crate::commands::grid::{grid, right};

/// Below this share of the time captured, the reason is printed.
const MOSTLY: f64 = 0.9;

/// Smallest share of the latency listed in the table.
const LEAST_SHARE: f64 = 0.005;

/// Prints the diagnosis.
pub(super) fn print(out: &mut dyn Write, diagnosis: &Diagnosis) -> io::Result<()> {
    let Diagnosis {
        seconds,
        looked_seconds,
        slices,
        ..
    } = diagnosis;
    match slices {
        0 | 1 => writeln!(out, "Watched for {seconds:.1} s:")?,
        _ if *looked_seconds >= MOSTLY * seconds => writeln!(
            out,
            "Watched for {seconds:.1} s, in {slices} slices of time. Of the slice with most I/O:"
        )?,
        _ => writeln!(
            out,
            "Watched for {seconds:.1} s, of which {looked_seconds:.1} s in {slices} slices were looked at, to use {:.0} % of a core \
             at most. Of the slice with most I/O:",
            CORE_SHARE * 100.0
        )?,
    }
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
    if !diagnosis.unfinished.is_empty() {
        let connections = listed(&diagnosis.unfinished);
        writeln!(
            out,
            "\nI/Os seen in part only, as they began before or ended after the time looked at: {connections}"
        )?;
    }
    if !diagnosis.quiet.is_empty() {
        writeln!(out, "\nWithout I/Os: {}", listed(&diagnosis.quiet))?;
    }
    Ok(())
}

fn listed(connections: &[Ends]) -> String {
    let connections: Vec<String> = connections.iter().map(Ends::to_string).collect();
    connections.join(", ")
}

fn print_session(out: &mut dyn Write, session: &SessionDiagnosis) -> io::Result<()> {
    title(out, session)?;
    let latency_ns = session.judgement.latency_ns;
    writeln!(
        out,
        "  {} IOPS, latency {:.2} ms, {:.1} commands outstanding on average, {} at most",
        format_iops(session.iops),
        latency_ns / 1e6,
        session.outstanding,
        session.outstanding_max,
    )?;
    if let Some(sampled) = &session.sampled {
        writeln!(
            out,
            "  in all {} slices with its I/Os: latency {:.2} ms, standard error {:.2} ms, {} IOPS; the same limit in {} of them",
            sampled.slices,
            sampled.latency_ns / 1e6,
            sampled.error_ns / 1e6,
            format_iops(sampled.iops),
            sampled.alike,
        )?;
    }
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
            format!("{:.1}", session.in_flight(share)),
            share.why.to_owned(),
            share.source.to_owned(),
        ]
    });
    let mut table = grid([
        "share",
        "mean",
        "",
        "in flight",
        "of an I/O's latency",
        "known from",
    ]);
    table.add_rows(rows);
    right(&mut table, 0..4);
    writeln!(out, "{table}\n")?;
    if session.disks.len() > 1 {
        writeln!(out, "{}\n", each_disk(&session.disks))?;
    }
    writeln!(out, "  {}", session.finding)?;
    if let Some(both) = &session.both_ends {
        writeln!(out, "  {}", both.sentence())?;
    }
    print_changes(out, &session.changes)
}

/// A table of a session's disks.
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
    for (place, change) in changes.iter().enumerate() {
        writeln!(out, "  {}:", change.what)?;
        for command in &change.commands {
            writeln!(out, "      {command}")?;
        }
        if let Some(note) = &change.note {
            writeln!(out, "      ({note})")?;
        }
        let is_same = |other: &Change| other.settings == change.settings;
        if let Some(predicted) = &change.predicted {
            match changes[..place].iter().any(is_same) {
                true => writeln!(out, "      predicted with the change before")?,
                false => writeln!(out, "      {}", prediction(change, predicted))?,
            }
        }
    }
    Ok(())
}

/// Describes a predicted effect.
fn prediction(change: &Change, predicted: &Predicted) -> String {
    let (least, median, most, binds_next) = match predicted {
        Predicted::Unknown(why) => return format!("not predicted: {why}"),
        Predicted::Gain {
            least,
            median,
            most,
            binds_next,
            ..
        } => (*least, *median, *most, binds_next),
    };
    let range = match percent(least) == percent(most) {
        true => String::new(),
        false => format!(" ({} … {})", percent(least), percent(most)),
    };
    let asked = change.settings.iter().find(|it| it.parameter == PARALLEL);
    let asked = asked.map(|it| format!(" with {} I/Os in flight", it.value));
    format!(
        "predicted: {} throughput{range}{}, then {}",
        percent(median),
        asked.unwrap_or_default(),
        limit(binds_next),
    )
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
