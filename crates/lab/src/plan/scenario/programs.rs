//! Settings that the programs of a cell would reject: the target, the benches, and TCP under them.

use wansan_iscsi::text::send_targets::is_iscsi_name;
use wansan_san::store::{Backing, LunSpec};
use wansan_trace::units::format_bytes;

use crate::plan::document::{
    Document, RecordKind, RelayTable, SessionTable, StreamTable, TargetTable, TcpTable, TraceTable,
    WorkloadTable, WorldKind,
};

/// Table and key of a mistake, and its text, which follows them.
type Wrong = (&'static str, &'static str, String);

/// Longest name of a congestion control (TCP_CA_NAME_MAX, without the terminator).
const MAX_CONTROL_BYTES: usize = 15;
/// Largest buffer that the kernel's settings accept.
const MAX_BUFFER_BYTES: u64 = i32::MAX as u64;

/// Checks the arguments of a cell's programs, with that many initiators.
pub(super) fn check(document: &Document, initiators: usize) -> Result<(), Wrong> {
    if let Some(table) = &document.target {
        target(table, document.world.kind)?;
    }
    workload(&document.workload)?;
    session(&document.session)?;
    tcp(&document.tcp)?;
    for table in &document.relay {
        relay(table)?;
    }
    for table in &document.stream {
        stream(table)?;
    }
    if initiators == 0 {
        return Ok(());
    }
    trace(&document.trace)?;
    let workload = &document.workload;
    if let Some(table) = &document.target {
        on_lun(workload, &table.luns[0])?;
    }
    if workload.load.verify && initiators > 1 {
        let what = format!(
            ": {initiators} initiators have the same LUN, and each has content of its own there; have \
             one, or leave it out"
        );
        return Err(("workload", "verify", what));
    }
    Ok(())
}

fn target(target: &TargetTable, world: WorldKind) -> Result<(), Wrong> {
    if !is_iscsi_name(&target.name) {
        let begin: String = target.name.chars().take(64).collect();
        let what = format!(
            " = {begin:?} is not an iSCSI name: write one such as \"iqn.2026-11.net.example:disk\""
        );
        return Err(("target", "name", what));
    }
    if target.luns.is_empty() {
        let what = ": list at least one, such as \"memory:1GiB\"";
        return Err(("target", "luns", what.to_owned()));
    }
    for lun in &target.luns {
        if let Backing::File {
            path,
            size_bytes: None,
            ..
        } = &lun.backing
            // A real host's file is on that host, not here.
            && world != WorldKind::Hosts
            && let Err(error) = path.metadata()
        {
            let what = format!(": `{lun}`: {error}; `size=` makes the file");
            return Err(("target", "luns", what));
        }
    }
    Ok(())
}

fn workload(workload: &WorkloadTable) -> Result<(), Wrong> {
    let block = workload.load.block;
    if !block.0.is_multiple_of(512) {
        let what = format!(" = {block} is not a multiple of 512B");
        return Err(("workload", "block", what));
    }
    Ok(())
}

/// Checks that I/Os fit into LUN 0, if the plan determines its size.
fn on_lun(workload: &WorkloadTable, lun: &LunSpec) -> Result<(), Wrong> {
    let block = workload.load.block.0;
    let size_bytes = match &lun.backing {
        Backing::Memory { size_bytes, .. } => Some(*size_bytes),
        Backing::File { size_bytes, .. } => *size_bytes,
    };
    let what = if size_bytes.is_some_and(|size_bytes| block > size_bytes) {
        "is longer than"
    } else if !block.is_multiple_of(u64::from(lun.block_bytes)) {
        "is not a whole number of the blocks of"
    } else {
        return Ok(());
    };
    let what = format!(" = {} {what} LUN 0, `{lun}`", format_bytes(block));
    Err(("workload", "block", what))
}

fn session(session: &SessionTable) -> Result<(), Wrong> {
    let (first_burst, max_burst) = (
        session.negotiation.first_burst,
        session.negotiation.max_burst,
    );
    if first_burst > max_burst {
        let what = format!(
            " = {first_burst} is more than `session.max_burst` = {max_burst}: lower the first or raise \
             the second"
        );
        return Err(("session", "first_burst", what));
    }
    Ok(())
}

fn tcp(tcp: &TcpTable) -> Result<(), Wrong> {
    let name = &tcp.congestion_control;
    control(name).map_err(|what| ("tcp", "congestion_control", what))?;
    if let Err(what) = tcp.control.check(name) {
        return Err(("tcp", "control", format!(": {what}")));
    }
    for (key, sizes) in [("rmem", tcp.rmem), ("wmem", tcp.wmem)] {
        let wrong = sizes
            .0
            .iter()
            .find(|size| !(1..=MAX_BUFFER_BYTES).contains(&size.0));
        if let Some(size) = wrong {
            let what = format!(": {size} is not within 1B to {MAX_BUFFER_BYTES}B");
            return Err(("tcp", key, what));
        }
        if !sizes.0.is_sorted() {
            let [least, first, greatest] = sizes.0;
            let what = format!(
                ": {least}, {first}, {greatest} are not in order: give the least, the first and the \
                 greatest size"
            );
            return Err(("tcp", key, what));
        }
    }
    Ok(())
}

/// Checks that a congestion control could have that name.
fn control(name: &str) -> Result<(), String> {
    if (1..=MAX_CONTROL_BYTES).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(());
    }
    let begin: String = name.chars().take(64).collect();
    Err(format!(
        " = {begin:?} is not a congestion control name, which has 1 to {MAX_CONTROL_BYTES} letters"
    ))
}

/// Checks the congestion controls of a relay's sides.
fn relay(relay: &RelayTable) -> Result<(), Wrong> {
    for side in [&relay.flow.r#in, &relay.flow.out] {
        if let Some(name) = &side.congestion_control {
            control(name).map_err(|what| ("relay", "congestion_control", what))?;
        }
    }
    Ok(())
}

/// Checks the congestion control of a stream.
fn stream(stream: &StreamTable) -> Result<(), Wrong> {
    match &stream.stream.congestion_control {
        Some(name) => control(name).map_err(|what| ("stream", "congestion_control", what)),
        None => Ok(()),
    }
}

fn trace(trace: &TraceTable) -> Result<(), Wrong> {
    if trace.kinds.contains(&RecordKind::Io) {
        return Ok(());
    }
    let what = " lacks \"io\": cells are explained from records of their I/Os";
    Err(("trace", "kinds", what.to_owned()))
}
