//! How the backlog of a flow is held to a time.

use std::fmt;
use std::str::FromStr;

/// By what the backlog is held to a time (docs/internals/relay-control.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Law {
    /// Nothing: the kernel's buffers grow as they do.
    None,
    /// The window that the sender is offered, and what the receiving side's socket takes.
    Window,
    /// ECE, decided after each read: when more waits than may (P5 §5.6, the first law).
    EceBound,
    /// ECE, decided after each read: the likelier, the less room is left (P5 §5.6, the second law).
    EceRed,
    /// ECE, decided in the kernel at each arriving segment, with the window as the bound behind it.
    Arrival,
}

impl Law {
    /// All of them.
    pub const ALL: [Law; 5] = [
        Law::None,
        Law::Window,
        Law::EceBound,
        Law::EceRed,
        Law::Arrival,
    ];

    /// What users call it.
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

/// There is no law of that name.
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
