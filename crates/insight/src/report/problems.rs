//! Caveats for the reader: failures, lost records, uncertainties.

use wansan_schema::{CellFacts, Manifest};

use super::CellReport;

/// Maximum number of cells named in one sentence.
const MAX_NAMED: usize = 8;

/// What failed, is missing or is doubtful, worst first.
pub(super) fn problems(cells: &[CellReport], manifest: &Manifest) -> Vec<String> {
    let mut problems = Vec::new();
    if cells.is_empty() {
        problems.push("No cell was measured.".to_owned());
    }
    problems.extend(failures(cells));
    problems.extend(lost(cells));
    problems.extend(emulator(manifest));
    let incomplete = those(cells, |cell| cell.charts.missing_crossings > 0);
    if !incomplete.is_empty() {
        problems.push(format!(
            "{}: crossings of layers are missing in the records, so numbers per layer leave some \
             I/Os out.",
            named(&incomplete)
        ));
    }
    let disagreeing = those(cells, |cell| !cell.charts.little_disagrees.is_empty());
    if !disagreeing.is_empty() {
        problems.push(format!(
            "{}: populations and times do not agree as Little's law demands, so numbers per layer \
             are doubtful.",
            named(&disagreeing)
        ));
    }
    let unread = those(cells, |cell| {
        cell.failure.is_none() && cell.charts.layers.is_empty()
    });
    if !unread.is_empty() {
        problems.push(format!(
            "{}: no layer crossings were recorded.",
            named(&unread)
        ));
    }
    problems
}

fn failures(cells: &[CellReport]) -> impl Iterator<Item = String> {
    cells.iter().filter_map(|cell| {
        let failure = cell.failure.as_deref()?;
        Some(format!(
            "Cell {} failed: {}.",
            cell.cell,
            failure.trim_end_matches('.')
        ))
    })
}

/// Lost records, one sentence per kind.
fn lost(cells: &[CellReport]) -> Vec<String> {
    let mut kinds: Vec<&String> = cells
        .iter()
        .flat_map(|cell| cell.charts.dropped.keys())
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    let of = |cell: &CellReport, kind: &String| cell.charts.dropped.get(kind).copied().unwrap_or(0);
    kinds
        .into_iter()
        .map(|kind| {
            let total: u64 = cells.iter().map(|cell| of(cell, kind)).sum();
            format!(
                "{}: {total} {kind} records were lost because a recorder was full; what is drawn \
                 from them ends early.",
                named(&those(cells, |cell| of(cell, kind) > 0))
            )
        })
        .collect()
}

/// Frames that the emulator itself lost: the path was worse than planned.
fn emulator(manifest: &Manifest) -> Option<String> {
    let faults = |cell: &CellFacts| {
        cell.emulator_ring_drops + cell.emulator_send_failures + cell.emulator_offloaded
    };
    let lost: u64 = manifest.cells.iter().map(faults).sum();
    (lost > 0).then(|| {
        format!(
            "The emulator itself lost {lost} frames: the paths were worse than the plan says (see \
             the manifest)."
        )
    })
}

fn those(cells: &[CellReport], test: impl Fn(&CellReport) -> bool) -> Vec<u64> {
    cells
        .iter()
        .filter(|cell| test(cell))
        .map(|cell| cell.cell)
        .collect()
}

/// "Cell 3" or "Cells 1, 2 and 5 more".
fn named(cells: &[u64]) -> String {
    let shown: Vec<String> = cells.iter().take(MAX_NAMED).map(u64::to_string).collect();
    let plural = if cells.len() == 1 { "" } else { "s" };
    let more = match cells.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("Cell{plural} {}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{CellCharts, LayerReport};
    use std::collections::BTreeMap;

    fn cell(number: u64) -> CellReport {
        CellReport {
            cell: number,
            charts: CellCharts {
                layers: vec![LayerReport::default()],
                ..CellCharts::default()
            },
            ..CellReport::default()
        }
    }

    #[test]
    fn a_clean_run_has_none() {
        assert!(problems(&[cell(0), cell(1)], &Manifest::default()).is_empty());
    }

    #[test]
    fn losses_are_counted_and_their_cells_named() {
        let mut cells: Vec<CellReport> = (0..12).map(cell).collect();
        for cell in &mut cells {
            cell.charts.dropped = BTreeMap::from([("io".to_owned(), 100)]);
        }
        cells[3].charts.layers.clear();
        cells[4].charts.little_disagrees = vec!["wire".to_owned()];
        let of_cell = |ring_drops, send_failures| CellFacts {
            emulator_ring_drops: ring_drops,
            emulator_send_failures: send_failures,
            ..CellFacts::default()
        };
        let manifest = Manifest {
            cells: vec![of_cell(2, 0), of_cell(0, 1)],
            ..Manifest::default()
        };
        let told = problems(&cells, &manifest);
        assert_eq!(told.len(), 4);
        assert!(told[0].starts_with("Cells 0, 1, 2, 3, 4, 5, 6, 7 and 4 more: 1200 io records"));
        assert!(told[1].contains("lost 3 frames"));
        assert!(told[2].starts_with("Cell 4: populations"));
        assert!(told[3].starts_with("Cell 3: no layer"));
    }
}
