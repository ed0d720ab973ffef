//! Laws that bound the queueing delay of a flow.

use std::fmt;
use std::str::FromStr;

/// The mechanism that bounds the queueing delay (docs/internals/relay-control.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Law {
    /// None: the kernel's buffers grow as usual.
    None,
    /// Limits on the window offered to the sender and on the unsent bytes of the receiving side's socket.
    Window,
    /// ECE, decided after each read: sent if the backlog reaches the bound (P5 §5.6, the first law).
    EceBound,
    /// ECE, decided after each read: its probability rises as the backlog nears the bound (P5 §5.6, the second law).
    EceRed,
    /// ECE, decided in the kernel at each arriving segment, with the window as a second bound.
    Arrival,
}

impl Law {
    /// All laws.
    pub const ALL: [Law; 5] = [
        Law::None,
        Law::Window,
        Law::EceBound,
        Law::EceRed,
        Law::Arrival,
    ];

    /// Name in settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Law::None => "none",
            Law::Window => "window",
            Law::EceBound => "ece-bound",
            Law::EceRed => "ece-red",
            Law::Arrival => "arrival",
        }
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Law {
    type Err = LawError;

    fn from_str(name: &str) -> Result<Self, LawError> {
        let law = Law::ALL.into_iter().find(|law| law.name() == name);
        law.ok_or_else(|| LawError {
            name: name.to_owned(),
        })
    }
}

/// No law has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no law '{name}': give one of {}", Law::ALL.map(Law::name).join(", "))]
pub struct LawError {
    name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_are_known_by_their_names() {
        for law in Law::ALL {
            assert_eq!(law.to_string().parse(), Ok(law));
        }
        let error = "windows".parse::<Law>().unwrap_err().to_string();
        assert!(error.contains("window") && !error.contains('\n'), "{error}");
    }
}
