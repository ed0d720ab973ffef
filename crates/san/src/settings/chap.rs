//! CHAP in both directions. The same settings have the same meaning at both ends.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wansan_iscsi::login::chap::{
    Account, AccountError, Algorithm, InitiatorAccounts, TargetAccounts,
};
use wansan_settings::settings;

use crate::secret_file::{SecretFileError, read_account, read_accounts};

/// A hash algorithm, by its name in settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hash {
    /// SHA3-256.
    #[serde(rename = "sha3-256")]
    Sha3_256,
    /// SHA-256.
    #[serde(rename = "sha-256")]
    Sha256,
    /// SHA-1.
    #[serde(rename = "sha-1")]
    Sha1,
    /// MD5.
    #[serde(rename = "md5")]
    Md5,
}

settings! {
    /// Who authenticates, and with which secrets.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ChapSettings {
        /// CHAP name with which the initiator authenticates itself
        pub user: Option<String>, "NAME", as "chap-user";
        /// File with that name's secret, at least 12 bytes, readable only by its owner
        pub secret_file: Option<PathBuf>, "PATH", as "chap-secret-file";
        /// Mutual CHAP: name with which the target must authenticate itself
        pub target_user: Option<String>, "NAME", as "target-chap-user";
        /// File with that name's secret, which must differ from the initiator's
        pub target_secret_file: Option<PathBuf>, "PATH", as "target-chap-secret-file";
        /// Hash algorithms to allow; the initiator offers them in this order
        pub algorithms: Vec<Hash> = vec![Hash::Sha3_256, Hash::Sha256, Hash::Sha1, Hash::Md5],
            "LIST", as "chap-algorithms";
    }
}

settings! {
    /// The initiators that a target admits.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TargetChapSettings {
        /// File of initiators' CHAP accounts, one NAME SECRET per line, readable only by its owner
        pub users_file: Option<PathBuf>, "PATH", as "chap-users-file";
        with chap: ChapSettings;
    }
}

/// CHAP cannot be set up as requested.
#[derive(Debug, thiserror::Error)]
pub enum ChapSettingsError {
    /// A name without a file, or a file without a name.
    #[error("a CHAP user and its secret file go together: name both")]
    Half,
    /// Only the target would authenticate itself.
    #[error(
        "mutual CHAP needs the initiator to authenticate too: name its user and its secret file as well"
    )]
    OnlyTarget,
    /// Nobody would authenticate.
    #[error("CHAP has no account for initiators: name a users file, or a user and its secret file")]
    Nobody,
    /// A file of secrets cannot be used.
    #[error(transparent)]
    File(#[from] SecretFileError),
    /// Their content cannot be used.
    #[error(transparent)]
    Account(#[from] AccountError),
}

impl Hash {
    fn algorithm(self) -> Algorithm {
        match self {
            Hash::Sha3_256 => Algorithm::Sha3_256,
            Hash::Sha256 => Algorithm::Sha256,
            Hash::Sha1 => Algorithm::Sha1,
            Hash::Md5 => Algorithm::Md5,
        }
    }
}

impl ChapSettings {
    fn algorithms(&self) -> Vec<Algorithm> {
        self.algorithms
            .iter()
            .map(|hash| hash.algorithm())
            .collect()
    }

    fn of_initiator(&self) -> Result<Option<Account>, ChapSettingsError> {
        account(self.user.as_ref(), self.secret_file.as_ref())
    }

    fn of_target(&self) -> Result<Option<Account>, ChapSettingsError> {
        account(self.target_user.as_ref(), self.target_secret_file.as_ref())
    }

    /// An initiator's accounts; `None` when it has no secret.
    ///
    /// # Errors
    /// [`ChapSettingsError`].
    pub fn initiator(&self) -> Result<Option<Arc<InitiatorAccounts>>, ChapSettingsError> {
        let (own, target) = (self.of_initiator()?, self.of_target()?);
        match own {
            Some(own) => Ok(Some(Arc::new(InitiatorAccounts::new(
                own,
                target,
                self.algorithms(),
            )?))),
            None if target.is_some() => Err(ChapSettingsError::OnlyTarget),
            None => Ok(None),
        }
    }
}

impl TargetChapSettings {
    /// A target's requirements.
    ///
    /// # Errors
    /// [`ChapSettingsError`].
    pub fn target(&self) -> Result<Arc<TargetAccounts>, ChapSettingsError> {
        let own = self.chap.of_target()?;
        let mut initiators: Vec<Account> = self.chap.of_initiator()?.into_iter().collect();
        match &self.users_file {
            Some(users) => initiators.extend(read_accounts(users)?),
            None if initiators.is_empty() => return Err(ChapSettingsError::Nobody),
            None => {}
        }
        let accounts = TargetAccounts::new(initiators, own, self.chap.algorithms())?;
        Ok(Arc::new(accounts))
    }
}

fn account(
    name: Option<&String>,
    file: Option<&PathBuf>,
) -> Result<Option<Account>, ChapSettingsError> {
    match (name, file) {
        (Some(name), Some(file)) => Ok(Some(read_account(name, file)?)),
        (None, None) => Ok(None),
        _ => Err(ChapSettingsError::Half),
    }
}
