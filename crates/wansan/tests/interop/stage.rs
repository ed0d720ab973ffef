//! What the tests share: temporary folders, and blocks to write and compare.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
pub(crate) use wansan_peers::trial::{Stop, require};
use wansan_peers::wansan::{self, Target};

/// The binary under test.
pub(crate) const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
/// What one program may take before the test fails: generous, as the machine may be busy.
pub(crate) const LIMIT: Duration = Duration::from_secs(180);
/// Logical block size of every unit.
pub(crate) const BLOCK_BYTES: u64 = 512;

/// Fails unless every one of `lines` is in `printed` as a line of its own.
pub(crate) fn require_lines(printed: &str, lines: &[&str]) -> Result<(), Stop> {
    for line in lines {
        require(
            printed.lines().any(|printed| printed.trim() == *line),
            || format!("no line '{line}' in:\n{printed}"),
        )?;
    }
    Ok(())
}

/// A folder that goes with the test.
pub(crate) fn folder() -> Result<TempDir, Stop> {
    Ok(TempDir::with_prefix("wansan-test-")?)
}

/// Our target with `units`, each as `--lun` takes it.
pub(crate) fn own_target(units: &[&str]) -> Result<Target, Stop> {
    let arguments: Vec<&str> = units.iter().flat_map(|unit| ["--lun", unit]).collect();
    Ok(Target::start(Path::new(WANSAN), &arguments)?)
}

/// Runs `count` I/Os of our load generator on the unit at `url` and fails unless all of them went
/// well. returns what it printed.
pub(crate) fn load(url: &str, count: u64, arguments: &[&str]) -> Result<Value, Stop> {
    let count_text = count.to_string();
    let arguments = [&["--count", &count_text][..], arguments].concat();
    let printed = wansan::bench(Path::new(WANSAN), url, &arguments, LIMIT)?;
    let done = printed["ios"] == count && printed["errors"] == 0;
    require(done, || {
        format!("not {count} I/Os without an error: {printed}")
    })?;
    Ok(printed)
}

/// A file of `mebibytes` MiB in `folder` in which no two blocks are alike.
pub(crate) fn distinct_disk(folder: &Path, name: &str, mebibytes: u64) -> Result<PathBuf, Stop> {
    let path = folder.join(name);
    let mut file = BufWriter::with_capacity(1 << 20, File::create(&path)?);
    // A step of Weyl's sequence for each word: distinct, and nothing that compresses by chance.
    let mut word = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..mebibytes << 17 {
        word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
        file.write_all(&word.to_le_bytes())?;
    }
    file.flush()?;
    Ok(path)
}

/// A file of `mebibytes` MiB of zeros in `folder`.
pub(crate) fn empty_disk(folder: &Path, name: &str, mebibytes: u64) -> Result<PathBuf, Stop> {
    let path = folder.join(name);
    File::create(&path)?.set_len(mebibytes << 20)?;
    Ok(path)
}

/// Fails unless both files hold the same bytes.
pub(crate) fn require_equal(one: &Path, other: &Path) -> Result<(), Stop> {
    let lengths = (one.metadata()?.len(), other.metadata()?.len());
    require(lengths.0 == lengths.1, || {
        format!(
            "{} has {} bytes, {} has {}",
            one.display(),
            lengths.0,
            other.display(),
            lengths.1
        )
    })?;
    let mut files = (
        BufReader::new(File::open(one)?),
        BufReader::new(File::open(other)?),
    );
    let mut chunks = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let mut offset_bytes = 0;
    while offset_bytes < lengths.0 {
        let chunk_bytes = (lengths.0 - offset_bytes).min(1 << 20) as usize;
        files.0.read_exact(&mut chunks.0[..chunk_bytes])?;
        files.1.read_exact(&mut chunks.1[..chunk_bytes])?;
        let (a, b) = (&chunks.0[..chunk_bytes], &chunks.1[..chunk_bytes]);
        let differs = a.iter().zip(b).position(|(a, b)| a != b);
        require(differs.is_none(), || {
            let at = offset_bytes + differs.unwrap_or_default() as u64;
            format!(
                "{} and {} differ at byte {at}",
                one.display(),
                other.display()
            )
        })?;
        offset_bytes += chunk_bytes as u64;
    }
    Ok(())
}

/// The text of a path; the tests' own folders have no other names.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have UTF-8 names")
}
