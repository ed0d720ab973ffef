//! What a reload has changed.

use std::fmt;

/// The changes of a reload, by the names of what is served.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Added.
    pub added: Vec<String>,
    /// Removed; what is being served of them goes on.
    pub removed: Vec<String>,
    /// With other settings, which hold for new connections.
    pub changed: Vec<String>,
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            ("added", &self.added),
            ("removed", &self.removed),
            ("changed", &self.changed),
        ];
        let some = all.into_iter().filter(|(_, names)| !names.is_empty());
        let parts: Vec<String> = some
            .map(|(what, names)| format!("{what} {}", names.join(", ")))
            .collect();
        match parts.is_empty() {
            true => f.write_str("nothing has changed"),
            false => f.write_str(&parts.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_one_line() {
        let mut changes = Changes::default();
        assert_eq!(changes.to_string(), "nothing has changed");
        changes.added = vec!["a".to_owned(), "b".to_owned()];
        changes.changed = vec!["c".to_owned()];
        assert_eq!(changes.to_string(), "added a, b; changed c");
    }
}
