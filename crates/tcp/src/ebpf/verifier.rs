//! The log of libbpf and the kernel's verifier while an object is loaded.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libbpf_rs::{PrintLevel, set_print};

use super::EbpfError;

/// Libbpf itself asks for the verdict on each instruction when the verifier rejects a program; this level asks for
/// statistics only (`BPF_LOG_STATS`).
pub(super) const LOG_LEVEL: u32 = 4;

/// Libbpf logs through one function for the whole process.
static HEARD: Mutex<String> = Mutex::new(String::new());
/// The environment variable that names a folder for all logs.
const FOLDER: &str = "WANSAN_VERIFIER_LOGS";

/// Held while an object is loaded, so that logs of two do not mix.
static SPEAKING: Mutex<()> = Mutex::new(());

/// Collects all log output while it lives.
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

/// The error of an object that could not be loaded or attached; writes its log to a file.
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

/// Writes the log of a loaded object if WANSAN_VERIFIER_LOGS is set.
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
        // Never overwrites a file, or follows a link, of another user.
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
