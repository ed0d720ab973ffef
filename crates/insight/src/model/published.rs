//! The published form: a cycle of 2·D2 + T(D1) moves a fixed number of bytes.

use std::collections::BTreeMap;

use serde::Serialize;

use super::FitError;
use super::grid::Point;

/// Bytes of a packet, in round numbers, as the publication counts them.
pub const PACKET_BYTES: f64 = 1500.0;

/// The published form with its parameters: throughput = `cycle_bytes` ÷ (2·D2 + T(D1)) while D1 ≤ D2; D1 and D2 change
/// places when D1 > D2.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Published {
    /// The bytes that a cycle moves: a packet's bytes times the sum of both windows.
    pub cycle_bytes: f64,
    /// That sum, in packets of 1500 bytes.
    pub window_packets: f64,
    /// T in seconds by D1 in ns, fitted to the cells where D1 ≤ D2.
    pub t_s: BTreeMap<u64, f64>,
    /// T in seconds by D1 in ns, fitted to the cells where D1 > D2.
    pub t_swapped_s: BTreeMap<u64, f64>,
}

/// Cells that share a T: those with the same D1 on one side of the diagonal.
type Group = (bool, u64);

impl Published {
    /// Fits the model by least squares of the relative error of the cycle time. It is linear in 1 ÷ throughput: a slope
    /// that all cells share, and an intercept for each T.
    ///
    /// # Errors
    /// [`FitError::TooFewCells`] if there are not more cells than parameters, [`FitError::NoCycle`] if the slope is
    /// unknown or not positive.
    pub fn fit(points: &[Point]) -> Result<Published, FitError> {
        let mut groups: BTreeMap<Group, Vec<&Point>> = BTreeMap::new();
        for point in points {
            groups.entry(group(point)).or_default().push(point);
        }
        FitError::check(points, 1 + groups.len())?;
        // For each cell, 1 = slope·u + intercept·x, with x the throughput and u = 2·D·x. The group's intercept is
        // eliminated from both sides first.
        let (mut above, mut below) = (0.0, 0.0);
        for cells in groups.values() {
            let of_x = Projection::on(cells);
            for cell in cells {
                let (x, u) = terms(cell);
                let u_rest = u - x * of_x.u;
                let one_rest = 1.0 - x * of_x.one;
                above += u_rest * one_rest;
                below += u_rest * u_rest;
            }
        }
        let slope = above / below;
        if !slope.is_finite() || slope <= 0.0 {
            return Err(FitError::NoCycle);
        }
        let cycle_bytes = 1.0 / slope;
        let mut fitted = Published {
            cycle_bytes,
            window_packets: cycle_bytes / PACKET_BYTES,
            t_s: BTreeMap::new(),
            t_swapped_s: BTreeMap::new(),
        };
        for ((is_swapped, d1_ns), cells) in &groups {
            let of_x = Projection::on(cells);
            let intercept = of_x.one - slope * of_x.u;
            let of_side = if *is_swapped {
                &mut fitted.t_swapped_s
            } else {
                &mut fitted.t_s
            };
            of_side.insert(*d1_ns, intercept * cycle_bytes);
        }
        Ok(fitted)
    }

    /// Bytes per second at these delays; `None` if no cell with this D1 was fitted. If one side of the diagonal has no
    /// T for it, the other side's is used.
    #[must_use]
    pub fn bytes_per_s(&self, point: &Point) -> Option<f64> {
        let (is_swapped, d1_ns) = group(point);
        let (side, other) = if is_swapped {
            (&self.t_swapped_s, &self.t_s)
        } else {
            (&self.t_s, &self.t_swapped_s)
        };
        let t_s = side.get(&d1_ns).or_else(|| other.get(&d1_ns))?;
        let cycle_s = 2.0 * point.slower_s() + t_s;
        (cycle_s > 0.0).then(|| self.cycle_bytes / cycle_s)
    }

    /// How many parameters were fitted.
    #[must_use]
    pub fn parameters(&self) -> usize {
        1 + self.t_s.len() + self.t_swapped_s.len()
    }
}

/// The coefficients of the projections of a group's other terms on x, the throughput.
struct Projection {
    one: f64,
    u: f64,
}

impl Projection {
    fn on(cells: &[&Point]) -> Projection {
        let sum = |term: &dyn Fn(f64, f64) -> f64| -> f64 {
            cells
                .iter()
                .map(|cell| {
                    let (x, u) = terms(cell);
                    term(x, u)
                })
                .sum()
        };
        let squares = sum(&|x, _| x * x);
        Projection {
            one: sum(&|x, _| x) / squares,
            u: sum(&|x, u| x * u) / squares,
        }
    }
}

fn terms(point: &Point) -> (f64, f64) {
    let x = point.bytes_per_s;
    (x, 2.0 * point.slower_s() * x)
}

fn group(point: &Point) -> Group {
    (point.d1_ns > point.d2_ns, point.d1_ns)
}
