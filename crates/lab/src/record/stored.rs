//! Stored runs: finds them and reads their results.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use time::OffsetDateTime;
use time::macros::format_description;
use wansan_schema::{Manifest, Results};

/// Longest results.json or manifest.json, in bytes.
const MAX_JSON_BYTES: u64 = 256 << 20;
/// Most run names listed in an error about ambiguity.
const MAX_NAMED: usize = 4;
const RESULTS: &str = "results.json";
const MANIFEST: &str = "manifest.json";

/// A stored run.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    /// Its folder.
    pub folder: PathBuf,
    /// Its results.
    pub results: Results,
    /// Its manifest.
    pub manifest: Manifest,
}

/// Why a run cannot be read. Each message is one line.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// No run of that name.
    #[error("{wanted}: no run: neither a run folder, nor a plan with runs in {out}, nor a prefix of a run's name there (`wansan lab list`)", out = .out.display())]
    NoRun {
        /// The requested name.
        wanted: String,
        /// The folder searched.
        out: PathBuf,
    },
    /// Several runs match.
    #[error("{wanted}: {count} runs match: {named}; give a longer prefix")]
    Ambiguous {
        /// The requested name.
        wanted: String,
        /// Number of matches.
        count: usize,
        /// Some of them.
        named: String,
    },
    /// A file of the run cannot be read, or has unexpected contents.
    #[error("{}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

impl StoredRun {
    /// Reads the run in `folder`. An unreadable or missing manifest reads as empty: the results matter more.
    ///
    /// # Errors
    /// [`StoredError::Unreadable`] if results.json is missing or not a run's.
    pub fn read(folder: &Path) -> Result<StoredRun, StoredError> {
        let path = folder.join(RESULTS);
        let unreadable = |reason: String| StoredError::Unreadable {
            path: path.clone(),
            reason,
        };
        let text = read_json(&path).map_err(|error| unreadable(error.to_string()))?;
        let mut results = Results::from_json(&text)
            .map_err(|error| unreadable(format!("not the results of a run: {error}")))?;
        // Earlier versions wrote 0 for what a failed cell had not measured.
        for cell in results
            .cells
            .iter_mut()
            .filter(|cell| cell.failure.is_some())
        {
            (cell.iops, cell.bytes_per_s) = (None, None);
            (cell.measured_from_ns, cell.measured_to_ns) = (None, None);
        }
        let manifest = read_json(&folder.join(MANIFEST))
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        Ok(StoredRun {
            folder: folder.to_owned(),
            results,
            manifest,
        })
    }

    /// The run identified by `wanted`: a folder's path, a plan's name (its newest run), or a folder name's prefix that
    /// is unique in `out`.
    ///
    /// # Errors
    /// [`StoredError`] if there is none, there are several, or it cannot be read.
    pub fn find(out: &Path, wanted: &str) -> Result<StoredRun, StoredError> {
        StoredRun::read(&StoredRun::folder_of(out, wanted)?)
    }

    /// The folder of the run identified by `wanted` in the same way.
    ///
    /// # Errors
    /// [`StoredError`] if there is none, or there are several.
    pub fn folder_of(out: &Path, wanted: &str) -> Result<PathBuf, StoredError> {
        let path = Path::new(wanted);
        if path.join(RESULTS).is_file() {
            return Ok(path.to_owned());
        }
        let folders = folders(out)?;
        let of_plan = folders.iter().rfind(|folder| plan_of(folder) == wanted);
        if let Some(newest) = of_plan {
            return Ok(newest.clone());
        }
        let begins = |folder: &&PathBuf| {
            let name = name_of(folder);
            !wanted.is_empty()
                && (name.starts_with(wanted)
                    || format!("{}/{name}", plan_of(folder)).starts_with(wanted))
        };
        let begin: Vec<&PathBuf> = folders.iter().filter(begins).collect();
        match &begin[..] {
            [only] => Ok((*only).clone()),
            [] => Err(StoredError::NoRun {
                wanted: wanted.to_owned(),
                out: out.to_owned(),
            }),
            several => Err(StoredError::Ambiguous {
                wanted: wanted.to_owned(),
                count: several.len(),
                named: named(several),
            }),
        }
    }

    /// Its unique name: plan name and folder name.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.results.plan, name_of(&self.folder))
    }

    /// Its start, as `2026-11-21 20:11:16`, if the manifest has it.
    #[must_use]
    pub fn began_utc(&self) -> Option<String> {
        let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
        let first = self.manifest.clock_anchors.first()?;
        let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(first.realtime_ns));
        time.ok()?.format(&format).ok()
    }

    /// Its duration, in ns; `None` if it did not complete.
    #[must_use]
    pub fn took_ns(&self) -> Option<u64> {
        match &self.manifest.clock_anchors[..] {
            [first, .., last] => last.monotonic_ns.checked_sub(first.monotonic_ns),
            _ => None,
        }
    }

    /// Expectations met, and their total.
    #[must_use]
    pub fn expectations(&self) -> (usize, usize) {
        let verdicts = &self.results.expectations;
        let met = verdicts.iter().filter(|verdict| verdict.met).count();
        (met, verdicts.len())
    }

    /// Whether every cell was measured and the run was judged.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        (self.results.finding.is_some() || self.results.is_judged_without_ios)
            && self.results.cells.iter().all(|cell| cell.failure.is_none())
    }
}

/// The runs in the folder `out`, oldest first; an error for each unreadable one.
///
/// # Errors
/// [`StoredError::Unreadable`] if `out` itself cannot be read. If it does not exist, there are no runs.
pub fn list(out: &Path) -> Result<Vec<Result<StoredRun, StoredError>>, StoredError> {
    let mut folders = folders(out)?;
    // Names start with the time.
    folders.sort_by_key(|folder| (name_of(folder), plan_of(folder)));
    Ok(folders
        .iter()
        .map(|folder| StoredRun::read(folder))
        .collect())
}

/// The run folders in `out`, by plan and time.
fn folders(out: &Path) -> Result<Vec<PathBuf>, StoredError> {
    let mut runs = Vec::new();
    for plan in subfolders(out)? {
        let of_plan = subfolders(&plan)?;
        runs.extend(of_plan.into_iter().filter(|run| run.join(RESULTS).exists()));
    }
    Ok(runs)
}

/// The folders in a folder, sorted by name.
fn subfolders(folder: &Path) -> Result<Vec<PathBuf>, StoredError> {
    let unreadable = |error: &io::Error| StoredError::Unreadable {
        path: folder.to_owned(),
        reason: error.to_string(),
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(&error)),
    };
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| unreadable(&error))?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}

fn read_json(path: &Path) -> io::Result<String> {
    let length = fs::metadata(path)?.len();
    if length > MAX_JSON_BYTES {
        return Err(io::Error::other(format!(
            "{length} bytes are too many (at most {MAX_JSON_BYTES})"
        )));
    }
    fs::read_to_string(path)
}

fn name_of(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn plan_of(folder: &Path) -> String {
    folder.parent().map_or_else(String::new, name_of)
}

fn named(folders: &[&PathBuf]) -> String {
    let mut names: Vec<String> = folders
        .iter()
        .take(MAX_NAMED)
        .map(|folder| format!("{}/{}", plan_of(folder), name_of(folder)))
        .collect();
    if folders.len() > MAX_NAMED {
        names.push("…".to_owned());
    }
    names.join(", ")
}
