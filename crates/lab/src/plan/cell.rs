//! The cells of a sweep.

use std::path::Path;

use toml::{Table, Value};

use super::conditions::Conditions;
use super::document::{self, Document};
use super::files::{self, PlanFile};
use super::parameter::Parameter;
use super::scenario::Scenario;
use super::sweep::{Axis, Point};
use super::timeline::{self, Moment};
use wansan_mistake::Mistake;

/// The pass over a plan's sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// As the plan says.
    Planned,
    /// With the finding's advice.
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
    /// The phase.
    pub phase: Phase,
    /// The repetition of the sweep, from 0.
    pub repeat: u32,
    /// The value of each axis of the sweep, in plan order.
    pub parameters: Vec<(Parameter, Value)>,
    /// The plan with these values.
    pub document: Document,
    /// The world to build and the programs to run.
    pub scenario: Scenario,
    /// The initial state of its paths.
    pub conditions: Conditions,
    /// Changes during the run, in time order.
    pub timeline: Vec<Moment>,
}

impl Cell {
    /// A cell from its resolved plan alone, as TOML ([`Document::to_toml`]), with its files in `folder`. It equals the
    /// original except for its labels.
    pub(crate) fn alone(text: &str, repeat: u32, folder: &Path) -> Result<Cell, Mistake> {
        let document = document::from_text(text)?;
        Cell::resolve(document, Phase::Planned, repeat, Vec::new(), folder)
    }

    /// The files that it names, with their current contents.
    pub(crate) fn files(&self) -> Result<Vec<PlanFile>, Mistake> {
        files::of(std::slice::from_ref(self), self.conditions.folder())
    }

    fn resolve(
        document: Document,
        phase: Phase,
        repeat: u32,
        parameters: Vec<(Parameter, Value)>,
        folder: &Path,
    ) -> Result<Cell, Mistake> {
        let scenario = Scenario::resolve(&document, "", folder)?;
        let conditions = Conditions::begin(&document, &scenario, folder)?;
        let timeline = timeline::resolve(&document, "", &conditions)?;
        Ok(Cell {
            phase,
            repeat,
            parameters,
            document,
            scenario,
            conditions,
            timeline,
        })
    }

    /// Every congestion control of its programs, starting with `[tcp]`'s.
    pub(crate) fn congestion_controls(&self) -> Vec<&str> {
        let of_streams = self.scenario.streams.iter();
        let of_streams =
            of_streams.filter_map(|stream| stream.table.stream.congestion_control.as_deref());
        let sides = self.scenario.relays.iter().flat_map(|relay| {
            let sides = [&relay.table.flow.r#in, &relay.table.flow.out];
            sides.map(|side| side.congestion_control.as_deref())
        });
        let mut names = vec![self.document.tcp.congestion_control.as_str()];
        for name in of_streams.chain(sides.flatten()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// The product of the sweep's axes over `base`, `repeat` times.
pub(super) fn expand(
    base: &Table,
    sweep: &[Axis],
    repeat: u32,
    phase: Phase,
    folder: &Path,
    max_cells: usize,
) -> Result<Vec<Cell>, Mistake> {
    let points = sweep
        .iter()
        .try_fold(1usize, |points, axis| {
            points.checked_mul(axis.points().len())
        })
        .filter(|points| points.saturating_mul(repeat as usize) <= max_cells)
        .ok_or_else(|| {
            Mistake::new(format!(
                "[sweep] and `repeat` make more than {max_cells} cells"
            ))
        })?;
    let mut cells = Vec::with_capacity(points * repeat as usize);
    for round in 0..repeat {
        for number in 0..points {
            let point = point_of(sweep, number);
            let parameters: Vec<(Parameter, Value)> = point
                .iter()
                .map(|(axis, point)| (axis.name().clone(), point.value.clone()))
                .collect();
            let mut table = base.clone();
            for (parameter, value) in point.iter().flat_map(|(_, point)| &point.settings) {
                parameter.set(&mut table, value.clone())?;
            }
            let label = written(&parameters);
            let cell = document::from_table(&table)
                .and_then(|document| Cell::resolve(document, phase, round, parameters, folder));
            cells.push(cell.map_err(|mistake| match label.is_empty() {
                true => mistake,
                false => mistake.within(format!("[sweep] {label}")),
            })?);
        }
    }
    Ok(cells)
}

/// The point of each axis at index `number` of the product; the last axis varies fastest.
fn point_of(sweep: &[Axis], mut number: usize) -> Vec<(&Axis, &Point)> {
    let mut point: Vec<(&Axis, &Point)> = sweep
        .iter()
        .rev()
        .map(|axis| {
            let points = axis.points();
            let at = &points[number % points.len()];
            number /= points.len();
            (axis, at)
        })
        .collect();
    point.reverse();
    point
}

/// Formats parameters as in a plan.
pub(super) fn written(parameters: &[(Parameter, Value)]) -> String {
    let set: Vec<String> = parameters
        .iter()
        .map(|(parameter, value)| format!("{parameter} = {value}"))
        .collect();
    set.join(", ")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::Plan;
    use super::*;

    /// For every plan in the tree, with all its cells.
    #[test]
    fn a_cell_is_the_same_of_its_resolved_plan_alone() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
        let folders = std::fs::read_dir(root).unwrap().flatten();
        let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).unwrap().flatten());
        let files: Vec<PathBuf> = files.map(|file| file.path()).collect();
        assert!(files.len() > 20, "{files:?}");
        for file in files {
            let plan = Plan::read(&file).unwrap();
            for cell in plan.cells(Phase::Planned, &[]).unwrap() {
                let text = cell.document.to_toml();
                let alone = Cell::alone(&text, cell.repeat, file.parent().unwrap()).unwrap();
                assert_eq!(alone.document, cell.document, "{}", file.display());
                assert_eq!(alone.conditions, cell.conditions, "{}", file.display());
                let told = |cell: &Cell| format!("{:?}\n{:?}", cell.scenario, cell.timeline);
                assert_eq!(told(&alone), told(&cell), "{}", file.display());
            }
        }
    }
}
