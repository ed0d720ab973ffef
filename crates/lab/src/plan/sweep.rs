//! The axes of a sweep, and the settings of each point.

use toml::{Table, Value};

use super::document::{self, CaseTable, Document};
use super::parameter::{Parameter, flatten};
use wansan_mistake::{Mistake, nearest};

/// The axis over the `[[case]]`s.
const CASE: &str = "case";
/// Separates parameters that one axis sets alike.
const JOINT: char = '+';
/// Keys of the whole plan, which cells do not use.
const FIXED: [&str; 8] = [
    "title",
    "repeat",
    "apply_advice",
    "case",
    "sweep",
    "quick",
    "paper",
    "expect",
];

/// One axis: a parameter, several set alike (`a.delay + b.delay`), or `case`.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Its name, with which cells show its value.
    name: Parameter,
    points: Vec<Point>,
}

/// One value of an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    /// The value as listed in the sweep.
    pub(super) value: Value,
    /// The settings that it makes.
    pub(super) settings: Vec<(Parameter, Value)>,
}

impl Point {
    /// The plan `base` with these settings, if valid.
    fn plan(&self, base: &Table) -> Option<Document> {
        let mut table = base.clone();
        for (parameter, value) in &self.settings {
            parameter.set(&mut table, value.clone()).ok()?;
        }
        document::from_table(&table).ok()
    }
}

impl Axis {
    /// Its name: the parameter's, or `case`; several parameters are joined by ` + `.
    #[must_use]
    pub fn name(&self) -> &Parameter {
        &self.name
    }

    /// Its values.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.points.iter().map(|point| &point.value)
    }

    /// Whether any of its points sets that parameter.
    #[must_use]
    pub fn sets(&self, parameter: &Parameter) -> bool {
        self.set_by_points().any(|name| name == parameter)
    }

    pub(super) fn points(&self) -> &[Point] {
        &self.points
    }

    fn set_by_points(&self) -> impl Iterator<Item = &Parameter> {
        let settings = self.points.iter().flat_map(|point| &point.settings);
        settings.map(|(name, _)| name)
    }
}

/// An axis's canonical name.
pub(super) fn axis_name(written: &str) -> Parameter {
    let parts: Vec<&str> = written.split(JOINT).map(str::trim).collect();
    Parameter::new(parts.join(" + "))
}

/// Whether `wanted` identifies the axis of that name: as its name, or as one of several parameters that it sets alike.
pub(super) fn is_meant(axis: &str, wanted: &str) -> bool {
    axis == wanted || axis.split(JOINT).any(|part| part.trim() == wanted)
}

/// The sweep's axes in plan order. Keys may be quoted (`"workload.parallel" = [1, 2]`) or not. `base` is the plan that
/// they modify. Mistakes refer to lines of the plan's `text`, if given.
pub(super) fn axes(
    table: &Table,
    cases: &[CaseTable],
    base: &Table,
    text: &str,
) -> Result<Vec<Axis>, Mistake> {
    check_names(cases, text)?;
    let mut axes: Vec<Axis> = Vec::new();
    for (written, value) in flatten(table) {
        let name = axis_name(written.name());
        let here = |mistake: Mistake| {
            mistake.at_dotted(text, "sweep", |written| axis_name(written) == name)
        };
        let fail = |mistake: String| here(Mistake::new(format!("[sweep] `{name}` {mistake}")));
        let values = match value {
            Value::Array(values) if !values.is_empty() => values,
            Value::Array(_) => return Err(fail("has no value: list at least one".to_owned())),
            other => {
                let kind = other.type_str();
                return Err(fail(format!("is {kind}: write a list, such as [{other}]")));
            }
        };
        let points: Result<Vec<Point>, Mistake> = values
            .into_iter()
            .map(|value| point(&name, value, cases))
            .collect();
        let points = points.map_err(here)?;
        let plan = |point: &Point| match name.name() {
            // Cases may differ in name only.
            CASE => None,
            _ => point.plan(base),
        };
        if let Some((value, same)) = twice(&points, plan) {
            return Err(fail(format!(
                "lists {value} and {same}, which are the same: `repeat` says how often the sweep is run"
            )));
        }
        let mut set = points.iter().flat_map(|point| &point.settings);
        if let Some((fixed, _)) = set.find(|(parameter, _)| is_fixed(parameter)) {
            return Err(fail(format!(
                "would set `{fixed}`, which is the same in all cells of a plan"
            )));
        }
        let axis = Axis {
            name: name.clone(),
            points,
        };
        if let Some((other, theirs, ours)) = overlap(&axes, &axis, base) {
            let what = if theirs == ours {
                format!("`{ours}`")
            } else {
                format!("one value, as `{theirs}` and as `{ours}`")
            };
            return Err(here(Mistake::new(format!(
                "[sweep] `{}` and `{}` both set {what}",
                other.name, axis.name
            ))));
        }
        axes.push(axis);
    }
    if !cases.is_empty() && !axes.iter().any(|axis| axis.name.name() == CASE) {
        let first = &cases[0].name;
        return Err(Mistake::new(format!(
            "[sweep] goes through no [[case]]: write `case = [\"{first}\"]`"
        ))
        .in_table(text, "case", 0, "name"));
    }
    Ok(axes)
}

/// The first value equivalent to an earlier one, after that one: they are spelled alike, or give the same `plan`, as
/// `"64KiB"` and `"65536B"` do.
fn twice(points: &[Point], plan: impl Fn(&Point) -> Option<Document>) -> Option<(&Value, &Value)> {
    let plans: Vec<Option<Document>> = points.iter().map(plan).collect();
    let is_same = |one: usize, other: usize| {
        points[one].value == points[other].value
            || (plans[one].is_some() && plans[one] == plans[other])
    };
    let later = 1..points.len();
    later.into_iter().find_map(|later| {
        let earlier = (0..later).find(|earlier| is_same(*earlier, later))?;
        Some((&points[earlier].value, &points[later].value))
    })
}

/// Whether a parameter applies to the whole plan, not to its cells.
fn is_fixed(parameter: &Parameter) -> bool {
    let first = parameter.name().split('.').next();
    first.is_some_and(|first| FIXED.contains(&first))
}

fn check_names(cases: &[CaseTable], text: &str) -> Result<(), Mistake> {
    for (place, case) in cases.iter().enumerate() {
        let name = &case.name;
        let wrong = |mistake: String, key: &str| {
            Err(Mistake::new(mistake).in_table(text, "case", place, key))
        };
        if cases[..place].iter().any(|other| other.name == *name) {
            return wrong(format!("[[case]] name = \"{name}\" is given twice"), "name");
        }
        if case.set.is_empty() {
            let mistake = format!("[[case]] `{name}` sets nothing: write `set = {{ … }}`");
            return wrong(mistake, "set");
        }
    }
    Ok(())
}

fn point(axis: &Parameter, value: Value, cases: &[CaseTable]) -> Result<Point, Mistake> {
    let settings = if axis.name() == CASE {
        case_settings(&value, cases)?
    } else {
        let parts = axis.name().split(JOINT);
        let alike = |part: &str| (Parameter::new(part.trim()), value.clone());
        parts.map(alike).collect()
    };
    Ok(Point { value, settings })
}

fn case_settings(value: &Value, cases: &[CaseTable]) -> Result<Vec<(Parameter, Value)>, Mistake> {
    let wanted = value.as_str().unwrap_or_default();
    let case = cases.iter().find(|case| case.name == wanted);
    let case = case.ok_or_else(|| {
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        Mistake::new(format!(
            "[sweep] `case`: no [[case]] is named {value}; {}",
            nearest(wanted, &names)
        ))
    })?;
    Ok(flatten(&case.set))
}

/// The axis that sets the same value of the plan `base` as `axis`, and the value's name on each.
fn overlap<'a>(
    axes: &'a [Axis],
    axis: &'a Axis,
    base: &Table,
) -> Option<(&'a Axis, &'a Parameter, &'a Parameter)> {
    axes.iter().find_map(|other| {
        axis.set_by_points().find_map(|ours| {
            let way = ours.way(base);
            let theirs = other
                .set_by_points()
                .find(|theirs| theirs.way(base) == way)?;
            Some((other, theirs, ours))
        })
    })
}

/// The sweep's table with lists replaced by those in `replacements`.
pub(super) fn replaced(sweep: &Table, replacements: &Table) -> Result<Table, Mistake> {
    let mut axes: Vec<(Parameter, Value)> = flatten(sweep)
        .into_iter()
        .map(|(written, values)| (axis_name(written.name()), values))
        .collect();
    for (written, values) in flatten(replacements) {
        let name = axis_name(written.name());
        let known: Vec<&str> = axes.iter().map(|(axis, _)| axis.name()).collect();
        let Some(place) = known.iter().position(|axis| *axis == name.name()) else {
            return Err(Mistake::new(format!(
                "`sweep.{name}` is not an axis of the plan's [sweep]; {}",
                nearest(name.name(), &known)
            )));
        };
        axes[place].1 = values;
    }
    let entries = axes.into_iter();
    Ok(entries
        .map(|(axis, values)| (axis.name().to_owned(), values))
        .collect())
}
