//! Changes to a cell's paths while it ran.

use wansan_schema::{CellResult, PathChange, tables};

/// Maximum number of changes shown per cell: more marks would be indistinguishable.
const MAX_CHANGES: usize = 100;

tables! {
    /// A change of a cell's paths, by the plan's timeline or by hand.
    ChangeMark {
        /// The statement, such as `upper.delay = 32ms`.
        statement: String,
        /// Whether it came by `wansan path set` and not from the plan.
        by_hand: bool,
        /// When it was made, in seconds since measuring began; `None` when it was not made, or nothing
        /// was measured.
        at_s: Option<f64>,
        /// Why it was not made.
        refused: Option<String>,
    }
}

/// The path changes in a cell's results, and how many are left out.
pub(super) fn of_cell(cell: &CellResult) -> (Vec<ChangeMark>, usize) {
    let all = &cell.timeline;
    // A failed cell has no measured time; earlier versions wrote 0 for it.
    let began_ns = cell.measured_from_ns.filter(|&began_ns| began_ns > 0);
    let mark = |change: &PathChange| ChangeMark {
        statement: change.statement.clone(),
        by_hand: change.is_by_hand(),
        at_s: began_ns
            .zip(change.made_at_ns)
            .map(|(began_ns, made_ns)| (made_ns as f64 - began_ns as f64) / 1e9),
        refused: change.refused.clone(),
    };
    let shown = all.iter().take(MAX_CHANGES).map(mark).collect();
    (shown, all.len().saturating_sub(MAX_CHANGES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn marks(cell: Value) -> (Vec<ChangeMark>, usize) {
        of_cell(&serde_json::from_value(cell).unwrap())
    }

    #[test]
    fn changes_stand_on_the_axis_of_the_measured_time() {
        let cell = json!({"measured_from_ns": 5_000_000_000_u64, "timeline": [
            {"statement": "upper.delay = 32ms", "asked_by": "plan", "planned_ns": 0,
             "made_after_ns": 0, "made_at_ns": 4_500_000_000_u64, "refused": null},
            {"statement": "upper down", "asked_by": "hand", "planned_ns": null,
             "made_after_ns": 2_750_000_000_u64, "made_at_ns": 7_250_000_000_u64, "refused": null},
            {"statement": "upper.queue.limit = 1MiB", "asked_by": "plan", "planned_ns": 9,
             "made_after_ns": null, "made_at_ns": null, "refused": "no queue"},
        ]});
        let mark = |statement: &str, by_hand, at_s, refused: Option<&str>| ChangeMark {
            statement: statement.to_owned(),
            by_hand,
            at_s,
            refused: refused.map(str::to_owned),
        };
        let expected = vec![
            mark("upper.delay = 32ms", false, Some(-0.5), None),
            mark("upper down", true, Some(2.25), None),
            mark("upper.queue.limit = 1MiB", false, None, Some("no queue")),
        ];
        assert_eq!(marks(cell), (expected, 0));
    }

    #[test]
    fn a_cell_that_failed_or_is_old_has_no_times() {
        let failed = json!({"measured_from_ns": 0, "timeline": [{"made_at_ns": 7}, {}]});
        let (found, _) = marks(failed);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|mark| mark.at_s.is_none()));
        assert_eq!(marks(json!({})), (Vec::new(), 0));
    }

    #[test]
    fn thousands_of_changes_are_counted_and_not_shown() {
        let change = json!({"statement": "upper down", "made_at_ns": 7});
        let cell = json!({"measured_from_ns": 1, "timeline": vec![change; 130]});
        let (found, left_out) = marks(cell);
        assert_eq!((found.len(), left_out), (MAX_CHANGES, 30));
    }
}
