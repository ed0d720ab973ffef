//! Dotted names of a plan's values, and how to set them.

use std::fmt;

use toml::{Table, Value};

use wansan_mistake::{Mistake, nearest};

/// Tables within list elements: not names of elements.
const INNER: [&str; 9] = [
    "back", "forward", "in", "jitter", "loss", "out", "queue", "rate", "reorder",
];

/// The name of one value of a plan: `target.command_window`, `workload.parallel`, `path.wan.delay`. An element of a
/// list of tables is identified by its `name`, which may be omitted if it is the only one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Parameter(String);

impl Parameter {
    /// The parameter of that name. Setting it checks that a plan has it.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Parameter(name.into())
    }

    /// The dotted name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Sets the value in a plan's table. Parsing the plan from the table then checks the last key and the value's type.
    pub(super) fn set(&self, table: &mut Table, value: Value) -> Result<(), Mistake> {
        let keys: Vec<&str> = self.0.split('.').collect();
        let (last, way) = keys.split_last().expect("split gives one part at least");
        let mut inner = table;
        let mut way = way.iter().peekable();
        while let Some(key) = way.next() {
            let next = inner
                .entry((*key).to_owned())
                .or_insert_with(|| Value::Table(Table::new()));
            inner = match next {
                Value::Table(table) => table,
                Value::Array(list) => {
                    let wanted = way.peek().copied().copied();
                    let (place, named) = element(list, wanted, key).map_err(|m| m.within(self))?;
                    if named {
                        way.next();
                    }
                    match &mut list[place] {
                        Value::Table(table) => table,
                        _ => return Err(self.is_no_table(key)),
                    }
                }
                _ => return Err(self.is_no_table(key)),
            };
        }
        inner.insert((*last).to_owned(), value);
        Ok(())
    }

    /// The value in a plan's table, if present.
    pub(super) fn get(&self, table: &Table) -> Option<Value> {
        let way = self.way(table);
        let (first, rest) = way.split_first()?;
        let value = rest.iter().try_fold(table.get(first)?, |value, step| {
            match step.parse::<usize>() {
                Ok(place) => value.get(place),
                Err(_) => value.get(step),
            }
        });
        value.cloned()
    }

    /// The path to the value in a plan's table, by keys and list indices: two names of one value have the same path.
    /// Missing keys are kept as written.
    pub(super) fn way(&self, table: &Table) -> Vec<String> {
        let keys: Vec<&str> = self.0.split('.').collect();
        let (last, keys) = keys.split_last().expect("split gives one part at least");
        let mut way = Vec::new();
        let mut inner = Some(table);
        let mut keys = keys.iter().peekable();
        while let Some(key) = keys.next() {
            way.push((*key).to_owned());
            inner = match inner.and_then(|table| table.get(*key)) {
                Some(Value::Table(table)) => Some(table),
                Some(Value::Array(list)) => {
                    match element(list, keys.peek().map(|key| **key), key) {
                        Ok((place, named)) => {
                            way.push(place.to_string());
                            if named {
                                keys.next();
                            }
                            list[place].as_table()
                        }
                        Err(_) => None,
                    }
                }
                _ => None,
            };
        }
        way.push((*last).to_owned());
        way
    }

    fn is_no_table(&self, key: &str) -> Mistake {
        Mistake::new(format!("`{self}` names nothing: `{key}` is a value"))
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The element of a list of tables, and whether `wanted` was its name.
fn element(list: &[Value], wanted: Option<&str>, key: &str) -> Result<(usize, bool), Mistake> {
    let names: Vec<&str> = list
        .iter()
        .map(|value| {
            value
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default()
        })
        .collect();
    if let Some(place) = names.iter().position(|name| Some(*name) == wanted) {
        return Ok((place, true));
    }
    if let [only] = names[..] {
        return match wanted {
            Some(wanted) if !only.is_empty() && !INNER.contains(&wanted) => Err(Mistake::new(
                format!("the only [[{key}]] is named `{only}`, and not `{wanted}`"),
            )),
            _ => Ok((0, false)),
        };
    }
    let wanted = wanted.unwrap_or_default();
    Err(Mistake::new(format!(
        "there are {} [[{key}]] and none is named `{wanted}`; {}",
        list.len(),
        nearest(wanted, &names)
    )))
}

/// The leaf values of nested tables with their dotted names.
pub(super) fn flatten(table: &Table) -> Vec<(Parameter, Value)> {
    let mut flat = Vec::new();
    for (key, value) in table {
        match value {
            Value::Table(inner) => {
                for (parameter, value) in flatten(inner) {
                    flat.push((Parameter(format!("{key}.{parameter}")), value));
                }
            }
            other => flat.push((Parameter(key.clone()), other.clone())),
        }
    }
    flat
}
