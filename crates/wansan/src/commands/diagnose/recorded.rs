//! What a diagnosis saw, as records in a folder: a cell for each slice of time.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use wansan_insight::capture::Capture;
use wansan_trace::file;

use crate::commands::remark;

/// Memory for the records of each end while they are written: more than those of as many segments and PDUs as a slice keeps.
const MEMORY_BYTES: usize = 512 << 20;

/// A folder that records go to.
pub(super) struct Recorded {
    folder: PathBuf,
    /// Whether it was made for this.
    is_made: bool,
    cells: u64,
    dropped: u64,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if self.is_made {
            // Only an empty folder can be removed this way: one with records stays.
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

impl Recorded {
    /// Makes the folder.
    ///
    /// # Errors
    /// It cannot be made, or has something in it.
    pub(super) fn prepare(folder: &Path) -> Result<Recorded> {
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
        Ok(())
    }

    /// Says what was written.
    pub(super) fn end(self) {
        let folder = self.folder.display();
        match self.cells {
            0 => remark(&format!(
                "{folder}: nothing was recorded, as no PDUs passed"
            )),
            _ => remark(&format!("recorded: `wansan explain {folder}` reads it")),
        }
        if self.dropped > 0 {
            remark(&format!(
                "wansan diagnose: {} records found no room",
                self.dropped
            ));
        }
    }
}
