//! Exports a folder's records into a data set with Hive-style partitioning by host, date and session, so that engines
//! read only the partitions that a query needs.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::merge::Merging;
use super::writer::Writer;
use super::{Dropped, FileError, Kind, check_host, folder_files};
use crate::field::Cell;
use crate::kind::{Column, Habit, hosts};
use crate::names::Vocabulary;
use crate::recorder::{Recorded, Visitor, visit_kinds};
use crate::{NameId, SessionId};

/// The column that, like the host, becomes a partition folder.
const SESSION: &str = "session";
/// Maximum number of open files; beyond it, the least recently written one is finished, and later rows for it go to
/// another file.
const MAX_OPEN: usize = 128;
/// Maximum number of rows buffered over all files.
const MAX_ROWS: usize = 1 << 20;

/// A recording's place in a data set.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// The data set's folder.
    pub lake: &'a Path,
    /// The date of the recording, for example `2026-11-26`.
    pub date: &'a str,
    /// The recording's unique name, which names its files.
    pub name: &'a str,
}

impl Part<'_> {
    /// The path of a file: `TABLE/host=HOST/date=DATE/session=SESSION/NAME.parquet`.
    ///
    /// # Errors
    /// [`FileError::HostName`] if the host cannot be used in a folder name.
    pub fn file(
        &self,
        table: &str,
        host: &str,
        session: Option<SessionId>,
    ) -> Result<PathBuf, FileError> {
        check_host(host)?;
        let folder = self.lake.join(table).join(format!("host={host}"));
        let mut folder = folder.join(format!("date={}", self.date));
        if let Some(session) = session {
            folder.push(format!(
                "{SESSION}={}",
                session.to_string().replace('/', "-")
            ));
        }
        fs::create_dir_all(&folder).map_err(|error| FileError::write(&folder, &error))?;
        Ok(folder.join(format!("{}.parquet", self.name)))
    }
}

/// The result of an export.
#[derive(Debug, Default)]
pub struct Spread {
    /// Rows, by kind.
    pub rows: BTreeMap<&'static str, u64>,
    /// The files.
    pub files: BTreeSet<PathBuf>,
}

/// Writes all records of a folder, merged or in parts, to a data set. Partition columns are not columns of the files;
/// every column has its description in their metadata. Files of the same names are replaced, so an export may be
/// repeated.
///
/// Memory: 32,768 rows per host, 1,048,576 buffered rows, and the name of each file.
///
/// # Errors
/// [`FileError`] if a file cannot be read, is damaged or not sorted, or cannot be written.
pub fn spread(folder: &Path, part: &Part<'_>) -> Result<Spread, FileError> {
    let kinds = Kinds {
        folder,
        part,
        spread: RefCell::default(),
    };
    visit_kinds(&kinds)?;
    Ok(kinds.spread.into_inner())
}

struct Kinds<'a> {
    folder: &'a Path,
    part: &'a Part<'a>,
    spread: RefCell<Spread>,
}

impl Visitor for Kinds<'_> {
    type Error = FileError;
    fn visit<T: Recorded>(&self) -> Result<(), FileError> {
        let files = folder_files::<T>(self.folder)?;
        if !files.is_empty() {
            let mut spread = self.spread.borrow_mut();
            let rows = spread_kind::<T>(&files, self.part, &mut spread.files)?;
            spread.rows.insert(T::NAME, rows);
        }
        Ok(())
    }
}

/// Identifies a row's file: its host, and its session if the kind has one.
type Key = (NameId, Option<u64>);

/// A file being written.
struct Open<T: Kind> {
    writer: Writer<T>,
    /// Number of the last row added.
    last: u64,
}

fn spread_kind<T: Kind>(
    files: &[PathBuf],
    part: &Part<'_>,
    written: &mut BTreeSet<PathBuf>,
) -> Result<u64, FileError> {
    let mut merging = Merging::<T>::open(files, &|_| None)?;
    let session = T::columns()
        .into_iter()
        .find(|column| column.name == SESSION);
    let mut open: BTreeMap<Key, Open<T>> = BTreeMap::new();
    let mut begun: BTreeMap<Key, u64> = BTreeMap::new();
    let (mut rows, mut waiting) = (0, 0);
    while let Some(mut row) = merging.next()? {
        let names = merging.names_mut();
        let session = session.as_ref().and_then(|column| column.of(&row, names));
        let key = (row.host, session);
        if !open.contains_key(&key) {
            if open.len() == MAX_OPEN {
                let oldest = open.iter().min_by_key(|(_, file)| file.last);
                let oldest = *oldest.expect("there are some").0;
                if let Some(file) = open.remove(&oldest) {
                    waiting -= file.writer.waiting();
                    file.writer.finish(names)?;
                }
            }
            let number = begun.entry(key).or_default();
            *number += 1;
            let path = part.file(T::NAME, names.get(row.host), session.map(SessionId))?;
            let path = match number {
                1 => path,
                _ => path.with_file_name(format!("{}-{number}.parquet", part.name)),
            };
            let columns = columns::<T>();
            let writer = Writer::described(&path, &Dropped::new(), columns)?;
            written.insert(path);
            open.insert(key, Open { writer, last: rows });
        }
        let file = open.get_mut(&key).expect("it has just been opened");
        let before = file.writer.waiting();
        let too_many = || FileError::foreign(&part.lake.join(T::NAME), "more than 65,536 names");
        // The host is in the folder's name; the recording takes its place.
        row.host = names.intern(part.name).ok_or_else(too_many)?;
        file.writer.push(row, names)?;
        file.last = rows;
        waiting = waiting + file.writer.waiting() - before;
        rows += 1;
        if waiting > MAX_ROWS {
            let fullest = open.values_mut().max_by_key(|file| file.writer.waiting());
            let fullest = fullest.expect("there are some");
            waiting -= fullest.writer.waiting();
            fullest.writer.write_group(names)?;
        }
    }
    for file in open.into_values() {
        file.writer.finish(merging.names_mut())?;
    }
    Ok(rows)
}

/// The columns of the files: the recording's name, then all but the partition columns.
fn columns<T: Kind>() -> Vec<Column<T>> {
    let run = Column {
        name: "run",
        about: " The recording, by the name of its files: what tells its tasks from those of others.",
        cell: Cell::Text(Vocabulary::Word),
        habit: Habit::Repeats,
        is_time: false,
        may_lack: false,
        json: None,
        may_be_null: false,
        get: hosts,
        set: |row, code, _| row.host = NameId(code as u16),
    };
    let own = T::columns().into_iter();
    let own = own.filter(|column| column.name != SESSION);
    std::iter::once(run).chain(own).collect()
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;
    use crate::file::tests::Folder;
    use crate::file::write_part;
    use crate::{ConnectionId, Direction, Instant, Kinds, Layer, Recorder, TaskTag};

    /// Counts the rows of each file below a folder, by path.
    fn count(folder: &Path, found: &mut BTreeMap<PathBuf, i64>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                count(&path, found);
            } else {
                let file = SerializedFileReader::new(fs::File::open(&path).unwrap()).unwrap();
                let facts = file.metadata().file_metadata();
                let columns = facts.schema_descr().columns().iter();
                let columns: Vec<&str> = columns.map(|column| column.name()).collect();
                assert_eq!(
                    columns,
                    ["run", "time_ns", "task", "connection", "layer", "direction"]
                );
                found.insert(path, facts.num_rows());
            }
        }
    }

    #[test]
    fn more_sessions_than_files_may_be_open_all_have_their_rows() {
        let scratch = Folder::new("spread");
        let (folder, lake) = (scratch.0.join("records"), scratch.0.join("lake"));
        fs::create_dir(&folder).unwrap();
        let kinds = Kinds {
            io: true,
            ..Kinds::NONE
        };
        let mut recorder = Recorder::new(kinds, 1 << 22);
        let sessions = 2 * MAX_OPEN as u64;
        // Alternate, so that each arrives after its file has been finished.
        for round in 0..3 {
            for session in 0..sessions {
                recorder.crossing(
                    Instant::from_ns(round * sessions + session),
                    SessionId(session << 16 | 1),
                    ConnectionId(0),
                    TaskTag(round as u32),
                    Layer::App,
                    Direction::Enter,
                );
            }
        }
        write_part(&folder, "array", &[recorder]).unwrap();
        let part = Part {
            lake: &lake,
            date: "2026-11-26",
            name: "trial",
        };
        // The second export replaces the first.
        for _ in 0..2 {
            let written = spread(&folder, &part).unwrap();
            assert_eq!(written.rows["io"], 3 * sessions);
            assert_eq!(written.files.len() as u64, 3 * sessions);
        }
        let mut found = BTreeMap::new();
        count(&lake, &mut found);
        assert_eq!(found.values().sum::<i64>(), 3 * sessions as i64);
        let first = lake.join("io/host=array/date=2026-11-26/session=000000000007-1");
        for name in ["trial.parquet", "trial-2.parquet", "trial-3.parquet"] {
            assert_eq!(found[&first.join(name)], 1, "{name}");
        }
    }
}
