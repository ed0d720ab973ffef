//! `target.toml`: what `wansan target --config` serves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use wansan_iscsi::keys::Wanted;
use wansan_san::store::LunSpec;
use wansan_san::target::{Access, Discovery, NamePattern, Offer, TargetSpec};
use wansan_tcp::network::Network;

use super::chap::{ChapArgs, Hash};
use super::sending::SendingTable;
use super::session::{Digest, bytes};
use super::settings_file::{self, Parsed};
use super::target::{
    self, DEFAULT_COMMAND_WINDOW, DEFAULT_CONNECTIONS, DEFAULT_ERROR_RECOVERY_LEVEL,
};

/// A file as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    listen: Vec<String>,
    #[serde(default)]
    discovery: DiscoveryTable,
    target: Vec<TargetTable>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DiscoveryTable {
    chap: Option<ChapTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetTable {
    name: String,
    lun: Vec<LunTable>,
    #[serde(default = "command_window")]
    command_window: u32,
    #[serde(default = "max_connections")]
    max_connections: u16,
    #[serde(default = "error_recovery_level")]
    error_recovery_level: u8,
    #[serde(default)]
    negotiation: NegotiationTable,
    #[serde(default)]
    sending: SendingTable,
    chap: Option<ChapTable>,
    #[serde(default)]
    access: AccessTable,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LunTable {
    /// One above the one before, or 0.
    number: Option<u16>,
    store: LunSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct NegotiationTable {
    header_digest: Option<Digest>,
    data_digest: Option<Digest>,
    initial_r2t: Option<bool>,
    immediate_data: Option<bool>,
    first_burst: Option<Length>,
    max_burst: Option<Length>,
    max_recv_data_segment: Option<Length>,
    max_outstanding_r2t: Option<u16>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ChapTable {
    users_file: Option<PathBuf>,
    user: Option<String>,
    secret_file: Option<PathBuf>,
    target_user: Option<String>,
    target_secret_file: Option<PathBuf>,
    algorithms: Option<Vec<Hash>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AccessTable {
    initiators: Vec<Parsed<NamePattern>>,
    networks: Vec<Parsed<Network>>,
}

fn command_window() -> u32 {
    DEFAULT_COMMAND_WINDOW
}

fn max_connections() -> u16 {
    DEFAULT_CONNECTIONS
}

fn error_recovery_level() -> u8 {
    DEFAULT_ERROR_RECOVERY_LEVEL
}

/// A length of data, with its unit.
#[derive(Debug, Clone, Copy)]
struct Length(u32);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        bytes(&text).map(Length).map_err(D::Error::custom)
    }
}

/// What a file asks for.
#[derive(Debug)]
pub(super) struct TargetFile {
    /// The portals.
    pub(super) listen: Vec<String>,
    /// The targets.
    pub(super) offer: Offer,
}

/// Reads a `target.toml`, and the secrets that it names.
///
/// # Errors
/// In one line what is wrong, and where.
pub(super) fn read(path: &Path) -> Result<TargetFile> {
    let in_file = || path.display().to_string();
    let document: Document = settings_file::read(path)?;
    let targets = document.target.into_iter().map(TargetTable::resolve);
    let targets = targets.collect::<Result<Vec<_>>>().with_context(in_file)?;
    let chap = document.discovery.chap;
    let chap = chap.map(|chap| chap.resolve("discovery")).transpose();
    let discovery = Discovery {
        wanted: Wanted::default(),
        chap: chap.with_context(in_file)?.flatten(),
    };
    Ok(TargetFile {
        listen: document.listen,
        offer: Offer { targets, discovery },
    })
}

impl TargetTable {
    fn resolve(self) -> Result<TargetSpec> {
        let name = self.name;
        if !(1..=65_536).contains(&self.command_window) {
            bail!("target {name}: command_window must be 1 to 65536");
        }
        if !(1..=1024).contains(&self.max_connections) {
            bail!("target {name}: max_connections must be 1 to 1024");
        }
        if self.error_recovery_level > 2 {
            bail!("target {name}: error_recovery_level must be 0, 1 or 2");
        }
        let mut luns = BTreeMap::new();
        let mut next = 0;
        for lun in self.lun {
            let number = lun.number.unwrap_or(next);
            if number > 16_383 {
                bail!("target {name}: a LUN number must be 0 to 16383, not {number}");
            }
            if luns.insert(number, lun.store).is_some() {
                bail!("target {name}: two LUNs have number {number}");
            }
            next = number + 1;
        }
        let chap = self.chap.map(|chap| chap.resolve(&name)).transpose()?;
        let wanted = target::wanted(
            self.negotiation.wanted(),
            self.max_connections,
            self.error_recovery_level,
        );
        wanted
            .check()
            .with_context(|| format!("negotiation of target {name}"))?;
        Ok(TargetSpec {
            luns,
            command_window: self.command_window,
            wanted,
            chap: chap.flatten(),
            sending: self.sending.wanted(),
            access: Access {
                initiators: self.access.initiators.into_iter().map(|p| p.0).collect(),
                networks: self.access.networks.into_iter().map(|p| p.0).collect(),
            },
            name,
        })
    }
}

impl NegotiationTable {
    fn wanted(&self) -> Wanted {
        let usual = Wanted::default();
        let digest = |digest: Option<Digest>| digest.unwrap_or(Digest::Accept).wanted();
        let length = |length: Option<Length>, usual| length.map_or(usual, |length| length.0);
        Wanted {
            header_digest: digest(self.header_digest),
            data_digest: digest(self.data_digest),
            initial_r2t: self.initial_r2t.unwrap_or(usual.initial_r2t),
            immediate_data: self.immediate_data.unwrap_or(usual.immediate_data),
            first_burst_bytes: length(self.first_burst, usual.first_burst_bytes),
            max_burst_bytes: length(self.max_burst, usual.max_burst_bytes),
            max_recv_data_bytes: length(self.max_recv_data_segment, usual.max_recv_data_bytes),
            max_outstanding_r2t: self
                .max_outstanding_r2t
                .unwrap_or(usual.max_outstanding_r2t),
            ..usual
        }
    }
}

impl ChapTable {
    fn resolve(
        self,
        of: &str,
    ) -> Result<Option<std::sync::Arc<wansan_iscsi::login::chap::TargetAccounts>>> {
        if self.user.is_some() != self.secret_file.is_some()
            || self.target_user.is_some() != self.target_secret_file.is_some()
        {
            bail!("chap of {of}: user and secret_file go together");
        }
        if self.user.is_none() && self.users_file.is_none() {
            bail!("chap of {of}: name a users_file, or a user and its secret_file");
        }
        let accounts = ChapArgs {
            chap_user: self.user,
            chap_secret_file: self.secret_file,
            target_chap_user: self.target_user,
            target_chap_secret_file: self.target_secret_file,
            algorithms: self.algorithms.unwrap_or(Hash::ALL.to_vec()),
        };
        let accounts = accounts.target(self.users_file.as_ref());
        accounts.with_context(|| format!("chap of {of}"))
    }
}
