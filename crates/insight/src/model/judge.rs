//! The errors of both models.

use serde::Serialize;

use super::FitError;
use super::cycle::{Asked, Cycle};
use super::grid::{Grid, Point, median};
use super::known::{Estimate, Known};
use super::published::Published;

/// Cells in which the published form's error exceeds this are reported.
const WRONG: f64 = 0.1;
/// A row that should be flat is reported as uneven if it varies by more than this.
const UNEVEN: f64 = 0.1;
/// A cell in which both forms err by more than this, with the same sign, was disturbed rather than predicted wrongly:
/// the forms are independent of each other.
const DISTURBED: f64 = 0.2;

/// Both forms, fitted and judged.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    /// The published form, fitted to all cells.
    pub published: Published,
    /// How many parameters were fitted for it.
    pub published_parameters: usize,
    /// What all cells determine of the parameters of wansan's form.
    pub cycle: Known,
    /// How many parameters were fitted for it.
    pub cycle_parameters: usize,
    /// The cells, calculated and measured.
    pub cells: Vec<CellErrors>,
    /// Relative errors over the cells that the forms were fitted to.
    pub fitted: Errors,
    /// Relative errors over cells that the forms were not fitted to: each half of the grid, with the forms fitted to
    /// the other half. Null if the grid is too small to be halved.
    pub foretold: Option<Errors>,
    /// Where the published form is wrong, and why.
    pub remarks: Vec<String>,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellErrors {
    /// What was measured.
    #[serde(flatten)]
    pub point: Point,
    /// Bytes per second by the published form; null if it has no T for this D1.
    pub published_bytes_per_s: Option<f64>,
    /// Its error: calculated ÷ measured − 1.
    pub published_error: Option<f64>,
    /// Bytes per second by wansan's form.
    pub cycle_bytes_per_s: f64,
    /// Its error: calculated ÷ measured − 1.
    pub cycle_error: f64,
}

/// Relative errors of both forms, over the cells that both can calculate: the root mean square, which one disturbed
/// cell can dominate, and the median, which it cannot.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Errors {
    /// The number of cells.
    pub cells: usize,
    /// Root mean square error of the published form.
    pub published_rms: f64,
    /// Root mean square error of wansan's form.
    pub cycle_rms: f64,
    /// Median absolute error of the published form.
    pub published_median: f64,
    /// Median absolute error of wansan's form.
    pub cycle_median: f64,
}

/// Fits both models to a grid and evaluates them. `asked` is the initiator's concurrent requests.
///
/// # Errors
/// [`FitError`] when a form cannot be fitted to the cells.
pub fn judge(grid: &Grid, asked: Asked) -> Result<Judgement, FitError> {
    let fit = |points: &[Point]| -> Result<(Published, Cycle), FitError> {
        let cycle = Cycle::fit(points, asked)?;
        Ok((Published::fit(points)?, cycle))
    };
    let beside = |(published, cycle): &(Published, Cycle), points: &[Point]| -> Vec<CellErrors> {
        points
            .iter()
            .map(|point| errors(point, published, cycle))
            .collect()
    };
    let forms = fit(grid.points())?;
    let cells = beside(&forms, grid.points());
    let [one, other] = grid.halves();
    let foretold = fit(&one).and_then(|by_one| {
        let mut foretold = beside(&by_one, &other);
        foretold.extend(beside(&fit(&other)?, &one));
        Ok(Errors::over(&foretold))
    });
    let (published, cycle) = forms;
    let cycle = Known::of(&cycle, grid.points());
    Ok(Judgement {
        remarks: remarks(&published, &cycle, &cells),
        published_parameters: published.parameters(),
        cycle_parameters: asked.asking.parameter_count(),
        published,
        cycle,
        fitted: Errors::over(&cells),
        foretold: foretold.ok(),
        cells,
    })
}

fn errors(point: &Point, published: &Published, cycle: &Cycle) -> CellErrors {
    let error = |calculated: f64| calculated / point.bytes_per_s - 1.0;
    let by_published = published.bytes_per_s(point);
    let by_cycle = cycle.bytes_per_s(point);
    CellErrors {
        point: *point,
        published_bytes_per_s: by_published,
        published_error: by_published.map(error),
        cycle_bytes_per_s: by_cycle,
        cycle_error: error(by_cycle),
    }
}

impl Errors {
    fn over(cells: &[CellErrors]) -> Errors {
        let both: Vec<(f64, f64)> = cells
            .iter()
            .filter_map(|cell| Some((cell.published_error?, cell.cycle_error)))
            .collect();
        let rms = |error: fn(&(f64, f64)) -> f64| {
            let squares: f64 = both.iter().map(|errors| error(errors).powi(2)).sum();
            (squares / both.len().max(1) as f64).sqrt()
        };
        let middle = |error: fn(&(f64, f64)) -> f64| {
            let sizes: Vec<f64> = both.iter().map(|errors| error(errors).abs()).collect();
            if sizes.is_empty() { 0.0 } else { median(sizes) }
        };
        Errors {
            cells: both.len(),
            published_rms: rms(|errors| errors.0),
            cycle_rms: rms(|errors| errors.1),
            published_median: middle(|errors| errors.0),
            cycle_median: middle(|errors| errors.1),
        }
    }
}

/// Where the published model is wrong, and why, according to the grid.
fn remarks(published: &Published, cycle: &Known, cells: &[CellErrors]) -> Vec<String> {
    let mut remarks = Vec::new();
    remarks.extend(disturbed(cells));
    let wrong: Vec<String> = cells
        .iter()
        .filter_map(|cell| Some((cell, cell.published_error?)))
        .filter(|(_, error)| error.abs() > WRONG)
        .map(|(cell, error)| {
            let (d1_ms, d2_ms) = (cell.point.d1_s() * 1e3, cell.point.d2_s() * 1e3);
            format!("{d1_ms}-{d2_ms} ms by {:+.0} %", error * 100.0)
        })
        .collect();
    if !wrong.is_empty() {
        remarks.push(format!(
            "the published form is wrong by more than {:.0} % at {}",
            WRONG * 100.0,
            wrong.join(", ")
        ));
    }
    remarks.extend(uneven_rows(cells));
    remarks.push(format!(
        "the published form takes what a cycle moves for the sum of both windows, {:.0} packets of \
         1500 B = {:.0} KiB; the initiator asks for {:.0} KiB at once, and no window lets more than \
         that pass in a cycle",
        published.window_packets,
        published.cycle_bytes / 1024.0,
        cycle.asked.bytes as f64 / 1024.0
    ));
    let t: Vec<f64> = published
        .t_s
        .values()
        .chain(published.t_swapped_s.values())
        .copied()
        .collect();
    let (least, most) = extremes(&t);
    remarks.push(format!(
        "T of the published form is fitted anew for every D1, {:.1} ms to {:.1} ms; by ours it is \
         what the slower route needs to send its half{}",
        least * 1e3,
        most * 1e3,
        sending(cycle)
    ));
    remarks
}

/// The sending times, if the cells determine those of both routes.
fn sending(cycle: &Known) -> String {
    let ms = |estimate: Option<Estimate>| Some(estimate?.value? * 1e3);
    match (ms(cycle.send1_s), ms(cycle.send2_s)) {
        (Some(one), Some(other)) => {
            format!(": {one:.1} ms over the first, {other:.1} ms over the second")
        }
        _ => String::new(),
    }
}

/// Cells that neither form predicts, in which something else happened.
fn disturbed(cells: &[CellErrors]) -> Option<String> {
    let both = |cell: &&CellErrors| {
        let published = cell.published_error.unwrap_or(0.0);
        published.abs().min(cell.cycle_error.abs()) > DISTURBED
            && published * cell.cycle_error > 0.0
    };
    let named: Vec<String> = cells
        .iter()
        .filter(both)
        .map(|cell| {
            let (d1_ms, d2_ms) = (cell.point.d1_s() * 1e3, cell.point.d2_s() * 1e3);
            format!("{d1_ms}-{d2_ms} ms")
        })
        .collect();
    (!named.is_empty()).then(|| {
        format!(
            "both forms are wrong by more than {:.0} % at {}, on the same side: it was disturbed, or does \
             what neither knows; measure it again (`repeat` in the plan takes the median)",
            DISTURBED * 100.0,
            named.join(", ")
        )
    })
}

/// Rows beyond the diagonal, which the published form assumes to be flat.
fn uneven_rows(cells: &[CellErrors]) -> Vec<String> {
    let mut rows: Vec<u64> = cells.iter().map(|cell| cell.point.d1_ns).collect();
    rows.dedup();
    rows.into_iter()
        .filter_map(|d1_ns| {
            let beyond = |cell: &&CellErrors| cell.point.d1_ns == d1_ns && cell.point.d2_ns < d1_ns;
            let row: Vec<f64> = cells
                .iter()
                .filter(beyond)
                .map(|cell| cell.point.bytes_per_s)
                .collect();
            let (least, most) = extremes(&row);
            let uneven = row.len() > 1 && most / least - 1.0 > UNEVEN;
            uneven.then(|| {
                format!(
                    "at D1 = {} ms the published form is flat for all shorter D2, but throughput \
                     goes from {:.1} to {:.1} Mbit/s",
                    d1_ns as f64 / 1e6,
                    least * 8.0 / 1e6,
                    most * 8.0 / 1e6
                )
            })
        })
        .collect()
}

fn extremes(numbers: &[f64]) -> (f64, f64) {
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (least, most)
}
