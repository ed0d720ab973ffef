//! The names of results, as plans and people write them.

use crate::Results;
use crate::table::{Field, Kind, Names, Takes, Unit};

/// The word before the metrics of cells.
pub const CELLS: &str = "cells.";

/// A result by its dotted name.
#[derive(Debug, Clone)]
pub struct Metric {
    /// The parts of the name.
    pub parts: Vec<Part>,
    /// What stands there.
    pub field: &'static Field,
    /// What a plan must have for it, whatever it is a part of included.
    pub takes: Vec<Takes>,
}

/// A part of a dotted name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// This word.
    Word(&'static str),
    /// The name of one of these.
    One(Names),
}

impl Metric {
    /// The name, with `name` for what has one.
    pub fn named(&self, mut name: impl FnMut(usize, Names) -> String) -> String {
        let parts = self.parts.iter().enumerate();
        let parts: Vec<String> = parts
            .map(|(place, part)| match *part {
                Part::Word(word) => word.to_owned(),
                Part::One(names) => name(place, names),
            })
            .collect();
        parts.join(".")
    }

    /// Whether `name` is one of it, whatever the names in it are.
    #[must_use]
    pub fn is_meant(&self, name: &str) -> bool {
        let mut parts = self.parts.iter();
        let alike = name.split('.').all(|said| match parts.next() {
            Some(Part::Word(word)) => *word == said,
            Some(Part::One(_)) => !said.is_empty(),
            None => false,
        });
        alike && parts.next().is_none()
    }

    /// The names in `name`, which is one of it, with what they are of.
    pub fn names<'a>(&self, name: &'a str) -> impl Iterator<Item = (Names, &'a str)> {
        let parts = self.parts.iter().zip(name.split('.'));
        parts.filter_map(|(part, said)| match part {
            Part::Word(_) => None,
            Part::One(names) => Some((*names, said)),
        })
    }
}

/// What the metric of that name is measured in, if there is one.
#[must_use]
pub fn unit(name: &str) -> Option<Unit> {
    let mut metrics = metrics().into_iter();
    metrics.find(|metric| metric.is_meant(name))?.field.unit
}

/// Every result: those of the run, and those of cells behind [`CELLS`].
#[must_use]
pub fn metrics() -> Vec<Metric> {
    let mut found = Vec::new();
    for field in Results::TABLE.fields {
        add(&[], &[], field, &mut found);
    }
    found
}

/// Adds what a field of a struct holds.
fn add(outer: &[Part], takes: &[Takes], field: &'static Field, found: &mut Vec<Metric>) {
    if field.unit.is_none() {
        return;
    }
    let parts = [outer, &[Part::Word(field.name)]].concat();
    let takes = [takes, field.takes].concat();
    below(parts, takes, field, field.kind, found);
}

fn below(
    mut parts: Vec<Part>,
    takes: Vec<Takes>,
    field: &'static Field,
    kind: &Kind,
    found: &mut Vec<Metric>,
) {
    match kind {
        Kind::Optional(kind) => below(parts, takes, field, kind, found),
        Kind::Map(kind) | Kind::List(kind) => {
            // Cells have no names: all of them are meant.
            if matches!(field.unit, Some(Unit::Group)) && field.names.is_none() {
                return below(parts, takes, field, kind, found);
            }
            parts.extend(field.names.map(Part::One));
            below(parts, takes, field, kind, found);
        }
        Kind::Struct(table) => {
            for field in table.fields {
                add(&parts, &takes, field, found);
            }
        }
        Kind::Number | Kind::Truth | Kind::Text | Kind::Anything => found.push(Metric {
            parts,
            field,
            takes,
        }),
    }
}
