//! The arguments of CHAP, which both ends have.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use serde::Deserialize;
use wansan_iscsi::login::chap::{Account, Algorithm, InitiatorAccounts, TargetAccounts};
use wansan_san::secret_file::{read_account, read_accounts};

/// CHAP in both directions. The same options mean the same at both ends.
#[derive(Debug, Args)]
#[command(next_help_heading = "CHAP (RFC 7143 §12.1.3)")]
pub(super) struct ChapArgs {
    /// CHAP name with which the initiator authenticates itself
    #[arg(long, value_name = "NAME", requires = "chap_secret_file")]
    pub(super) chap_user: Option<String>,
    /// File with that name's secret, at least 12 bytes, readable only by its owner
    #[arg(long, value_name = "PATH", requires = "chap_user")]
    pub(super) chap_secret_file: Option<PathBuf>,
    /// Mutual CHAP: name with which the target must authenticate itself
    #[arg(long, value_name = "NAME", requires = "target_chap_secret_file")]
    pub(super) target_chap_user: Option<String>,
    /// File with that name's secret, which must differ from the initiator's
    #[arg(long, value_name = "PATH", requires = "target_chap_user")]
    pub(super) target_chap_secret_file: Option<PathBuf>,
    /// Hash algorithms to allow; the initiator offers them in this order
    #[arg(
        long = "chap-algorithms",
        value_name = "LIST",
        value_enum,
        value_delimiter = ',',
        default_value = "sha3-256,sha-256,sha-1,md5"
    )]
    pub(super) algorithms: Vec<Hash>,
}

impl Hash {
    /// All, the strongest first.
    pub(super) const ALL: [Hash; 4] = [Hash::Sha3_256, Hash::Sha256, Hash::Sha1, Hash::Md5];
}

#[derive(Debug, Clone, Copy, clap::ValueEnum, Deserialize)]
pub(super) enum Hash {
    #[value(name = "sha3-256")]
    #[serde(rename = "sha3-256")]
    Sha3_256,
    #[value(name = "sha-256")]
    #[serde(rename = "sha-256")]
    Sha256,
    #[value(name = "sha-1")]
    #[serde(rename = "sha-1")]
    Sha1,
    #[value(name = "md5")]
    #[serde(rename = "md5")]
    Md5,
}

impl ChapArgs {
    fn algorithms(&self) -> Vec<Algorithm> {
        let algorithms = self.algorithms.iter().map(|hash| match hash {
            Hash::Sha3_256 => Algorithm::Sha3_256,
            Hash::Sha256 => Algorithm::Sha256,
            Hash::Sha1 => Algorithm::Sha1,
            Hash::Md5 => Algorithm::Md5,
        });
        algorithms.collect()
    }

    fn of_initiator(&self) -> Result<Option<Account>> {
        account(self.chap_user.as_ref(), self.chap_secret_file.as_ref())
    }

    fn of_target(&self) -> Result<Option<Account>> {
        let file = self.target_chap_secret_file.as_ref();
        account(self.target_chap_user.as_ref(), file)
    }

    /// What an initiator takes to its logins.
    pub(super) fn initiator(&self) -> Result<Option<Arc<InitiatorAccounts>>> {
        let Some(own) = self.of_initiator()? else {
            anyhow::ensure!(
                self.target_chap_user.is_none(),
                "mutual CHAP needs the initiator to authenticate too: give --chap-user and \
                 --chap-secret-file as well"
            );
            return Ok(None);
        };
        let accounts = InitiatorAccounts::new(own, self.of_target()?, self.algorithms())?;
        Ok(Some(Arc::new(accounts)))
    }

    /// What a target demands; `None` when it is open. `users` is a file of more accounts.
    pub(super) fn target(&self, users: Option<&PathBuf>) -> Result<Option<Arc<TargetAccounts>>> {
        let own = self.of_target()?;
        let mut initiators: Vec<Account> = self.of_initiator()?.into_iter().collect();
        if let Some(users) = users {
            initiators.extend(read_accounts(users)?);
        } else if initiators.is_empty() && own.is_none() {
            return Ok(None);
        }
        let accounts = TargetAccounts::new(initiators, own, self.algorithms())?;
        Ok(Some(Arc::new(accounts)))
    }
}

fn account(name: Option<&String>, file: Option<&PathBuf>) -> Result<Option<Account>> {
    match (name, file) {
        (Some(name), Some(file)) => Ok(Some(read_account(name, file)?)),
        _ => Ok(None),
    }
}
