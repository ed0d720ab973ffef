//! Exports a recording to a data lake: its records, and the waits of each session, as Parquet files partitioned by
//! host, date and session.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::macros::format_description;
use wansan_insight::ledger::WaitUse;
use wansan_insight::run::RunCell;
use wansan_insight::summary::{CellSummary, SessionUse};
use wansan_insight::window::Window;
use wansan_insight::{Analysis, Cell, ReadError, Run};
use wansan_schema::table::Table;
use wansan_schema::{LakeSession, LakeWait, Manifest};
use wansan_trace::SessionId;
use wansan_trace::event::{Crossing, Role};
use wansan_trace::file::{FileError, Kind, Part, Spread, spread};

use super::RecordError;
use super::export::CellTable;
use super::folder::failed;

/// Length of a file's tail that identifies it: its footer has a checksum of the rest.
const END_BYTES: u64 = 4096;
/// Host name if unknown.
const NOBODY: &str = "unknown";

/// Why a recording cannot be exported to a lake.
#[derive(Debug, thiserror::Error)]
pub enum LakeError {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] ReadError),
    /// Its records cannot be read, or the lake cannot be written.
    #[error(transparent)]
    Records(#[from] FileError),
    /// The lake cannot be written.
    #[error(transparent)]
    Lake(#[from] RecordError),
}

/// The result of an export.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Written {
    /// Records, by kind.
    pub records: BTreeMap<&'static str, u64>,
    /// Sessions, counted once per cell.
    pub sessions: u64,
}

/// Exports a recording, a run or a folder with programs' records, to the lake in a folder. Calls `ended` with the
/// number of completed cells and the total. Failed cells are left out. An earlier export of the recording is replaced,
/// once all of it is written.
///
/// Memory: as for explaining a cell, and for [`spread`].
///
/// # Errors
/// [`LakeError`].
pub fn write_lake(
    recording: &Path,
    lake: &Path,
    ended: &mut dyn FnMut(usize, usize),
) -> Result<Written, LakeError> {
    let run = Run::read(recording)?;
    let (name, date) = name_and_date(recording)?;
    let mut written = Written::default();
    let mut files = BTreeSet::new();
    let cells = run.cells.iter().filter(|cell| cell.failure.is_none());
    let cells: Vec<&RunCell> = cells.collect();
    for (place, cell) in cells.iter().enumerate() {
        let folder = run.cell_folder(cell)?;
        let name = match folder == recording {
            true => name.clone(),
            false => format!("{name}.cell-{:03}", cell.cell),
        };
        let part = Part {
            lake,
            date: &date,
            name: &name,
        };
        let Spread { rows, files: new } = spread(&folder, &part)?;
        files.extend(new);
        let has_ios = rows.get(Crossing::NAME).is_some_and(|rows| *rows > 0);
        for (kind, rows) in rows {
            *written.records.entry(kind).or_default() += rows;
        }
        if has_ios {
            written.sessions += write_sessions(&folder, cell.window, &part, &mut files)?;
        }
        ended(place + 1, cells.len());
    }
    remove_earlier(lake, &name, &files)?;
    Ok(written)
}

/// Removes files of an earlier export of a recording that are not among `files`: another version, or other records in
/// the same folder, may have been partitioned differently.
fn remove_earlier(
    lake: &Path,
    recording: &str,
    files: &BTreeSet<PathBuf>,
) -> Result<(), RecordError> {
    let mut folders = vec![(lake.to_owned(), true)];
    while let Some((folder, has_tables)) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(failed("read", &folder))? {
            let path = entry.map_err(failed("read", &folder))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                // Partitions are named COLUMN=VALUE.
                if has_tables || name.contains('=') {
                    folders.push((path, false));
                }
            } else if is_of(&name, recording) && !files.contains(&path) {
                fs::remove_file(&path).map_err(failed("remove", &path))?;
            }
        }
    }
    Ok(())
}

/// Whether a file belongs to a recording or one of its cells; a partition may have several of its files.
fn is_of(file: &str, recording: &str) -> bool {
    let rest = file.strip_prefix(recording);
    let Some(rest) = rest.and_then(|rest| rest.strip_suffix(".parquet")) else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let mut numbers = rest.strip_prefix(".cell").unwrap_or(rest).split('-');
    numbers.next() == Some("") && numbers.all(is_number)
}

/// Exports each session's performance and waits for a cell; adds the files to `files`.
fn write_sessions(
    folder: &Path,
    window: Option<Window>,
    part: &Part<'_>,
    files: &mut BTreeSet<PathBuf>,
) -> Result<u64, LakeError> {
    let records = Cell::read(folder)?;
    let analysis = Analysis::of(&records, window);
    let summary = analysis.summary();
    let (ends, unknown) = (ends(&records), Ends::default());
    let mut by_host: BTreeMap<&str, [Vec<Map<String, Value>>; 2]> = BTreeMap::new();
    let mut sessions = 0;
    for (session, waits) in analysis.waits_by_session() {
        let Some(used) = summary
            .sessions
            .iter()
            .find(|it| it.session == session.to_string())
        else {
            continue;
        };
        let ends = ends.get(&session).unwrap_or(&unknown);
        let [of_host, waits_of_host] = by_host.entry(&ends.host).or_default();
        let id = part_of_path(session);
        let weight = records.joined.weights.of_session(session);
        of_host.push(row(&session_row(
            part.name, &id, used, ends, &summary, weight,
        )));
        let waits = wait_rows(part.name, &id, &waits, weight);
        waits_of_host.extend(waits.iter().map(row));
        sessions += 1;
    }
    for (host, [sessions, waits]) in by_host {
        files.insert(write_rows(
            part,
            "sessions",
            host,
            LakeSession::TABLE,
            &sessions,
        )?);
        files.insert(write_rows(part, "waits", host, LakeWait::TABLE, &waits)?);
    }
    Ok(sessions)
}

fn session_row(
    run: &str,
    session: &str,
    used: &SessionUse,
    ends: &Ends,
    summary: &CellSummary,
    weight: f64,
) -> LakeSession {
    let scope = &used.scope;
    let dropped = summary.losses.dropped.values().flat_map(BTreeMap::values);
    LakeSession {
        run: run.to_owned(),
        session: session.to_owned(),
        initiator: ends.initiator.clone(),
        target: ends.target.clone(),
        measured_s: summary.window.seconds(),
        ios: all_ios(scope.ios, weight),
        iops: scope.iops,
        in_flight_mean: scope.layers.first().map_or(0.0, |top| top.in_flight_mean),
        latency_mean_ns: scope.latency.mean_ns,
        latency_p50_ns: scope.latency.p50_ns,
        latency_p99_ns: scope.latency.p99_ns,
        sampled_one_in: weight,
        records_dropped: dropped.sum(),
    }
}

fn wait_rows(run: &str, session: &str, waits: &WaitUse, weight: f64) -> Vec<LakeWait> {
    let rows = waits.sums.iter().map(|sum| LakeWait {
        run: run.to_owned(),
        session: session.to_owned(),
        limited_by: sum.cause.limit().name().to_owned(),
        cause: sum.cause.name().to_owned(),
        layer: sum.layer.name().to_owned(),
        way: sum.way.map_or("", |way| way.name()).to_owned(),
        source: sum.source.name().to_owned(),
        ios: all_ios(waits.ios, weight),
        wait_ns: sum.mean_ns,
        uncertain_ns: sum.uncertain_ns,
        share: sum.mean_ns / waits.latency_ns.max(1.0),
    });
    rows.collect()
}

/// The number of I/Os for which that many recorded ones stand.
fn all_ios(recorded: u64, weight: f64) -> u64 {
    (recorded as f64 * weight).round() as u64
}

fn row(of: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(of) {
        Ok(Value::Object(row)) => row,
        _ => unreachable!("a row is a struct of plain data"),
    }
}

fn write_rows(
    part: &Part<'_>,
    name: &str,
    host: &str,
    table: &'static Table,
    rows: &[Map<String, Value>],
) -> Result<PathBuf, LakeError> {
    let path = part.file(name, host, None)?;
    let unfinished = path.with_file_name(format!(".{}.unfinished", part.name));
    let write = || {
        let file = File::create(&unfinished)?;
        CellTable::of_rows(table, rows).write_described_parquet(table, file)?;
        fs::rename(&unfinished, &path)
    };
    write().map_err(failed("write", &path))?;
    Ok(path)
}

/// The ends of a session.
struct Ends {
    /// The initiator's host, or else the target's.
    host: String,
    initiator: String,
    target: String,
}

impl Default for Ends {
    fn default() -> Ends {
        Ends {
            host: NOBODY.to_owned(),
            initiator: String::new(),
            target: String::new(),
        }
    }
}

/// The ends of each session, from its first connection.
fn ends(records: &Cell) -> BTreeMap<SessionId, Ends> {
    let mut found: BTreeMap<SessionId, (Role, Ends)> = BTreeMap::new();
    for row in records.connection.iter().flat_map(|table| &table.rows) {
        let connection = &row.record;
        let is_initiator = match connection.role {
            Role::Initiator => true,
            Role::Target => false,
            _ => continue,
        };
        if found
            .get(&connection.session)
            .is_some_and(|(role, _)| *role == Role::Initiator || !is_initiator)
        {
            continue;
        }
        let text = |end: SocketAddr| end.to_string();
        let (local, remote) = (text(connection.local), text(connection.remote));
        let (initiator, target) = match is_initiator {
            true => (local, remote),
            false => (remote, local),
        };
        let names = records.connection.as_ref().map(|table| &table.names);
        let host = names.map_or(NOBODY, |names| names.get(row.host)).to_owned();
        let ends = Ends {
            host,
            initiator,
            target,
        };
        found.insert(connection.session, (connection.role, ends));
    }
    found
        .into_iter()
        .map(|(session, (_, ends))| (session, ends))
        .collect()
}

/// A session's name in paths.
fn part_of_path(session: SessionId) -> String {
    session.to_string().replace('/', "-")
}

/// A recording's unique name and its start date: for a run, from its folder and manifest; for records made by hand,
/// from the files' contents and modification times.
fn name_and_date(recording: &Path) -> Result<(String, String), RecordError> {
    let unreadable = failed("read", recording);
    let recording = recording.canonicalize().map_err(unreadable)?;
    let manifest = fs::read_to_string(recording.join("manifest.json")).ok();
    let manifest = manifest.and_then(|text| serde_json::from_str::<Manifest>(&text).ok());
    let own = recording
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if let Some(manifest) = manifest {
        let began = manifest
            .clock_anchors
            .first()
            .map_or(0, |anchor| anchor.realtime_ns);
        let began = OffsetDateTime::from_unix_timestamp_nanos(began.into());
        let date = began.map_or_else(|_| String::new(), date);
        return Ok((plain(&format!("{}.{own}", manifest.plan)), date));
    }
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(&recording).map_err(failed("read", &recording))? {
        let path = entry.map_err(failed("read", &recording))?.path();
        if path.extension().is_some_and(|it| it == "parquet") {
            files.push(path);
        }
    }
    files.sort();
    let (mut hash, mut newest) = (Sha256::new(), std::time::UNIX_EPOCH);
    for path in &files {
        let mut look = || -> io::Result<()> {
            let mut file = File::open(path)?;
            let facts = file.metadata()?;
            newest = newest.max(facts.modified()?);
            file.seek(SeekFrom::Start(facts.len().saturating_sub(END_BYTES)))?;
            let mut end = Vec::new();
            file.take(END_BYTES).read_to_end(&mut end)?;
            hash.update(&end);
            Ok(())
        };
        look().map_err(failed("read", path))?;
    }
    let digest: String = hash.finalize()[..4]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok((plain(&format!("{own}.{digest}")), date(newest.into())))
}

fn date(moment: OffsetDateTime) -> String {
    let format = format_description!("[year]-[month]-[day]");
    moment
        .format(&format)
        .expect("the format has no part that can fail")
}

/// A name that any file system and engine accepts, and that no engine treats as hidden.
fn plain(name: &str) -> String {
    let fit = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '.'
        }
    };
    let plain: String = name.chars().map(fit).collect();
    plain.trim_start_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_of_the_recording_that_they_are_called_after() {
        for (file, is_its) in [
            ("p2.run-1a.parquet", true),
            ("p2.run-1a-2.parquet", true),
            ("p2.run-1a.cell-012.parquet", true),
            ("p2.run-1a.cell-012-3.parquet", true),
            ("p2.run-1ab.parquet", false),
            ("p2.run-1a-2b.parquet", false),
            ("p2.run-1a.celled.parquet", false),
            ("p2.run-1a.csv", false),
            ("p2.run-1.parquet", false),
        ] {
            assert_eq!(is_of(file, "p2.run-1a"), is_its, "{file}");
        }
    }
}
