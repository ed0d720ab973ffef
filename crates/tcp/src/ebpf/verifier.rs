//! What libbpf and the kernel's verifier say while an object is loaded.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libbpf_rs::{PrintLevel, set_print};

use super::EbpfError;

/// The verifier's verdict of each instruction is asked for when it refuses (libbpf asks again by
/// itself); this level asks for its statistics only (`BPF_LOG_STATS`).
pub(super) const LOG_LEVEL: u32 = 4;

/// Libbpf speaks through one function for the whole process.
static HEARD: Mutex<String> = Mutex::new(String::new());
/// The folder, in the environment, where a developer wants all logs.
const FOLDER: &str = "WANSAN_VERIFIER_LOGS";

/// Held while an object is loaded, so that two do not speak at once.
static SPEAKING: Mutex<()> = Mutex::new(());

/// Gathers all that is said until it ends.
pub(super) struct Transcript {
    _alone: MutexGuard<'static, ()>,
}

impl Transcript {
    pub(super) fn begin() -> Transcript {
        let alone = SPEAKING.lock().unwrap_or_else(PoisonError::into_inner);
        heard().clear();
        set_print(Some((PrintLevel::Debug, |_, line| heard().push_str(&line))));
        Transcript { _alone: alone }
    }

    pub(super) fn end(self) -> String {
        set_print(None);
        std::mem::take(&mut heard())
    }
}

fn heard() -> MutexGuard<'static, String> {
    HEARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error of an object that could not be loaded or attached, with what was said (`log`) kept in a file.
#[must_use]
pub fn refused(object: &'static str, error: &libbpf_rs::Error, log: &str) -> EbpfError {
    let reason = error.to_string().replace('\n', " ");
    let folder = wanted_folder().unwrap_or_else(std::env::temp_dir);
    match keep(&folder, object, log) {
        Ok(log) => EbpfError::Refused {
            object,
            reason,
            log,
        },
        Err(source) => EbpfError::RefusedUnkept {
            object,
            reason,
            source,
        },
    }
}

fn wanted_folder() -> Option<PathBuf> {
    let folder = std::env::var_os(FOLDER)?;
    (!folder.is_empty()).then(|| folder.into())
}

/// Keeps the log of an object that the kernel has taken, where somebody wants it.
pub(super) fn keep_where_asked(object: &'static str, log: &str) -> Result<(), EbpfError> {
    let Some(folder) = wanted_folder() else {
        return Ok(());
    };
    match keep(&folder, object, log) {
        Ok(_) => Ok(()),
        Err(source) => Err(EbpfError::Unkept {
            object,
            folder,
            source,
        }),
    }
}

/// Writes the log to a new file in `folder`.
fn keep(folder: &Path, object: &str, log: &str) -> io::Result<PathBuf> {
    let mut number = 0;
    loop {
        let name = format!(
            "wansan-{object}-{}-{number}.verifier.log",
            std::process::id()
        );
        let path = folder.join(name);
        // Never a file, or a link, that somebody else has put there.
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(log.as_bytes())?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 100 => {
                number += 1;
            }
            Err(error) => return Err(error),
        }
    }
}
