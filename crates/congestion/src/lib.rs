//! The congestion controls of `wansan cc` without their eBPF programs: names and parameters. Used by the programs that
//! `wansan-tcp` loads into the kernel, and by the simulator's algorithms.

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
    /// All algorithms.
    pub const ALL: [Algorithm; 3] = [Algorithm::Reno, Algorithm::HighSpeed, Algorithm::Scalable];

    /// The name by which sockets select it (`TCP_CA_NAME_MAX`: up to 15 bytes).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Reno => "wansan_reno",
            Algorithm::HighSpeed => "wansan_hstcp",
            Algorithm::Scalable => "wansan_scal",
        }
    }

    /// The algorithm that sockets select by `name`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Algorithm> {
        Algorithm::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
    }

    /// The specification that it implements.
    #[must_use]
    pub fn source(self) -> &'static str {
        match self {
            Algorithm::Reno => "Reno, RFC 5681",
            Algorithm::HighSpeed => "HighSpeed TCP, RFC 3649",
            Algorithm::Scalable => "Scalable TCP, Kelly 2003",
        }
    }
}

/// Load-time parameters of a control.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Options {
    /// For every control.
    pub growth: Growth,
    /// For [`Algorithm::HighSpeed`]; ignored by the others.
    pub highspeed: HighSpeed,
}

impl Options {
    /// Checks the parameters.
    ///
    /// # Errors
    /// [`OptionsError`] names the invalid parameter.
    pub fn check(&self) -> Result<(), OptionsError> {
        self.growth.check()?;
        Ok(self.highspeed.check()?)
    }
}

/// Invalid parameters.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum OptionsError {
    /// HighSpeed TCP's parameters do not define a response function.
    #[error(transparent)]
    HighSpeed(#[from] HighSpeedError),
    /// RFC 3742's bound is too small to be halved.
    #[error("the bound of limited slow start is 2 segments or more (RFC 3742 §2), not {0}")]
    MaxSsthresh(u32),
}
