//! The cells of a sweep.

use toml::{Table, Value};

use super::document::{self, Document};
use super::parameter::Parameter;
use super::scenario::Scenario;
use wansan_mistake::Mistake;

/// Which time a plan's sweep is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// As the plan says.
    Planned,
    /// With what the finding advises.
    Advised,
}

impl Phase {
    /// The name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Planned => "planned",
            Phase::Advised => "advised",
        }
    }
}

/// One world and one measurement in it.
#[derive(Debug, Clone)]
pub struct Cell {
    /// In which phase.
    pub phase: Phase,
    /// Which repetition of the sweep, from 0.
    pub repeat: u32,
    /// What the sweep has set, in the order of the plan.
    pub parameters: Vec<(Parameter, Value)>,
    /// The plan with that set.
    pub document: Document,
    /// What is to be built and run.
    pub scenario: Scenario,
}

/// The product of the sweep's lists over `base`, `repeat` times.
pub(super) fn expand(
    base: &Table,
    sweep: &[(Parameter, Vec<Value>)],
    repeat: u32,
    phase: Phase,
    max_cells: usize,
) -> Result<Vec<Cell>, Mistake> {
    let points = sweep
        .iter()
        .try_fold(1usize, |points, (_, values)| {
            points.checked_mul(values.len())
        })
        .filter(|points| points.saturating_mul(repeat as usize) <= max_cells)
        .ok_or_else(|| {
            Mistake::new(format!(
                "[sweep] and `repeat` make more than {max_cells} cells"
            ))
        })?;
    let mut cells = Vec::with_capacity(points * repeat as usize);
    for round in 0..repeat {
        for point in 0..points {
            let parameters = point_of(sweep, point);
            let mut table = base.clone();
            for (parameter, value) in &parameters {
                parameter.set(&mut table, value.clone())?;
            }
            let resolved = document::from_table(&table)
                .and_then(|document| Ok((Scenario::resolve(&document)?, document)));
            let (scenario, document) = resolved.map_err(|mistake| {
                if parameters.is_empty() {
                    mistake
                } else {
                    mistake.within(format!("[sweep] {}", written(&parameters)))
                }
            })?;
            cells.push(Cell {
                phase,
                repeat: round,
                parameters,
                document,
                scenario,
            });
        }
    }
    Ok(cells)
}

/// The values of point number `point` of the product; the last list varies fastest.
fn point_of(sweep: &[(Parameter, Vec<Value>)], mut point: usize) -> Vec<(Parameter, Value)> {
    let mut parameters: Vec<(Parameter, Value)> = sweep
        .iter()
        .rev()
        .map(|(parameter, values)| {
            let value = values[point % values.len()].clone();
            point /= values.len();
            (parameter.clone(), value)
        })
        .collect();
    parameters.reverse();
    parameters
}

/// Parameters as a plan would set them.
pub(super) fn written(parameters: &[(Parameter, Value)]) -> String {
    let set: Vec<String> = parameters
        .iter()
        .map(|(parameter, value)| format!("{parameter} = {value}"))
        .collect();
    set.join(", ")
}
