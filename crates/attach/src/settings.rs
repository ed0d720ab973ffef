//! Settings of `wansan attach` and `wansan copy`.

use std::path::PathBuf;
use std::time::Duration;

use sha2::{Digest, Sha256};
use wansan_san::initiator::Portal;
use wansan_san::reservation::{Claim, Registering, Reservation, ReservationKey};
use wansan_san::settings::{
    ChapSettings, ChapSettingsError, ConnectionSettings, InitiatorSettings, NegotiationSettings,
};
use wansan_settings::address::ListenAddress;
use wansan_settings::quantity::{Rate, Size};
use wansan_settings::record::{KindSettings, TcpSettings};
use wansan_settings::{Text, settings, usual};

use crate::attached::{AttachConfig, Rights};
use crate::copy::{CopyConfig, CopyEnd, CopyPlace};
use crate::device::DeviceName;
use crate::listen::Place;

settings! {
    /// Disks to attach: an `attach.toml`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AttachFile {
        /// The disks; at least one
        pub disk: Vec<DiskSettings>, of DiskSettings;
    }
}

settings! {
    /// Of `wansan attach` as a process.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ProcessSettings {
        /// Serve Prometheus metrics at this address; a port alone means loopback
        pub metrics: Option<Text<ListenAddress>>, "ADDRESS:PORT";
        /// Print events as JSON, one per line
        pub json: bool = false;
        /// What to record of the sessions, and where
        pub record: KindSettings = usual(), of KindSettings;
        with tcp: TcpSettings;
    }
}

settings! {
    /// All that `wansan attach` is asked to do.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AttachSettings {
        with file: AttachFile;
        with process: ProcessSettings;
    }
}

settings! {
    /// A disk to attach.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct DiskSettings {
        /// NBD listen address: unix:PATH, or ADDRESS:PORT
        pub nbd: Text<Place>, "PLACE";
        /// Also create a block device for the disk on this host: /dev/nbd0 or another number, or any
        pub device: Option<Text<DeviceName>>, "DEVICE";
        /// Name of the NBD export; the empty name always works
        pub export: String = String::new(), "NAME";
        with rights: RightsSettings;
        with cache: CacheSettings, "Latency";
        with reservation: ReservationSettings, "Reservation (SPC-4 §5.13)";
        with initiator: InitiatorSettings, but initiator_name = "iqn.2026-01.net.wansan:attach".to_owned();
        with portals: PortalSettings;
    }
}

settings! {
    /// Where else the disk's target is.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct PortalSettings {
        /// More portals of the target, HOST[:PORT]: the session opens as many connections to each as to the one in the
        /// URL (MC/S)
        pub portal: Vec<Text<Portal>> = Vec::new(), "PORTAL", as "";
    }
}

settings! {
    /// What programs may do.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct RightsSettings {
        /// Refuse writes
        pub read_only: bool = false;
    }
}

settings! {
    /// Latency hiding.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CacheSettings {
        /// Memory for read-ahead of sequential and strided reads; 0B disables it
        pub read_ahead: Size = Size(64 << 20), in Size(0)..=Size(1 << 40), "BYTES";
        /// Memory for writes that are acknowledged before they reach the target. A flush or FUA waits for
        /// the target's medium, as on any disk with a volatile write cache
        pub write_behind: Size = Size(WRITE_BEHIND_BYTES), in Size(0)..=Size(1 << 40), "BYTES", without write_through;
        /// Keep writes in this file, instead of in memory, until they reach the target, so that they survive a crash
        /// of this host. A flush waits for this file only, and the target follows in order
        pub journal: Option<PathBuf>, "FILE", without write_behind;
        /// Size of a new journal, 1 GiB by default; when it is full, writes wait
        pub journal_size: Option<Size>, in Size(64 << 20)..=Size(1 << 44), "BYTES";
        /// Acknowledge a write only after the target has acknowledged it
        pub write_through: bool = false, without journal;
    }
}

settings! {
    /// Fencing of other hosts.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ReservationSettings {
        /// Register this key with the disk in every session and reserve it (Write Exclusive – All Registrants), so that
        /// unregistered hosts can only read. Each host needs its own key. Attaching fails while another host is
        /// registered
        pub reservation_key: Option<Text<ReservationKey>>, "KEY";
        /// Remove the keys of other hosts and abort their outstanding commands (PREEMPT AND ABORT), to take the disk over
        /// from a dead host
        pub preempt: bool = false;
    }
}

/// Settings of a disk cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DiskSettingsError {
    /// Secrets cannot be read.
    #[error(transparent)]
    Chap(#[from] ChapSettingsError),
    /// There is nothing to preempt others with.
    #[error("`preempt` needs `reservation_key`: without a key other hosts are not excluded")]
    NoKey,
    /// A journal size without a journal.
    #[error("`journal_size` needs `journal`: without a file nothing survives a crash of this host")]
    NoJournal,
    /// A reservation key with several connections in one session.
    #[error(
        "`reservation_key` takes one connection, or sessions for several: add `multipath` or use one portal, route and connection"
    )]
    OneSession,
    /// Two disks share a setting that must be unique.
    #[error("`{key}` {value} is also that of disk[{other}]: give each disk its own")]
    Shared {
        /// The setting.
        key: &'static str,
        /// Its value.
        value: String,
        /// The position of the other disk in its file.
        other: usize,
    },
}

impl AttachFile {
    /// Checks that no two disks share what must be unique.
    ///
    /// # Errors
    /// The position of a disk, and the setting that it shares with another.
    pub fn check(&self) -> Result<(), (usize, DiskSettingsError)> {
        for (place, disk) in self.disk.iter().enumerate() {
            for (other, before) in self.disk[..place].iter().enumerate() {
                if let Some((key, value)) = disk.shared_with(before) {
                    return Err((place, DiskSettingsError::Shared { key, value, other }));
                }
            }
        }
        Ok(())
    }
}

impl ReservationSettings {
    fn reservation(self) -> Result<Option<Reservation>, DiskSettingsError> {
        match (self.reservation_key, self.preempt) {
            (Some(Text(key)), preempts) => Ok(Some(Reservation {
                key,
                claim: if preempts {
                    Claim::Preempt
                } else {
                    Claim::Take
                },
                registering: Registering::default(),
            })),
            (None, true) => Err(DiskSettingsError::NoKey),
            (None, false) => Ok(None),
        }
    }
}

impl DiskSettings {
    /// The setting that must be unique but is equal in both, and its value.
    fn shared_with(&self, other: &DiskSettings) -> Option<(&'static str, String)> {
        let is_any_port = matches!(&self.nbd.0, Place::Tcp(address) if address.port() == 0);
        if self.nbd == other.nbd && !is_any_port {
            return Some(("nbd", self.nbd.to_string()));
        }
        let own = self.device.filter(|device| device.0 != DeviceName::Any);
        if let Some(device) = own
            && other.device == own
        {
            return Some(("device", device.to_string()));
        }
        let journal = self.cache.journal.as_ref()?;
        let is_shared = other.cache.journal.as_ref() == Some(journal);
        is_shared.then(|| ("journal", journal.display().to_string()))
    }

    /// The ISID of this disk on this host. It is the same at every attach, so that the target reinstates the session
    /// and aborts the old one's tasks (RFC 7143 §6.3.5): an old write must not be executed after a new one. Only one
    /// process at a time can have the journal, or the serving place.
    fn isid(&self) -> [u8; 6] {
        let host = std::fs::read("/etc/machine-id").unwrap_or_default();
        let digest = Sha256::new()
            .chain_update(host)
            .chain_update(&self.initiator.initiator_name)
            .chain_update(self.initiator.url.to_string())
            .chain_update(match (&self.cache.journal, &self.nbd.0) {
                (Some(journal), _) => {
                    let whole = std::fs::canonicalize(journal);
                    whole
                        .unwrap_or_else(|_| journal.clone())
                        .display()
                        .to_string()
                }
                // With an ephemeral port, only the process ID distinguishes it from others.
                (None, Place::Tcp(address)) if address.port() == 0 => {
                    format!("{} {}", self.nbd, std::process::id())
                }
                (None, _) => self.nbd.to_string(),
            })
            .finalize();
        let [a, b, c, d, e, ..]: [u8; 32] = digest.into();
        // The random format of RFC 7143 §11.12.5.
        [0x80, a, b, c, d, e]
    }
}

/// Commands per session that may be queued or outstanding.
const TASKS: usize = 256;
/// Length of a new journal.
const JOURNAL_BYTES: u64 = 1 << 30;
/// Memory for writes not yet on the medium.
const WRITE_BEHIND_BYTES: u64 = 64 << 20;

impl DiskSettings {
    /// Builds the configuration to attach it in a process with `process` settings. Reads secrets from their files;
    /// `report` receives log messages.
    ///
    /// # Errors
    /// A secret cannot be read, or settings conflict.
    pub fn config(
        &self,
        process: &ProcessSettings,
        report: fn(&str),
    ) -> Result<AttachConfig, DiskSettingsError> {
        let CacheSettings {
            read_ahead,
            write_behind,
            journal,
            journal_size,
            write_through,
        } = &self.cache;
        let mut initiator = self.initiator.clone();
        initiator.add_portals(self.portals.portal.iter().map(|portal| &portal.0));
        let mut initiator = initiator.config(TASKS, process.tcp.tcp_interval.0)?;
        initiator.isid = self.isid();
        initiator.reservation = self.reservation.reservation()?;
        let is_one_session = !initiator.multipath && initiator.routes.len() > 1;
        if is_one_session && initiator.reservation.is_some() {
            return Err(DiskSettingsError::OneSession);
        }
        if journal_size.is_some() && journal.is_none() {
            return Err(DiskSettingsError::NoJournal);
        }
        let journal_bytes = journal_size.map_or(JOURNAL_BYTES, |size| size.0);
        Ok(AttachConfig {
            url: self.initiator.url.0.clone(),
            initiator,
            listen: self.nbd.0.clone(),
            device: self.device.map(|name| name.0),
            export: self.export.clone(),
            rights: match self.rights.read_only {
                true => Rights::Read,
                false => Rights::ReadWrite,
            },
            read_ahead_bytes: read_ahead.0,
            writes_behind: !*write_through && write_behind.0 > 0,
            // Without write-behind, writes not yet on the medium use the default amount of memory.
            write_bytes: match write_behind.0 {
                0 => WRITE_BEHIND_BYTES,
                bytes => bytes,
            },
            journal: journal.clone().map(|path| (path, journal_bytes)),
            kinds: process.record.kinds(),
            record_bytes: process.record.place.memory_bytes(),
            report,
        })
    }
}

settings! {
    /// All that `wansan copy` is asked to do.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CopySettings {
        /// Source: a path, iscsi://HOST[:PORT]/TARGET-IQN/LUN, nbd://HOST[:PORT]/EXPORT,
        /// nbd+unix:///EXPORT?socket=PATH, or - for standard input
        pub from: Text<CopyPlace>, "FROM", as "";
        /// Destination, in the same forms; - is standard output. Its contents are overwritten
        pub to: Text<CopyPlace>, "TO", as "";
        /// Read the destination back and compare SHA-256 digests
        pub verify: bool = false;
        /// Maximum rate at which to read the source
        pub bandwidth: Rate = Rate(None), "RATE";
        /// Record progress in this file, so that the same command can resume an interrupted copy
        /// [default: TO.wansan-copy if TO is a regular file]
        pub journal: Option<PathBuf>, "FILE";
        /// Print the result as JSON
        pub json: bool = false;
        with session: CopySessionSettings;
    }
}

settings! {
    /// The session with a target that a copy reads or writes.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CopySessionSettings {
        /// This initiator's iSCSI name
        pub initiator_name: String = "iqn.2026-01.net.wansan:copy".to_owned(), "IQN";
        /// TCP congestion control of the connections, by its kernel name
        pub congestion_control: Option<String>, "NAME";
        /// Authentication
        pub chap: ChapSettings = usual(), of ChapSettings, "CHAP (RFC 7143 §12.1.3)";
        /// Values to offer in negotiation
        pub negotiation: NegotiationSettings = usual(), of NegotiationSettings,
            "Negotiation (RFC 7143 §13)";
        with connections: ConnectionSettings, "Connections (RFC 7143 §4.2.1)";
    }
}

impl CopySettings {
    /// Builds the copy's configuration. Reads secrets from their files.
    ///
    /// # Errors
    /// A secret cannot be read.
    pub fn config(&self) -> Result<CopyConfig, ChapSettingsError> {
        Ok(CopyConfig {
            from: self.session.end(&self.from.0)?,
            to: self.session.end(&self.to.0)?,
            journal: self.journal.clone(),
            verify: self.verify,
            bandwidth: self.bandwidth.0.map(|bits_per_s| (bits_per_s / 8).max(1)),
        })
    }
}

impl CopySessionSettings {
    fn end(&self, place: &CopyPlace) -> Result<CopyEnd, ChapSettingsError> {
        let initiator = match place {
            CopyPlace::Iscsi(url) => {
                let settings = InitiatorSettings {
                    initiator_name: self.initiator_name.clone(),
                    congestion_control: self.congestion_control.clone(),
                    chap: self.chap.clone(),
                    negotiation: self.negotiation.clone(),
                    connections: self.connections.clone(),
                    ..InitiatorSettings::new(url.clone())
                };
                Some(settings.config(TASKS, Duration::MAX)?)
            }
            _ => None,
        };
        Ok(CopyEnd {
            place: place.clone(),
            initiator,
        })
    }
}
