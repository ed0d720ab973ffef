//! CHAP secrets, read from files that only their owner can read.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};
use wansan_iscsi::login::chap::{Account, AccountError, CHALLENGE_BYTES, Challenge, Secret};
use zeroize::Zeroizing;

/// The maximum size of a file of secrets, in bytes: some 10,000 accounts.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Why a secret file cannot be used. No variant contains a secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretFileError {
    /// It cannot be read.
    #[error("secret file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It is not a regular file.
    #[error("secret file {}: not an ordinary file", path.display())]
    NotAFile {
        /// The file.
        path: PathBuf,
    },
    /// Other users may read or change it.
    #[error(
        "secret file {}: its mode {mode:03o} gives others access; chmod 600 it", path.display()
    )]
    OpenToOthers {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Another user owns it.
    #[error(
        "secret file {}: it is owned by user id {owner}; it must be owned by the user that \
         wansan runs as, or by root", path.display()
    )]
    OfAnother {
        /// The file.
        path: PathBuf,
        /// The owner's user ID.
        owner: u32,
    },
    /// It is too long.
    #[error("secret file {}: longer than {MAX_FILE_BYTES} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// It contains an invalid secret or account.
    #[error("secret file {}, line {line}: {source}", path.display())]
    Account {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// The cause.
        source: AccountError,
    },
    /// A line that is not `NAME SECRET`.
    #[error(
        "secret file {}, line {line}: write NAME SECRET, with a blank between them and none inside",
        path.display()
    )]
    NotAnAccount {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
    },
    /// Two lines for one name. The name is not printed, as it may be a secret in the wrong column.
    #[error(
        "secret file {}, line {line}: its name has a secret in line {first} already; write NAME \
         SECRET, each name once",
        path.display()
    )]
    Twice {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// The earlier line.
        first: usize,
    },
    /// More than one line.
    #[error(
        "secret file {}: it holds more than one line; write the secret on the first",
        path.display()
    )]
    ManyLines {
        /// The file.
        path: PathBuf,
    },
}

/// Reads the secret of the account `name` from a file with nothing else; the newline is not part of it.
///
/// # Errors
/// [`SecretFileError`].
pub fn read_account(name: &str, path: &Path) -> Result<Account, SecretFileError> {
    let bytes = read(path)?;
    let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let secret = line.strip_suffix(b"\r").unwrap_or(line);
    if secret.contains(&b'\n') {
        return Err(SecretFileError::ManyLines {
            path: path.to_owned(),
        });
    }
    let account = Secret::new(secret).and_then(|secret| Account::new(name, secret));
    account.map_err(|source| SecretFileError::Account {
        path: path.to_owned(),
        line: 1,
        source,
    })
}

/// Reads accounts from a file of lines `NAME SECRET`. Skips empty lines and those that begin with `#`.
///
/// # Errors
/// [`SecretFileError`].
pub fn read_accounts(path: &Path) -> Result<Vec<Account>, SecretFileError> {
    let bytes = read(path)?;
    let mut accounts = Vec::new();
    let mut lines: HashMap<&str, usize> = HashMap::new();
    for (line, bytes) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let bytes = bytes.trim_ascii();
        if bytes.is_empty() || bytes[0] == b'#' {
            continue;
        }
        let not_an_account = || SecretFileError::NotAnAccount {
            path: path.to_owned(),
            line,
        };
        let mut words = bytes
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        let (Some(name), Some(secret), None) = (words.next(), words.next(), words.next()) else {
            return Err(not_an_account());
        };
        let name = str::from_utf8(name).map_err(|_| not_an_account())?;
        if let Some(first) = lines.insert(name, line) {
            return Err(SecretFileError::Twice {
                path: path.to_owned(),
                line,
                first,
            });
        }
        let account = Secret::new(secret).and_then(|secret| Account::new(name, secret));
        accounts.push(account.map_err(|source| SecretFileError::Account {
            path: path.to_owned(),
            line,
            source,
        })?);
    }
    Ok(accounts)
}

/// Reads a file that only we, or only root, can read and change. Checks the open file, so that the file read is the one
/// checked.
fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, SecretFileError> {
    let path = path.to_owned();
    let mut options = OpenOptions::new();
    // A pipe without a writer must not block us.
    options
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32);
    let opened = options
        .open(&path)
        .and_then(|file| Ok((file.metadata()?, file)));
    let (metadata, file) = match opened {
        Ok(opened) => opened,
        Err(source) => return Err(SecretFileError::Read { path, source }),
    };
    let (mode, owner) = (metadata.mode() & 0o777, metadata.uid());
    if !metadata.is_file() {
        return Err(SecretFileError::NotAFile { path });
    }
    if mode & 0o077 != 0 {
        return Err(SecretFileError::OpenToOthers { path, mode });
    }
    if owner != 0 && owner != geteuid().as_raw() {
        return Err(SecretFileError::OfAnother { path, owner });
    }
    // Allocated in full, so that growing leaves no copies behind.
    let room = metadata.len().min(MAX_FILE_BYTES) as usize + 1;
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    if let Err(source) = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes) {
        return Err(SecretFileError::Read { path, source });
    }
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(SecretFileError::TooLong { path });
    }
    Ok(bytes)
}

/// A challenge from the kernel's random source.
///
/// # Errors
/// When the kernel has none, as early during boot.
pub(crate) fn challenge() -> io::Result<Challenge> {
    let mut random = [0; CHALLENGE_BYTES + 1];
    let mut filled = 0;
    while filled < random.len() {
        filled += getrandom(&mut random[filled..], GetRandomFlags::empty())?;
    }
    Ok(Challenge::from_random(random))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(content: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        (folder, path)
    }

    const SECRET: &str = "correct-horse-battery";

    #[test]
    fn a_secret_is_its_line() {
        let expected = Account::new("me", Secret::new(SECRET.as_bytes()).unwrap()).unwrap();
        for content in [
            SECRET.to_owned(),
            format!("{SECRET}\n"),
            format!("{SECRET}\r\n"),
        ] {
            let (_folder, path) = file(&content, 0o600);
            assert_eq!(read_account("me", &path).unwrap(), expected);
        }
        let many = format!("# accounts\n\nme {SECRET}\n  other\tanother-secret-of-mine \n");
        let (_folder, path) = file(&many, 0o400);
        let accounts = read_accounts(&path).unwrap();
        assert_eq!(accounts[0], expected);
        let names: Vec<&str> = accounts.iter().map(Account::name).collect();
        assert_eq!(names, ["me", "other"]);
    }

    #[test]
    fn what_others_can_read_or_is_no_account_is_refused_in_one_line_without_the_secret() {
        for (content, mode, problem) in [
            (SECRET.to_owned(), 0o644, "644"),
            (SECRET.to_owned(), 0o620, "620"),
            ("hunter2".to_owned(), 0o600, "7 bytes"),
            (format!("{SECRET}\nmore"), 0o600, "more than one line"),
        ] {
            let (_folder, path) = file(&content, mode);
            let error = read_account("me", &path).unwrap_err().to_string();
            assert!(error.contains(problem) && !error.contains('\n'), "{error}");
            assert!(!error.contains(SECRET) && !error.contains("hunter2"));
        }
        for (content, problem) in [
            (format!("\n{SECRET}"), "line 2: write NAME SECRET"),
            (format!("me {SECRET} more"), "line 1: write NAME SECRET"),
            ("me hunter2".to_owned(), "line 1: the CHAP secret has 7"),
            (
                format!("{SECRET} first-of-the-two\n#\n{SECRET} second-of-the-two"),
                "line 3: its name has a secret in line 1 already",
            ),
        ] {
            let (_folder, path) = file(&content, 0o600);
            let error = read_accounts(&path).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
            assert!(!error.contains(SECRET) && !error.contains("hunter2"));
        }
        let folder = tempfile::tempdir().unwrap();
        let error = read_account("me", folder.path()).unwrap_err();
        assert!(matches!(error, SecretFileError::NotAFile { .. }), "{error}");
        let error = read_account("me", &folder.path().join("none")).unwrap_err();
        assert!(matches!(error, SecretFileError::Read { .. }), "{error}");
    }

    #[test]
    fn no_two_challenges_are_alike() {
        assert_ne!(challenge().unwrap(), challenge().unwrap());
    }
}
