//! Records a diagnosis in a folder: a cell per slice; the oldest are removed for newer ones.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use wansan_insight::capture::Capture;
use wansan_trace::{file, units};

use crate::commands::remark;

/// Memory for the records of each end while they are written: more than for all segments and PDUs that a slice keeps.
const MEMORY_BYTES: usize = 512 << 20;

/// A folder of records.
pub(super) struct Recorded {
    folder: PathBuf,
    /// Whether it was created for this.
    is_made: bool,
    /// Most bytes of all cells together.
    most_bytes: u64,
    /// The cells, oldest first, with their sizes in bytes.
    kept: VecDeque<(PathBuf, u64)>,
    cells: u64,
    dropped: u64,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if self.is_made {
            // Removes an empty folder only: one with records stays.
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

impl Recorded {
    /// Creates the folder, for at most `most_bytes`.
    ///
    /// # Errors
    /// It cannot be created, or is not empty.
    pub(super) fn prepare(folder: &Path, most_bytes: u64) -> Result<Recorded> {
        let is_made = !folder.exists();
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        let mut entries = fs::read_dir(folder)
            .with_context(|| format!("cannot read the folder {}", folder.display()))?;
        if entries.next().is_some() {
            bail!(
                "{} is not empty: name a new folder with --record",
                folder.display()
            );
        }
        Ok(Recorded {
            folder: folder.to_owned(),
            is_made,
            most_bytes,
            kept: VecDeque::new(),
            cells: 0,
            dropped: 0,
        })
    }

    /// Writes the records of a slice.
    ///
    /// # Errors
    /// They cannot be written.
    pub(super) fn write(&mut self, capture: &Capture) -> Result<()> {
        let cell = self.folder.join(format!("cell-{:03}", self.cells));
        self.cells += 1;
        fs::create_dir(&cell)
            .with_context(|| format!("cannot create the folder {}", cell.display()))?;
        let ends = capture.record(MEMORY_BYTES);
        self.dropped += ends.iter().map(|(_, end)| end.dropped()).sum::<u64>();
        file::write_merged(&cell, &ends.each_ref().map(|(name, end)| (*name, end)))?;
        self.make_room_beside(cell)
    }

    /// Removes the oldest cells until the recording is within its limit, but never the newest.
    fn make_room_beside(&mut self, newest: PathBuf) -> Result<()> {
        let bytes = size(&newest)
            .with_context(|| format!("cannot read the folder {}", newest.display()))?;
        self.kept.push_back((newest, bytes));
        let mut all: u64 = self.kept.iter().map(|(_, bytes)| bytes).sum();
        while all > self.most_bytes
            && self.kept.len() > 1
            && let Some((oldest, bytes)) = self.kept.pop_front()
        {
            fs::remove_dir_all(&oldest)
                .with_context(|| format!("cannot remove the oldest slice {}", oldest.display()))?;
            all -= bytes;
        }
        Ok(())
    }

    /// Reports what was written.
    pub(super) fn end(self) {
        let folder = self.folder.display();
        let (all, kept) = (self.cells, self.kept.len() as u64);
        match all - kept {
            _ if all == 0 => remark(&format!(
                "{folder}: nothing was recorded, as no PDUs passed"
            )),
            0 => remark(&format!("recorded: `wansan explain {folder}` reads it")),
            removed => remark(&format!(
                "recorded: `wansan explain {folder}` reads the last {kept} of {all} slices; {removed} were removed to stay within \
                 --record-size {}",
                units::format_bytes(self.most_bytes)
            )),
        }
        if self.dropped > 0 {
            remark(&format!(
                "wansan diagnose: {} records were dropped for lack of memory",
                self.dropped
            ));
        }
    }
}

/// Total size of a cell's files, in bytes.
fn size(cell: &Path) -> std::io::Result<u64> {
    fs::read_dir(cell)?
        .map(|entry| Ok(entry?.metadata()?.len()))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_cells_make_room_and_the_newest_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("recorded");
        let mut recorded = Recorded::prepare(&folder, 2500).unwrap();
        let cells = || {
            let entries = fs::read_dir(&folder).unwrap().flatten();
            let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
            names.sort();
            names
        };
        for (cell, bytes, left) in [
            ("0", 1000, &["0"][..]),
            ("1", 1000, &["0", "1"][..]),
            ("2", 1000, &["1", "2"][..]),
            ("3", 300, &["1", "2", "3"][..]),
            ("4", 9000, &["4"][..]),
            ("5", 100, &["5"][..]),
        ] {
            let path = folder.join(cell);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("io.parquet"), vec![0; bytes / 2]).unwrap();
            fs::write(path.join("pdu.parquet"), vec![0; bytes / 2]).unwrap();
            recorded.make_room_beside(path).unwrap();
            assert_eq!(cells(), left);
        }
    }
}
