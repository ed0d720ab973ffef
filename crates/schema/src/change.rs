//! Changes of paths while a cell runs.

use std::fmt;

use crate::table::tables;

tables! {
    /// A change of a path while a cell ran.
    PathChange {
        /// The statement.
        statement: String,
        /// `plan`, or `hand` for a change by `wansan path set`.
        asked_by: String,
        /// The time set by the plan, from the start of the initiators; null for changes by hand.
        planned_ns: Option<u64>,
        /// When it was applied, from the start of the initiators; null if it was not.
        made_after_ns: Option<u64>,
        /// When it was applied, CLOCK_MONOTONIC.
        made_at_ns: Option<u64>,
        /// Why it was not applied.
        refused: Option<String>,
    }
}

impl PathChange {
    /// Whether `wansan path set` made it, outside the plan.
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
            (None, Some(reason)) => write!(f, "not applied: {statement}: {reason}")?,
            (None, None) => write!(f, "pending: {statement}")?,
        }
        if self.is_by_hand() {
            f.write_str(" (by hand)")?;
        }
        Ok(())
    }
}
