//! Settings of what programs record, and where.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use wansan_trace::file::{self, FileError};
use wansan_trace::{Kinds, Recorder, Sample};

use crate::Text;
use crate::quantity::{Size, SomeTime};

crate::settings! {
    /// Where a program's records go.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RecordSettings {
        /// Write trace records to this folder, as Parquet files
        pub folder: Option<std::path::PathBuf>, "FOLDER", as "record";
        /// This host's name in the records [default: the program's role: target, initiator, relay, sender
        /// or watch]
        pub host: Option<Text<HostName>>, "NAME", as "host";
        /// Memory for the records of each thread; once it is full, further records are dropped and
        /// counted
        pub memory: Size = Size(512 << 20), in RecordSettings::MEMORY.0..=RecordSettings::MEMORY.1,
            "BYTES", as "record-memory";
    }
}

crate::settings! {
    /// Which records a program keeps that has I/Os.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct KindSettings {
        /// Kinds of records to keep: io, pdu, tcp, stamp (the kernel's socket timestamps)
        pub kinds: Vec<RecordKind> = vec![RecordKind::Io, RecordKind::Pdu, RecordKind::Tcp],
            "KINDS", as "record-kinds";
        /// Record one I/O in N, chosen by its Initiator Task Tag, so that all programs given the same N
        /// record the same I/Os. A sample costs less, and its findings are given with their uncertainty
        pub sample: u32 = 1, in 1..=KindSettings::MOST_SAMPLED, "N", as "record-sample";
        with place: RecordSettings;
    }
}

crate::settings! {
    /// How often the kernel's TCP is asked.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TcpSettings {
        /// Interval at which TCP_INFO of each connection is sampled for the records
        pub tcp_interval: SomeTime = SomeTime(std::time::Duration::from_millis(10)), "TIME";
    }
}

/// A kind of record that a program with I/Os can keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordKind {
    /// Layer crossings.
    Io,
    /// PDUs.
    Pdu,
    /// The kernel's view of each connection.
    Tcp,
    /// The kernel's timestamps of socket data.
    Stamp,
}

/// A host's name in records: 1 to 64 letters, digits, hyphens and underscores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName(String);

impl HostName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostName {
    type Err = FileError;

    fn from_str(name: &str) -> Result<Self, FileError> {
        file::check_host(name).map(|()| HostName(name.to_owned()))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl KindSettings {
    /// The smallest sample: a few I/Os of each second even at a million IOPS.
    const MOST_SAMPLED: u32 = 1 << 16;

    /// The record kinds to keep, and of which I/Os.
    #[must_use]
    pub fn kinds(&self) -> Kinds {
        let keeps = |kind| self.kinds.contains(&kind);
        match self.place.is_asked() {
            false => Kinds::NONE,
            true => Kinds {
                io: keeps(RecordKind::Io),
                pdu: keeps(RecordKind::Pdu),
                tcp: keeps(RecordKind::Tcp),
                stamp: keeps(RecordKind::Stamp),
                connection: true,
                sample: match keeps(RecordKind::Io) || keeps(RecordKind::Pdu) {
                    true => Sample::one_in(self.sample),
                    false => Sample::ALL,
                },
                ..Kinds::NONE
            },
        }
    }
}

impl RecordSettings {
    /// Range of the memory setting: from what a recorder needs to keep records of every kind, to more than any machine
    /// has.
    pub const MEMORY: (Size, Size) = (Size(Recorder::MIN_BYTES as u64), Size(1 << 40));

    /// Whether recording is requested.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.folder.is_some()
    }

    /// The record kinds that a program with TCP but no I/Os keeps.
    #[must_use]
    pub fn kinds(&self) -> Kinds {
        Kinds {
            connection: self.is_asked(),
            tcp: self.is_asked(),
            ..Kinds::NONE
        }
    }

    /// Memory for the records of one thread, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        usize::try_from(self.memory.0).unwrap_or(usize::MAX)
    }
}
