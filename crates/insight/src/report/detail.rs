//! The resolution of cells' charts, limited so that a browser can open the page of a large sweep.

/// The resolution of a cell's charts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detail {
    /// Maximum number of time steps.
    pub steps: usize,
    /// Maximum number of time steps for TCP samples: congestion windows change within a round trip.
    pub tcp_steps: usize,
    /// Maximum number of packets shown individually.
    pub packets: usize,
}

/// Up to this many cells get full detail; more cells share the same total equally.
const FULL_CELLS: usize = 24;
/// No cell gets less than this share of the full detail.
const LEAST_SHARE: f64 = 0.2;

impl Detail {
    /// Full detail: about one step per pixel of a chart, and 200 kB per cell.
    pub const FULL: Detail = Detail {
        steps: 600,
        tcp_steps: 1200,
        packets: 1200,
    };

    /// The detail at which a page of `cells` cells takes about 5 MB at most, or 10 MB for 250 cells.
    #[must_use]
    pub fn for_cells(cells: usize) -> Detail {
        let share = (FULL_CELLS as f64 / cells.max(1) as f64).clamp(LEAST_SHARE, 1.0);
        let part = |of: usize| (of as f64 * share) as usize;
        Detail {
            steps: part(Detail::FULL.steps),
            tcp_steps: part(Detail::FULL.tcp_steps),
            packets: part(Detail::FULL.packets),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_cells_share_what_few_have_each() {
        for cells in [0, 1, 24] {
            assert_eq!(Detail::for_cells(cells), Detail::FULL);
        }
        assert_eq!(Detail::for_cells(48).steps, 300);
        assert_eq!(Detail::for_cells(48).packets, 600);
        assert_eq!(Detail::for_cells(10_000).steps, 120);
    }
}
