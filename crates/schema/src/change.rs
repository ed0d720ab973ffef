//! Changes of paths while a cell runs.

use std::fmt;

use crate::table::tables;

tables! {
    /// A change of a path while a cell ran.
    PathChange {
        /// The statement.
        statement: String,
        /// `plan`, or `hand` when it came by `wansan path set`.
        asked_by: String,
        /// When the plan wanted it, from the start of the initiators; null for what came by hand.
        planned_ns: Option<u64>,
        /// When it was made, from the start of the initiators; null when it was not.
        made_after_ns: Option<u64>,
        /// When it was made, CLOCK_MONOTONIC.
        made_at_ns: Option<u64>,
        /// Why it was not made.
        refused: Option<String>,
    }
}

impl PathChange {
    /// Whether it came by `wansan path set`, which the plan does not know of.
    #[must_use]
    pub fn is_by_hand(&self) -> bool {
        self.asked_by == "hand"
    }
}

/// In one line.
impl fmt::Display for PathChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let statement = &self.statement;
        match (self.made_after_ns, &self.refused) {
            (Some(after_ns), _) => write!(f, "at {:.3}s {statement}", after_ns as f64 / 1e9)?,
            (None, Some(reason)) => write!(f, "not made: {statement}: {reason}")?,
            (None, None) => write!(f, "to be made: {statement}")?,
        }
        if self.is_by_hand() {
            f.write_str(" (by hand)")?;
        }
        Ok(())
    }
}
