//! Reads the record files of one cell.

use std::path::{Path, PathBuf};

use wansan_trace::event::Crossing;
use wansan_trace::file::{self, FileError, Table};

use crate::cell::Cell;
use crate::join::join;
use crate::ledger::FEWEST_IOS;
use crate::window::Window;

/// Why a cell or a run could not be read. Each is one line.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A record file is missing, damaged or foreign.
    #[error(transparent)]
    File(#[from] FileError),
    /// The folder holds no records of I/Os.
    #[error("{}: there are no io records in it (io.parquet, or io.HOST.part.parquet of each host): were they kept (`--record-kinds io`)?", .0.display())]
    NoIo(PathBuf),
    /// A run's index lists a cell that has no folder.
    #[error("{}: results.json lists cell {cell}, but there is no folder cell-{cell:03}: was it moved or removed?", run.display())]
    NoCell {
        /// The run's folder.
        run: PathBuf,
        /// The cell's number.
        cell: u64,
    },
    /// The records do not cover the measured time.
    #[error("{}: results.json says that {} ns to {} ns was measured, but the records are of {} ns to {} ns: are they of another run?", cell.display(), measured.from_ns, measured.to_ns, recorded.from_ns, recorded.to_ns)]
    NotMeasured {
        /// The cell's folder.
        cell: PathBuf,
        /// The time that the index says was measured.
        measured: Window,
        /// The time from the first to the last record.
        recorded: Window,
    },
    /// A sample of the I/Os is too small.
    #[error("{}: the sample of one I/O in {number} has only {ios} of them, of which at least {FEWEST_IOS} are needed: record more of them (a smaller `--record-sample`) or for longer", cell.display())]
    FewIos {
        /// The cell's folder.
        cell: PathBuf,
        /// One in this many was recorded.
        number: u32,
        /// The recorded ones.
        ios: usize,
    },
    /// The folder is not a run folder.
    #[error("{path}: {reason}", path = .path.display())]
    NotARun {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong, and what is expected.
        reason: String,
    },
}

impl Cell {
    /// Reads `folder`: a `cell-NNN` of a run folder, or a folder into which programs recorded by hand, with unmerged
    /// parts of each host.
    ///
    /// # Errors
    /// [`ReadError`] if there are no `io` records or a file cannot be read.
    pub fn read(folder: &Path) -> Result<Cell, ReadError> {
        let io = file::read_folder::<Crossing>(folder)?
            .ok_or_else(|| ReadError::NoIo(folder.to_owned()))?;
        let cell = Cell {
            joined: join(&io.rows),
            io_dropped: io.dropped,
            pdu: file::read_folder(folder)?.map(Table::into),
            connection: file::read_folder(folder)?,
            tcp: file::read_folder(folder)?,
            stamp: file::read_folder(folder)?,
            packet: file::read_folder(folder)?.map(Table::into),
            carriers: Vec::new(),
            path: file::read_folder(folder)?,
            thread: file::read_folder(folder)?,
            request: file::read_folder(folder)?,
        };
        let cell = cell.derive();
        let (sample, ios) = (cell.joined.sample, cell.joined.tasks.len());
        if !cell.joined.is_complete() && (ios as u64) < FEWEST_IOS {
            return Err(ReadError::FewIos {
                cell: folder.to_owned(),
                number: sample.number(),
                ios,
            });
        }
        Ok(cell)
    }

    /// Checks that the I/O records overlap the measured time. `folder` names the cell in the error.
    ///
    /// # Errors
    /// [`ReadError::NotMeasured`] if they do not.
    pub fn check_measured(&self, folder: &Path, measured: Window) -> Result<(), ReadError> {
        let recorded = self.joined.records;
        if recorded.overlap_ns(measured.from_ns, measured.to_ns) > 0 {
            return Ok(());
        }
        Err(ReadError::NotMeasured {
            cell: folder.to_owned(),
            measured,
            recorded,
        })
    }
}
