//! The notation of a store.

use core::fmt;
use core::str::FromStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wansan_trace::units::{self, UnitError};

use super::{FileStore, MemoryStore, OpenError, ServiceTime, ServiceTimeStore, Store};
use crate::machine;
use wansan_workload::content;

/// Where a logical unit keeps its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backing {
    /// `memory:SIZE`: in this process.
    Memory {
        /// Its size.
        size_bytes: u64,
        /// `content=SEED`: the data that a verifying load expects with that seed ([`content`]); zeros if omitted.
        content_seed: Option<u64>,
    },
    /// `file:PATH`, a regular file or a block device.
    File {
        /// Its path.
        path: PathBuf,
        /// `size=SIZE`: create it with that size when it does not exist.
        size_bytes: Option<u64>,
        /// `direct`: bypass the page cache.
        direct: bool,
    },
}

/// One `--lun`: `memory:1GiB` or `file:disk.img`, then options separated by commas, each at most once:
///
/// | option | meaning | default |
/// |---|---|---|
/// | `size=1GiB` | (file) create the file, sparse, if it does not exist | the file must exist |
/// | `direct` | (file) bypass the page cache: for data that does not fit into memory, or that others cache | through the page cache |
/// | `content=7` | (memory) the content written by `wansan bench --op write --verify --seed 7` | zeros |
/// | `block=4096` | bytes of a logical block: 512 or 4096 | 512 |
/// | `thin` | initiators can unmap blocks (UNMAP), which then read as zeros | not thin |
/// | `read-only` | write protected; the file is opened read-only | |
/// | `service-time=2ms` | service time of each operation at one of the store's servers | none |
/// | `servers=4` | (with `service-time`) operations served in parallel, 1 to 65536 | 1 |
///
/// A size is a whole number of blocks, and a path cannot contain a comma. The output of [`Display`](fmt::Display)
/// parses to the same value; plans contain that text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LunSpec {
    /// The backing.
    pub backing: Backing,
    /// Size of a logical block: 512 or 4096.
    pub block_bytes: u32,
    /// Thin provisioning: blocks can be unmapped.
    pub thin: bool,
    /// Read-only.
    pub read_only: bool,
    /// Its service time, if one is set.
    pub service: Option<ServiceTime>,
}

/// An invalid `--lun`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// It does not start with a known kind of store.
    #[error("LUN `{spec}`: unknown kind of store `{kind}`; {}", nearest(kind, &KINDS))]
    Kind {
        /// The text as given.
        spec: String,
        /// The text before the colon.
        kind: String,
    },
    /// The kind of store lacks its argument.
    #[error("LUN `{spec}`: write {example}")]
    Empty {
        /// The text as given.
        spec: String,
        /// An example.
        example: &'static str,
    },
    /// Unknown option.
    #[error("LUN `{spec}`: unknown option `{option}`; {}", nearest(option, &OPTIONS))]
    Option {
        /// The text as given.
        spec: String,
        /// The option found.
        option: String,
    },
    /// Duplicate option.
    #[error("LUN `{spec}`: option `{option}` is given twice")]
    Twice {
        /// The text as given.
        spec: String,
        /// The option.
        option: &'static str,
    },
    /// An option that requires another one.
    #[error("LUN `{spec}`: option `{option}` requires {needs}")]
    Without {
        /// The text as given.
        spec: String,
        /// The option.
        option: &'static str,
        /// The one it requires.
        needs: &'static str,
    },
    /// An option's value is out of range.
    #[error("LUN `{spec}`: `{value}` is not valid for `{option}`: write {allowed}")]
    Value {
        /// The text as given.
        spec: String,
        /// Which option.
        option: &'static str,
        /// Its value.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// A size is zero or not a whole number of blocks.
    #[error(
        "LUN `{spec}`: {size_bytes} bytes is not a whole number of {block_bytes}-byte blocks \
         (at least one)"
    )]
    Blocks {
        /// The text as given.
        spec: String,
        /// The size in it.
        size_bytes: u64,
        /// Size of a logical block.
        block_bytes: u32,
    },
    /// A malformed size or time.
    #[error("LUN `{spec}`: {source}")]
    Unit {
        /// The text as given.
        spec: String,
        /// The error.
        source: UnitError,
    },
}

/// As written: an argument follows the colon.
const KINDS: [&str; 2] = ["memory:", "file:"];
const OPTIONS: [&str; 8] = [
    "size=",
    "direct",
    "content=",
    "block=",
    "thin",
    "read-only",
    "service-time=",
    "servers=",
];
const DEFAULT_BLOCK_BYTES: u32 = 512;

/// "did you mean `x:`?" when a name is close, else the list of all names.
fn nearest(word: &str, names: &[&str]) -> String {
    let distance = |name: &str| {
        let bare = name.trim_end_matches([':', '=']);
        (strsim::damerau_levenshtein(word, bare), bare.len())
    };
    let near = names
        .iter()
        .min_by_key(|name| distance(name))
        .filter(|name| distance(name).0 <= distance(name).1 / 2);
    match near {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("use one of {}", names.join(", ")),
    }
}

/// A store opened by [`LunSpec::open`]. A file created for it is removed on drop, unless [`OpenedStore::keep`] was
/// called.
pub struct OpenedStore {
    store: Arc<dyn Store>,
    new_file: NewFile,
}

/// A file created for a store, which is removed on drop.
#[derive(Default)]
struct NewFile(Option<PathBuf>);

impl OpenedStore {
    /// Wraps a store of the caller.
    #[must_use]
    pub fn of(store: Arc<dyn Store>) -> OpenedStore {
        OpenedStore {
            store,
            new_file: NewFile::default(),
        }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns the store; its file stays.
    pub fn keep(mut self) -> Arc<dyn Store> {
        self.new_file.0 = None;
        Arc::clone(&self.store)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // An error of removing it would only hide the one that matters.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl LunSpec {
    /// Opens the store, creating a file if `size` is given.
    pub fn open(&self) -> Result<OpenedStore, OpenError> {
        let mut new_file = NewFile::default();
        let store: Arc<dyn Store> = match &self.backing {
            Backing::Memory {
                size_bytes,
                content_seed,
            } => {
                let store = self.memory(*size_bytes)?;
                if let Some(seed) = content_seed {
                    fill(&store, *seed);
                }
                Arc::new(store)
            }
            Backing::File {
                path,
                size_bytes,
                direct,
            } => {
                let store = match size_bytes {
                    Some(size_bytes) => {
                        FileStore::open_or_create(path, *size_bytes, self.block_bytes)
                    }
                    None if self.read_only => FileStore::open_read_only(path, self.block_bytes),
                    None => FileStore::open(path, self.block_bytes),
                }?;
                new_file.0 = store.is_new().then(|| path.clone());
                match direct {
                    true => Arc::new(store.direct(path, self.block_bytes)?),
                    false => Arc::new(store),
                }
            }
        };
        let store = match self.service {
            Some(service) => Arc::new(ServiceTimeStore::new(store, service)),
            None => store,
        };
        Ok(OpenedStore { store, new_file })
    }

    fn memory(&self, size_bytes: u64) -> Result<MemoryStore, OpenError> {
        if !is_whole_blocks(size_bytes, self.block_bytes) {
            return Err(OpenError::Blocks {
                what: format!("memory:{size_bytes}B"),
                size_bytes,
                block_bytes: self.block_bytes,
            });
        }
        let memory_bytes = machine::memory_bytes();
        if size_bytes > memory_bytes {
            return Err(OpenError::Memory {
                asked_bytes: size_bytes,
                memory_bytes,
            });
        }
        Ok(MemoryStore::new(size_bytes))
    }
}

/// Writes the content of a seed.
fn fill(store: &MemoryStore, seed: u64) {
    let mut piece = vec![0; 1 << 20];
    for offset in (0..store.size_bytes()).step_by(piece.len()) {
        let left = usize::try_from(store.size_bytes() - offset).unwrap_or(usize::MAX);
        let piece = &mut piece[..left.min(1 << 20)];
        content::fill(piece, offset, seed);
        let written = store.write_at(offset, piece, false);
        written.expect("memory takes what is within its size");
    }
}

fn is_whole_blocks(size_bytes: u64, block_bytes: u32) -> bool {
    size_bytes > 0 && size_bytes.is_multiple_of(u64::from(block_bytes))
}

/// The options during parsing, as typed.
#[derive(Default)]
struct Options<'a> {
    size: Option<&'a str>,
    direct: Option<&'a str>,
    content: Option<&'a str>,
    block: Option<&'a str>,
    thin: Option<&'a str>,
    read_only: Option<&'a str>,
    service_time: Option<&'a str>,
    servers: Option<&'a str>,
}

impl<'a> Options<'a> {
    fn read(spec: &str, parts: impl Iterator<Item = &'a str>) -> Result<Self, SpecError> {
        let mut options = Options::default();
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let (place, option) = match key {
                "size" => (&mut options.size, "size"),
                "direct" => (&mut options.direct, "direct"),
                "content" => (&mut options.content, "content"),
                "block" => (&mut options.block, "block"),
                "thin" => (&mut options.thin, "thin"),
                "read-only" => (&mut options.read_only, "read-only"),
                "service-time" => (&mut options.service_time, "service-time"),
                "servers" => (&mut options.servers, "servers"),
                _ => {
                    return Err(SpecError::Option {
                        spec: spec.to_owned(),
                        option: key.to_owned(),
                    });
                }
            };
            if place.replace(value).is_some() {
                return Err(SpecError::Twice {
                    spec: spec.to_owned(),
                    option,
                });
            }
        }
        Ok(options)
    }
}

impl FromStr for LunSpec {
    type Err = SpecError;

    fn from_str(spec: &str) -> Result<Self, SpecError> {
        let unit = |source| SpecError::Unit {
            spec: spec.to_owned(),
            source,
        };
        let value = |option, value: &str, allowed| SpecError::Value {
            spec: spec.to_owned(),
            option,
            value: value.to_owned(),
            allowed,
        };
        let without = |option, needs| SpecError::Without {
            spec: spec.to_owned(),
            option,
            needs,
        };
        let empty = |example| SpecError::Empty {
            spec: spec.to_owned(),
            example,
        };

        let flag = |given: Option<&str>, option| match given {
            None => Ok(false),
            Some("") => Ok(true),
            Some(text) => Err(value(option, text, "it alone, without `=`")),
        };

        let mut parts = spec.split(',');
        let head = parts.next().unwrap_or_default();
        let (kind, place) = head.split_once(':').unwrap_or((head, ""));
        let options = Options::read(spec, parts)?;
        let size_bytes = options
            .size
            .map(units::parse_bytes)
            .transpose()
            .map_err(unit)?;
        let content_seed = match options.content {
            None => None,
            Some(text) => {
                let seed = text.parse();
                Some(seed.map_err(|_| value("content", text, "a seed: a whole number"))?)
            }
        };

        let direct = flag(options.direct, "direct")?;

        let backing = match (kind, place) {
            ("memory", "") => return Err(empty("how large: memory:1GiB")),
            ("memory", size) => {
                if size_bytes.is_some() {
                    return Err(without("size", "file:"));
                }
                if direct {
                    return Err(without("direct", "file:"));
                }
                Backing::Memory {
                    size_bytes: units::parse_bytes(size).map_err(unit)?,
                    content_seed,
                }
            }
            ("file", "") => return Err(empty("which file: file:disk.img")),
            ("file", _) if content_seed.is_some() => return Err(without("content", "memory:")),
            ("file", path) => Backing::File {
                path: Path::new(path).to_owned(),
                size_bytes,
                direct,
            },
            _ => {
                return Err(SpecError::Kind {
                    spec: spec.to_owned(),
                    kind: kind.to_owned(),
                });
            }
        };
        let block_bytes = match options.block {
            None | Some("512") => DEFAULT_BLOCK_BYTES,
            Some("4096") => 4096,
            Some(other) => return Err(value("block", other, "512 or 4096")),
        };
        let size_bytes = match &backing {
            Backing::Memory { size_bytes, .. } => Some(*size_bytes),
            Backing::File { size_bytes, .. } => *size_bytes,
        };
        if let Some(size_bytes) = size_bytes.filter(|bytes| !is_whole_blocks(*bytes, block_bytes)) {
            return Err(SpecError::Blocks {
                spec: spec.to_owned(),
                size_bytes,
                block_bytes,
            });
        }
        let thin = flag(options.thin, "thin")?;
        let read_only = flag(options.read_only, "read-only")?;
        if read_only && options.size.is_some() {
            return Err(without("size", "a file that is written"));
        }
        let servers = match options.servers {
            None => None,
            Some(text) => Some(
                text.parse()
                    .ok()
                    .filter(|servers| (1..=ServiceTime::MAX_SERVERS).contains(servers))
                    .ok_or_else(|| value("servers", text, "a number from 1 to 65536"))?,
            ),
        };
        let service = match options.service_time {
            None if servers.is_some() => return Err(without("servers", "service-time=")),
            None => None,
            Some(text) => {
                let time = units::parse_duration(text).map_err(unit)?;
                if time == Duration::ZERO {
                    return Err(value(
                        "service-time",
                        text,
                        "a time above zero, such as 2ms",
                    ));
                }
                Some(ServiceTime {
                    time,
                    servers: servers.unwrap_or(1),
                })
            }
        };
        Ok(LunSpec {
            backing,
            block_bytes,
            thin,
            read_only,
            service,
        })
    }
}

impl TryFrom<String> for LunSpec {
    type Error = SpecError;

    fn try_from(spec: String) -> Result<Self, SpecError> {
        spec.parse()
    }
}

impl From<LunSpec> for String {
    fn from(spec: LunSpec) -> String {
        spec.to_string()
    }
}

impl fmt::Display for LunSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.backing {
            Backing::Memory {
                size_bytes,
                content_seed,
            } => {
                write!(f, "memory:{}", units::format_bytes(*size_bytes))?;
                if let Some(seed) = content_seed {
                    write!(f, ",content={seed}")?;
                }
            }
            Backing::File {
                path,
                size_bytes,
                direct,
            } => {
                write!(f, "file:{}", path.display())?;
                if let Some(size_bytes) = size_bytes {
                    write!(f, ",size={}", units::format_bytes(*size_bytes))?;
                }
                if *direct {
                    f.write_str(",direct")?;
                }
            }
        }
        if self.block_bytes != DEFAULT_BLOCK_BYTES {
            write!(f, ",block={}", self.block_bytes)?;
        }
        for (set, option) in [(self.thin, "thin"), (self.read_only, "read-only")] {
            if set {
                write!(f, ",{option}")?;
            }
        }
        if let Some(service) = &self.service {
            write!(f, ",service-time={}", units::format_duration(service.time))?;
            if service.servers != 1 {
                write!(f, ",servers={}", service.servers)?;
            }
        }
        Ok(())
    }
}
