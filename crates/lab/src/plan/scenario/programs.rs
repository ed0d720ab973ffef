//! What the programs of a cell would refuse: the target, the benches, and TCP under them.

use std::time::Duration;

use wansan_iscsi::text::send_targets::is_iscsi_name;
use wansan_relay::{Law, ListenerConfig};
use wansan_san::store::{Backing, LunSpec};
use wansan_stream::MARK_EVERY_BYTES;
use wansan_tcp::buffers::Buffer;
use wansan_trace::units::{format_bytes, format_duration};

use crate::plan::document::{
    Document, RecordKind, RelayTable, SessionTable, StreamTable, TargetTable, TcpTable, TraceTable,
    WorkloadTable,
};
use crate::plan::quantity::Size;

/// The table and the key of what is wrong, and what is, as it follows on these.
type Wrong = (&'static str, &'static str, String);

/// The longest name of a congestion control (TCP_CA_NAME_MAX, with its end).
const MAX_CONTROL_BYTES: usize = 15;
/// The greatest buffer that the kernel's settings take.
const MAX_BUFFER_BYTES: u64 = i32::MAX as u64;

/// Checks what the programs of a cell with so many initiators are told.
pub(super) fn check(document: &Document, initiators: usize) -> Result<(), Wrong> {
    if let Some(table) = &document.target {
        target(table)?;
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
    if workload.verify && initiators > 1 {
        let what = format!(
            ": {initiators} initiators have the same LUN, and each has content of its own there; have \
             one, or leave it out"
        );
        return Err(("workload", "verify", what));
    }
    Ok(())
}

fn target(target: &TargetTable) -> Result<(), Wrong> {
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
        } = &lun.backing
            && let Err(error) = path.metadata()
        {
            let what = format!(": `{lun}`: {error}; `size=` makes the file");
            return Err(("target", "luns", what));
        }
    }
    Ok(())
}

fn workload(workload: &WorkloadTable) -> Result<(), Wrong> {
    let wrong = |key, what| Err(("workload", key, what));
    let time = workload.time.0;
    if !(Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&time) {
        let what = format!(" = {} is not within 100ms to 1h", format_duration(time));
        return wrong("time", what);
    }
    let warmup = workload.warmup.0;
    if warmup > Duration::from_secs(3600) {
        return wrong(
            "warmup",
            format!(" = {} is more than 1h", format_duration(warmup)),
        );
    }
    let block = workload.block.0;
    if block == 0 || !block.is_multiple_of(512) || block > 16 << 20 {
        let what = format!(
            " = {} is not a multiple of 512B up to 16MiB",
            format_bytes(block)
        );
        return wrong("block", what);
    }
    Ok(())
}

/// Whether I/Os fit LUN 0, as far as the plan says how large it is.
fn on_lun(workload: &WorkloadTable, lun: &LunSpec) -> Result<(), Wrong> {
    let block = workload.block.0;
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

/// Lengths that keys can have: 512 to 2^24 − 1 (RFC 7143 §13.12 to §13.14).
fn session(session: &SessionTable) -> Result<(), Wrong> {
    let lengths = [
        ("first_burst", session.first_burst),
        ("max_burst", session.max_burst),
        ("max_recv_data_segment", session.max_recv_data_segment),
    ];
    let wrong = lengths
        .into_iter()
        .find(|(_, length)| !(512..1 << 24).contains(&length.0));
    if let Some((key, length)) = wrong {
        let what = format!(" = {length} is not within 512B to 16777215B");
        return Err(("session", key, what));
    }
    if session.first_burst > session.max_burst {
        let what = format!(
            " = {} is more than `session.max_burst` = {}: lower the first or raise the second",
            session.first_burst, session.max_burst
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
            .iter()
            .find(|size| !(1..=MAX_BUFFER_BYTES).contains(&size.0));
        if let Some(size) = wrong {
            let what = format!(": {size} is not within 1B to {MAX_BUFFER_BYTES}B");
            return Err(("tcp", key, what));
        }
    }
    Ok(())
}

/// Whether a congestion control could have that name.
fn control(name: &str) -> Result<(), String> {
    if (1..=MAX_CONTROL_BYTES).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(());
    }
    let begin: String = name.chars().take(64).collect();
    Err(format!(
        " = {begin:?} is not a congestion control name, which has 1 to {MAX_CONTROL_BYTES} letters"
    ))
}

/// A size that has a range, if it is given at all.
fn within(size: Option<Size>, least: u64, most: u64) -> Result<(), String> {
    match size {
        Some(size) if !(least..=most).contains(&size.0) => Err(format!(
            " = {size} is not within {} to {}",
            format_bytes(least),
            format_bytes(most)
        )),
        _ => Ok(()),
    }
}

fn socket_buffer(size: Option<Size>) -> Result<(), String> {
    let (least, most) = Buffer::RANGE_BYTES;
    within(size, least, most)
}

/// The ranges of `wansan relay`.
fn relay(relay: &RelayTable) -> Result<(), Wrong> {
    let wrong = |key: &'static str| move |what| ("relay", key, what);
    let least = ListenerConfig::MIN_BUFFER_BYTES as u64;
    within(Some(relay.buffer), least, 1 << 30).map_err(wrong("buffer"))?;
    if let Some(Err(error)) = relay.law.as_ref().map(|law| law.parse::<Law>()) {
        return Err(("relay", "law", format!(": {error}")));
    }
    if relay.latency.is_some_and(|latency| latency.0.is_zero()) {
        return Err(("relay", "latency", " = 0s: a time is above 0".to_owned()));
    }
    for side in [&relay.r#in, &relay.out] {
        if let Some(name) = &side.congestion_control {
            control(name).map_err(wrong("congestion_control"))?;
        }
        socket_buffer(side.receive_buffer).map_err(wrong("receive_buffer"))?;
        socket_buffer(side.send_buffer).map_err(wrong("send_buffer"))?;
    }
    Ok(())
}

/// The ranges of `wansan stream`.
fn stream(stream: &StreamTable) -> Result<(), Wrong> {
    let wrong = |key: &'static str| move |what| ("stream", key, what);
    if let Some(name) = &stream.congestion_control {
        control(name).map_err(wrong("congestion_control"))?;
    }
    let (least, most) = MARK_EVERY_BYTES;
    within(Some(stream.every), least.into(), most.into()).map_err(wrong("every"))?;
    socket_buffer(stream.send_buffer).map_err(wrong("send_buffer"))?;
    socket_buffer(stream.receive_buffer).map_err(wrong("receive_buffer"))?;
    within(stream.unsent, 4096, 1 << 30).map_err(wrong("unsent"))?;
    if stream
        .rate
        .and_then(|rate| rate.0)
        .is_some_and(|rate| rate < 8000)
    {
        return Err(("stream", "rate", " is less than 8kbit/s".to_owned()));
    }
    Ok(())
}

fn trace(trace: &TraceTable) -> Result<(), Wrong> {
    if trace.kinds.contains(&RecordKind::Io) {
        return Ok(());
    }
    let what = " lacks \"io\": cells are explained from records of their I/Os";
    Err(("trace", "kinds", what.to_owned()))
}
