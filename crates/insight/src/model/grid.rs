//! A measured grid: throughput against the delays of two routes.

use std::collections::BTreeMap;

use serde::Serialize;

use super::FitError;

/// One cell: the median of its repeats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// One-way delay of the first route, in ns.
    pub d1_ns: u64,
    /// One-way delay of the second route, in ns.
    pub d2_ns: u64,
    /// Data of the session, in bytes per second.
    pub bytes_per_s: f64,
}

/// The cells of a run, each pair of delays once.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Grid {
    points: Vec<Point>,
}

impl Point {
    /// One-way delay of the first route, in seconds.
    #[must_use]
    pub fn d1_s(&self) -> f64 {
        self.d1_ns as f64 / 1e9
    }

    /// One-way delay of the second route, in seconds.
    #[must_use]
    pub fn d2_s(&self) -> f64 {
        self.d2_ns as f64 / 1e9
    }

    /// One-way delay of the slower route, in seconds.
    #[must_use]
    pub fn slower_s(&self) -> f64 {
        self.d1_s().max(self.d2_s())
    }
}

impl Grid {
    /// The grid of these cells, in any order. The median of the repeats of each pair of delays counts, as one disturbed
    /// repeat does not move it.
    ///
    /// # Errors
    /// [`FitError::NoThroughput`] if a cell has no throughput.
    pub fn of(cells: impl IntoIterator<Item = Point>) -> Result<Grid, FitError> {
        let mut repeats: BTreeMap<(u64, u64), Vec<f64>> = BTreeMap::new();
        for cell in cells {
            if !cell.bytes_per_s.is_finite() || cell.bytes_per_s <= 0.0 {
                return Err(FitError::NoThroughput {
                    d1_ms: cell.d1_s() * 1e3,
                    d2_ms: cell.d2_s() * 1e3,
                });
            }
            let of_pair = repeats.entry((cell.d1_ns, cell.d2_ns)).or_default();
            of_pair.push(cell.bytes_per_s);
        }
        let points = repeats.into_iter().map(|((d1_ns, d2_ns), repeats)| Point {
            d1_ns,
            d2_ns,
            bytes_per_s: median(repeats),
        });
        Ok(Grid {
            points: points.collect(),
        })
    }

    /// The cells, by the first delay and then by the second.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Two halves in a chessboard pattern: every row and column has cells of both.
    #[must_use]
    pub fn halves(&self) -> [Vec<Point>; 2] {
        let place = |delays: &[u64], ns: u64| delays.iter().position(|delay| *delay == ns);
        let (rows, columns) = (self.delays(|p| p.d1_ns), self.delays(|p| p.d2_ns));
        let mut halves = [Vec::new(), Vec::new()];
        for point in &self.points {
            let row = place(&rows, point.d1_ns).unwrap_or(0);
            let column = place(&columns, point.d2_ns).unwrap_or(0);
            halves[(row + column) % 2].push(*point);
        }
        halves
    }

    fn delays(&self, of: fn(&Point) -> u64) -> Vec<u64> {
        let mut delays: Vec<u64> = self.points.iter().map(of).collect();
        delays.sort_unstable();
        delays.dedup();
        delays
    }
}

/// The median of at least one number; the mean of the two middle ones if their number is even.
pub(super) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    if numbers.len().is_multiple_of(2) {
        f64::midpoint(numbers[middle - 1], numbers[middle])
    } else {
        numbers[middle]
    }
}
