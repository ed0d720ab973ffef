//! The folder of one run.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::macros::format_description;

use wansan_schema::FileFacts;

use super::RecordError;
use crate::plan::Plan;

/// Folder for copies of the files that a plan names.
const FILES: &str = "files";

/// A run's folder. Until [`RunFolder::keep`] is called, dropping it removes it, with the parents that were created for
/// it, so that a run that never started leaves no trace.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// Its parents that did not exist before the run, innermost first.
    missing: Vec<PathBuf>,
    kept: bool,
}

impl RunFolder {
    /// Creates the folder `<root>/<plan>/<UTC time>-<short hash>`.
    ///
    /// # Errors
    /// [`RecordError`] if it cannot be created.
    pub fn create(root: &Path, plan: &Plan) -> Result<RunFolder, RecordError> {
        let parent = root.join(plan.name());
        let missing = missing(&parent);
        fs::create_dir_all(&parent).map_err(failed("make the folder", &parent))?;
        let stem = format!("{}-{}", time_stamp(), plan_hash(plan));
        // Two labs may start the same plan in the same second.
        let mut number = 1u32;
        loop {
            let name = if number == 1 {
                stem.clone()
            } else {
                format!("{stem}-{number}")
            };
            let path = parent.join(name);
            match fs::create_dir(&path) {
                Ok(()) => {
                    return Ok(RunFolder {
                        path,
                        missing,
                        kept: false,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(failed("make the folder", &path)(error)),
            }
        }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of a cell, not yet created.
    #[must_use]
    pub fn cell(&self, number: u64) -> CellFolder {
        CellFolder(self.path.join(format!("cell-{number:03}")))
    }

    /// Whether the folder is kept when this is dropped.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.kept
    }

    /// Keeps the folder, however the run ends.
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// Removes the folder of an incomplete cell, and the whole folder if it was the first cell.
    pub fn discard(&mut self, cell: u64) {
        self.kept &= cell > 0;
        self.cell(cell).remove();
    }

    /// Copies the files that the plan names; returns the copies' relative paths, by name in the plan.
    ///
    /// # Errors
    /// [`RecordError`] if they cannot be written.
    pub fn copy_files(&self, plan: &Plan) -> Result<BTreeMap<String, FileFacts>, RecordError> {
        let folder = self.path.join(FILES);
        if !plan.files().is_empty() {
            fs::create_dir(&folder).map_err(failed("make the folder", &folder))?;
        }
        let mut facts = BTreeMap::new();
        for file in plan.files() {
            let sha256 = file.sha256();
            // Files in different folders may have the same name.
            let name = Path::new(&file.name).file_name().unwrap_or_default();
            let copy = format!("{FILES}/{}-{}", &sha256[..8], name.to_string_lossy());
            let path = self.path.join(&copy);
            fs::write(&path, &file.text).map_err(failed("write", &path))?;
            facts.insert(file.name.clone(), FileFacts { sha256, copy });
        }
        Ok(facts)
    }

    /// Writes a JSON file atomically.
    ///
    /// # Errors
    /// [`RecordError`] if it cannot be written.
    pub fn write_json(&self, name: &str, content: &impl Serialize) -> Result<(), RecordError> {
        let mut text = serde_json::to_string_pretty(content)
            .map_err(|error| failed("write", &self.path.join(name))(error.into()))?;
        text.push('\n');
        self.write(name, &text)
    }

    /// Writes a file atomically.
    ///
    /// # Errors
    /// [`RecordError`] if it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<(), RecordError> {
        let path = self.path.join(name);
        let unfinished = self.path.join(format!(".{name}.unfinished"));
        fs::write(&unfinished, text)
            .and_then(|()| fs::rename(&unfinished, &path))
            .map_err(failed("write", &path))
    }
}

/// The folder of a cell's records.
#[derive(Debug, Clone)]
pub struct CellFolder(PathBuf);

impl CellFolder {
    /// The folder of a cell outside a run.
    pub(crate) fn alone(path: PathBuf) -> CellFolder {
        CellFolder(path)
    }

    /// Its path; it may not exist yet.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Creates it.
    ///
    /// # Errors
    /// [`RecordError`] if it cannot be created.
    pub fn make(&self) -> Result<&Path, RecordError> {
        fs::create_dir(&self.0).map_err(failed("make the folder", &self.0))?;
        Ok(&self.0)
    }

    /// Removes it with its contents.
    pub fn remove(&self) {
        // Ignore errors: somebody else may own what remains.
        let _ = fs::remove_dir_all(&self.0);
    }

    /// Removes it if empty.
    pub fn remove_if_empty(&self) {
        // The kernel refuses to remove a nonempty folder.
        let _ = fs::remove_dir(&self.0);
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if !self.kept {
            // Best effort: somebody else may own what remains. Parents are removed only if empty.
            let _ = fs::remove_dir_all(&self.path);
            for folder in &self.missing {
                let _ = fs::remove_dir(folder);
            }
        }
    }
}

/// The folders to create for `path`, innermost first.
fn missing(path: &Path) -> Vec<PathBuf> {
    path.ancestors()
        .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
        .map(Path::to_owned)
        .collect()
}

pub(super) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordError {
    let path = path.to_owned();
    move |source| RecordError {
        action,
        path,
        source,
    }
}

fn time_stamp() -> String {
    let format = format_description!("[year][month][day]T[hour][minute][second]Z");
    OffsetDateTime::now_utc()
        .format(&format)
        .expect("the format has no part that can fail")
}

/// Eight hexadecimal digits of the SHA-256 of the resolved plan and its files: equal for equivalent plans.
fn plan_hash(plan: &Plan) -> String {
    let text = serde_json::to_string(plan.document()).expect("a plan is plain data");
    let mut hash = Sha256::new_with_prefix(text.as_bytes());
    for file in plan.files() {
        hash.update(file.sha256());
    }
    hash.finalize()
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "title = \"t\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
        [[path]]\nbetween = [\"a\", \"b\"]\ndelay = \"1ms\"\n\
        [target]\nhost = \"a\"\nluns = [\"memory:1MiB\"]\n[[initiator]]\nhost = \"b\"\n\
        [workload]\nop = \"read\"\nblock = \"4KiB\"\ntime = \"1s\"\n";

    #[test]
    fn a_folder_that_is_not_kept_goes_away() {
        let root = tempfile::tempdir().unwrap();
        let plan = Plan::parse(Path::new("trial.toml"), PLAN).unwrap();
        let path = {
            let folder = RunFolder::create(&root.path().join("a/b/c"), &plan).unwrap();
            folder.cell(0).make().unwrap();
            folder.write_json("results.json", &1).unwrap();
            folder.path().to_owned()
        };
        assert!(!path.exists());
        assert!(!root.path().join("a").exists());
        assert!(root.path().exists());
    }

    #[test]
    fn a_cell_without_records_leaves_no_folder() {
        let root = tempfile::tempdir().unwrap();
        let plan = Plan::parse(Path::new("trial.toml"), PLAN).unwrap();
        let run = RunFolder::create(root.path(), &plan).unwrap();
        for (number, records) in [(0, true), (1, false)] {
            let cell = run.cell(number);
            let path = cell.make().unwrap().to_owned();
            if records {
                fs::write(path.join("io.parquet"), "").unwrap();
            }
            cell.remove_if_empty();
            assert_eq!(path.exists(), records);
            cell.remove();
            assert!(!path.exists());
        }
    }

    #[test]
    fn folders_that_were_there_before_the_run_stay() {
        let root = tempfile::tempdir().unwrap();
        let plan = Plan::parse(Path::new("trial.toml"), PLAN).unwrap();
        let (out, of_plan) = (root.path().join("out"), root.path().join("runs/trial"));
        fs::create_dir(&out).unwrap();
        fs::create_dir_all(&of_plan).unwrap();
        drop(RunFolder::create(&out, &plan).unwrap());
        drop(RunFolder::create(of_plan.parent().unwrap(), &plan).unwrap());
        assert!(!out.join("trial").exists());
        assert!(out.exists() && of_plan.exists());
    }

    #[test]
    fn a_folder_that_another_run_uses_stays() {
        let root = tempfile::tempdir().unwrap();
        let plan = Plan::parse(Path::new("trial.toml"), PLAN).unwrap();
        let runs = root.path().join("runs");
        let folder = RunFolder::create(&runs, &plan).unwrap();
        let other = RunFolder::create(&runs, &plan).unwrap();
        drop(folder);
        assert!(other.path().exists());
    }

    #[test]
    fn folders_of_the_same_second_are_told_apart() {
        let root = tempfile::tempdir().unwrap();
        let plan = Plan::parse(Path::new("trial.toml"), PLAN).unwrap();
        let mut folders: Vec<RunFolder> = (0..3)
            .map(|_| RunFolder::create(root.path(), &plan).unwrap())
            .collect();
        folders.iter_mut().for_each(RunFolder::keep);
        let same = Plan::parse(Path::new("trial.toml"), &PLAN.replace("1ms", "1000us")).unwrap();
        assert_eq!(plan_hash(&plan), plan_hash(&same));
        let other = Plan::parse(Path::new("trial.toml"), &PLAN.replace("1ms", "2ms")).unwrap();
        assert_ne!(plan_hash(&plan), plan_hash(&other));
        drop(folders);
        assert_eq!(fs::read_dir(root.path().join("trial")).unwrap().count(), 3);
    }

    #[test]
    fn a_plans_files_are_part_of_it() {
        let root = tempfile::tempdir().unwrap();
        let rates = root.path().join("rates.csv");
        let text = PLAN.replace(
            "delay = \"1ms\"",
            "rate = { file = \"rates.csv\" }\nback = { rate = { file = \"./rates.csv\" } }",
        );
        let read = |content: &str| {
            fs::write(&rates, content).unwrap();
            Plan::parse(&root.path().join("trial.toml"), &text).unwrap()
        };
        let (slow, fast) = (read("1s, 1Mbit/s\n"), read("1s, 2Mbit/s\n"));
        assert_ne!(plan_hash(&slow), plan_hash(&fast));
        let folder = RunFolder::create(&root.path().join("runs"), &slow).unwrap();
        let files = folder.copy_files(&slow).unwrap();
        // The file has changed since, the run's copy has not.
        assert_eq!(
            files.keys().collect::<Vec<_>>(),
            ["./rates.csv", "rates.csv"]
        );
        for facts in files.values() {
            let copy = fs::read_to_string(folder.path().join(&facts.copy)).unwrap();
            assert_eq!(copy, "1s, 1Mbit/s\n");
            assert_eq!(facts.sha256, slow.files()[0].sha256());
        }
    }
}
