//! The destination of records.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use wansan_settings::record::RecordSettings;
use wansan_trace::Recorder;
use wansan_trace::file;

/// The destination of records, prepared in advance.
#[derive(Debug)]
pub(super) struct Recording {
    /// The folder and this host's name in it; `None` if nothing is recorded.
    place: Option<(PathBuf, String)>,
    /// The folder, if it was created for this recording.
    made: Option<PathBuf>,
}

impl Recording {
    /// The folder, if it was created for this recording.
    pub(super) fn made(&self) -> Option<PathBuf> {
        self.made.clone()
    }

    /// Writes the records, if requested.
    ///
    /// # Errors
    /// They cannot be written, or another program has written under the same name meanwhile.
    pub(super) fn write(&self, recorders: &[Recorder]) -> Result<()> {
        if let Some((folder, host)) = &self.place {
            refuse_to_overwrite(folder, host)?;
            file::write_part(folder, host, recorders)?;
        }
        Ok(())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Some(folder) = &self.made {
            // Removes an empty folder only: one with records stays.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Fails if `folder` has a recording that one of `host` would replace or mix with: a part of the same host, or merged
/// files.
fn refuse_to_overwrite(folder: &Path, host: &str) -> Result<()> {
    const PART: &str = ".part.parquet";
    let unreadable = || format!("cannot read the folder {}", folder.display());
    for entry in std::fs::read_dir(folder).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(&format!(".{host}{PART}")) {
            bail!(
                "{} is an earlier recording of host {host}: name another folder with --record, or \
                 another host with --host",
                path.display()
            );
        }
        if name.ends_with(".parquet") && !name.ends_with(PART) {
            bail!(
                "{} is an earlier recording: name another folder with --record",
                path.display()
            );
        }
    }
    Ok(())
}

/// Creates the folder and checks that it is free, so that an unusable one is reported before any work is done. Dropping
/// the returned value removes the folder, unless records were written to it. `part` is this host's default name.
///
/// # Errors
/// The folder cannot be used, or has an earlier recording that would be replaced.
pub(super) fn prepare(settings: &RecordSettings, part: &str) -> Result<Recording> {
    let Some(folder) = &settings.folder else {
        return Ok(Recording {
            place: None,
            made: None,
        });
    };
    let host = settings.host.as_ref().map_or(part, |host| host.0.as_str());
    let made = (!folder.exists()).then(|| folder.clone());
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    refuse_to_overwrite(folder, host)?;
    Ok(Recording {
        place: Some((folder.clone(), host.to_owned())),
        made,
    })
}
