//! Closed-form models of the throughput of one session over two routes of unequal delay, fitted to measured grids.
//! `docs/internals/model.md` derives the equations.
//!
//! - [`grid`]: the measurement;
//! - [`published`]: the form of Chishima, Yamaguchi and Oguchi (2008, chapter 6);
//! - [`cycle`]: wansan's own, from first principles;
//! - [`known`]: confidence ranges of its parameters;
//! - [`judge`]: the errors of both, on the cells that they were fitted to and on others.

pub mod cycle;
pub mod grid;
pub mod judge;
pub mod known;
pub mod published;

/// Why a form cannot be fitted. Each is one line.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FitError {
    /// There are no more cells than parameters: any values would fit them.
    #[error(
        "{cells} cells are too few to fit {parameters} numbers to, as any would do: sweep three delays \
         or more of each of two routes"
    )]
    TooFewCells {
        /// The number of cells, each pair of delays counted once.
        cells: usize,
        /// The number of parameters to fit.
        parameters: usize,
    },
    /// A cell's throughput is not positive, or not finite.
    #[error("the cell of {d1_ms} ms and {d2_ms} ms has no throughput")]
    NoThroughput {
        /// One-way delay of its first route, in ms.
        d1_ms: f64,
        /// One-way delay of its second route, in ms.
        d2_ms: f64,
    },
    /// The delay of the slower route makes no difference.
    #[error(
        "throughput does not fall with the delay of the slower route: there is no cycle to fit"
    )]
    NoCycle,
}

impl FitError {
    /// Refuses to fit as many parameters as there are cells, or more.
    fn check(points: &[grid::Point], parameters: usize) -> Result<(), FitError> {
        if points.len() > parameters {
            return Ok(());
        }
        Err(FitError::TooFewCells {
            cells: points.len(),
            parameters,
        })
    }
}
