//! Reads the record files of one cell.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use wansan_trace::event::{Crossing, Packet, Path as PathSample, Pdu, Tcp};
use wansan_trace::file::{self, FileError, Kind, Table};

use crate::join::{Joined, join};
use crate::wire;

/// Why a cell or a run could not be read. Each is one line.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A record file is missing, damaged or foreign.
    #[error(transparent)]
    File(#[from] FileError),
    /// The folder holds no records of I/Os.
    #[error("{}: there is no io.parquet: is it a cell of a run folder, and were `io` records kept?", .0.display())]
    NoIo(PathBuf),
    /// The folder is not a run folder.
    #[error("{path}: {reason}", path = .path.display())]
    NotARun {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong, and what is expected.
        reason: String,
    },
}

/// The records of one cell, its I/Os joined. Kinds that were not recorded are `None`.
#[derive(Debug)]
pub struct Cell {
    /// The I/Os, with crossings of the wire where packets tell them.
    pub joined: Joined,
    /// Crossings that recorders lost, by host.
    pub io_dropped: file::Dropped,
    /// PDUs.
    pub pdu: Option<Table<Pdu>>,
    /// TCP samples and events.
    pub tcp: Option<Table<Tcp>>,
    /// Packets.
    pub packet: Option<Table<Packet>>,
    /// Path samples.
    pub path: Option<Table<PathSample>>,
}

impl Cell {
    /// Reads `folder`, a `cell-NNN` of a run folder.
    ///
    /// # Errors
    /// [`ReadError`] when there is no `io.parquet` or a file cannot be read.
    pub fn read(folder: &Path) -> Result<Cell, ReadError> {
        let io = optional::<Crossing>(folder)?.ok_or_else(|| ReadError::NoIo(folder.to_owned()))?;
        let mut joined = join(&io.rows);
        let pdu = optional::<Pdu>(folder)?;
        let packet = optional::<Packet>(folder)?;
        if let (Some(pdus), Some(packets)) = (&pdu, &packet) {
            wire::derive(&mut joined, &pdus.rows, packets);
        }
        Ok(Cell {
            joined,
            io_dropped: io.dropped,
            pdu,
            tcp: optional(folder)?,
            packet,
            path: optional(folder)?,
        })
    }

    /// Records that recorders lost, by kind and host; kinds and hosts that lost none are left out.
    #[must_use]
    pub fn dropped(&self) -> BTreeMap<String, BTreeMap<String, u64>> {
        fn of<T: Kind>(table: Option<&Table<T>>) -> (&'static str, Option<&file::Dropped>) {
            (T::NAME, table.map(|table| &table.dropped))
        }
        [
            (Crossing::NAME, Some(&self.io_dropped)),
            of(self.pdu.as_ref()),
            of(self.tcp.as_ref()),
            of(self.packet.as_ref()),
            of(self.path.as_ref()),
        ]
        .into_iter()
        .filter_map(|(kind, dropped)| {
            let lost: BTreeMap<String, u64> = dropped?
                .iter()
                .filter(|(_, count)| **count > 0)
                .map(|(host, count)| (host.clone(), *count))
                .collect();
            (!lost.is_empty()).then(|| (kind.to_owned(), lost))
        })
        .collect()
    }
}

/// The merged file of a kind, if it is there.
fn optional<T: Kind>(folder: &Path) -> Result<Option<Table<T>>, ReadError> {
    let path = file::merged_path::<T>(folder);
    if !path.exists() {
        return Ok(None);
    }
    Ok(Some(file::read(&path)?))
}
