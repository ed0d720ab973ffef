//! The congestion controls of `wansan cc` without their eBPF programs: names and parameters. The programs that
//! `wansan-tcp` loads into the kernel and the simulator's algorithms use it.

mod growth;
mod highspeed;

pub use growth::{Counting, Growth};
pub use highspeed::{HighSpeed, HighSpeedError, Row, Table};

/// How a control grows and shrinks the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 5681.
    Reno,
    /// RFC 3649.
    HighSpeed,
    /// T. Kelly, 2003.
    Scalable,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Algorithm; 3] = [Algorithm::Reno, Algorithm::HighSpeed, Algorithm::Scalable];

    /// The name that sockets choose it by (`TCP_CA_NAME_MAX`: up to 15 bytes).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Reno => "wansan_reno",
            Algorithm::HighSpeed => "wansan_hstcp",
            Algorithm::Scalable => "wansan_scal",
        }
    }

    /// The one that sockets choose by `name`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Algorithm> {
        Algorithm::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
    }

    /// What it is written from.
    #[must_use]
    pub fn source(self) -> &'static str {
        match self {
            Algorithm::Reno => "Reno, RFC 5681",
            Algorithm::HighSpeed => "HighSpeed TCP, RFC 3649",
            Algorithm::Scalable => "Scalable TCP, Kelly 2003",
        }
    }
}

/// What can be set of a control when it is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Options {
    /// Of each of them.
    pub growth: Growth,
    /// Of [`Algorithm::HighSpeed`]; the others do not look at it.
    pub highspeed: HighSpeed,
}

impl Options {
    /// Looks whether a control can be loaded with them.
    ///
    /// # Errors
    /// [`OptionsError`] says what does not fit.
    pub fn check(&self) -> Result<(), OptionsError> {
        self.growth.check()?;
        Ok(self.highspeed.check()?)
    }
}

/// Options that no control can be loaded with.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum OptionsError {
    /// HighSpeed TCP's parameters make no response function.
    #[error(transparent)]
    HighSpeed(#[from] HighSpeedError),
    /// RFC 3742's bound cannot be halved.
    #[error("the bound of limited slow start is 2 segments or more (RFC 3742 §2), not {0}")]
    MaxSsthresh(u32),
}
