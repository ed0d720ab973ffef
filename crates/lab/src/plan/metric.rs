//! The metrics that an expectation may use: the results' own names ([`wansan_schema::metric`]), so that a misspelt one
//! is detected before anything runs.

use std::sync::LazyLock;

use wansan_insight::below::Untold;
use wansan_insight::finding::Limit;
use wansan_insight::ledger::NO_CAUSE;
use wansan_insight::stall::{CAUSES, Cause};
use wansan_mistake::nearest;
use wansan_relay::{Fallback, Law};
pub(super) use wansan_schema::metric::CELLS;
use wansan_schema::metric::{Metric, Part, metrics};
use wansan_schema::table::{Kind, Names, Takes, Unit};
use wansan_trace::Layer;

use super::cell::Cell;
use super::document::{EmulatorKind, RecordKind, WorldKind};

/// Prefix of the emulator's, or netem's, counters of a cell's paths.
const OF_PATHS: &str = "cells.path_";

/// The content of a metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// A number with that unit.
    Number(Unit),
    /// Any text.
    Text,
    /// One of these words, or none.
    Word(Vec<&'static str>),
    /// A number or text, as the plan's parameter.
    Either,
}

static METRICS: LazyLock<Vec<Metric>> = LazyLock::new(metrics);

/// Names that are the same in every plan.
fn words(names: Names) -> Option<Vec<&'static str>> {
    match names {
        Names::Layers => Some(Layer::ALL.map(Layer::name).to_vec()),
        Names::Limits => Some(Limit::ALL.map(Limit::name).to_vec()),
        Names::Causes => {
            let causes = CAUSES.into_iter().map(Cause::name);
            Some(causes.chain([NO_CAUSE]).collect())
        }
        Names::Waits => Some(Cause::ALL.map(Cause::name).to_vec()),
        Names::Untold => Some(Untold::ALL.map(Untold::name).to_vec()),
        Names::Laws => Some(Law::ALL.map(Law::name).to_vec()),
        Names::Fallbacks => Some(Fallback::ALL.map(Fallback::name).to_vec()),
        Names::Streams | Names::Relays | Names::Routers => None,
    }
}

/// Finds a metric by name.
fn find(name: &str) -> Option<&'static Metric> {
    let is_it = |metric: &&Metric| {
        let has = |(names, said)| words(names).is_none_or(|words| words.contains(&said));
        metric.is_meant(name) && metric.names(name).all(has)
    };
    METRICS.iter().find(is_it)
}

/// All known names, with names defined by the plan taken from `like`.
fn all(like: &str) -> Vec<String> {
    let said: Vec<&str> = like.split('.').collect();
    let named = |metric: &Metric| -> Vec<String> {
        let of_plan = |place: usize| said.get(place).map_or("NAME", |name| *name).to_owned();
        let choices = metric.parts.iter().find_map(|part| match part {
            Part::One(names) => words(*names),
            Part::Word(_) => None,
        });
        let one = |choice: &str| {
            metric.named(|place, names| match words(names) {
                Some(_) => choice.to_owned(),
                None => of_plan(place),
            })
        };
        choices.map_or_else(|| vec![one("")], |each| each.into_iter().map(one).collect())
    };
    METRICS.iter().flat_map(named).collect()
}

/// The content of `metric`, or the nearest metric to an unknown name.
pub(super) fn content(metric: &str) -> Result<Content, String> {
    if let Some(found) = find(metric) {
        let mut kind = found.field.kind;
        while let Kind::Optional(inner) | Kind::Map(inner) = kind {
            kind = inner;
        }
        return Ok(match kind {
            Kind::Number => Content::Number(found.field.unit.unwrap_or(Unit::Count)),
            Kind::Anything => Content::Either,
            _ => match found.field.names.and_then(words) {
                Some(words) => Content::Word(words),
                None => Content::Text,
            },
        });
    }
    let of_cells = format!("{CELLS}{metric}");
    if find(&of_cells).is_some() {
        return Err(format!(
            "there is no such metric; did you mean `{of_cells}`?"
        ));
    }
    let names = all(metric);
    let begin = |with: &str| -> Vec<&str> {
        let names = names.iter().map(String::as_str);
        names.filter(|name| name.starts_with(with)).collect()
    };
    // A correctly named stream or relay has no such number.
    if let Some((of_one, number)) = behind_dot(metric, 3) {
        let numbers: Vec<&str> = begin(of_one)
            .iter()
            .map(|name| &name[of_one.len()..])
            .collect();
        if !numbers.is_empty() {
            return Err(format!(
                "there is no `{number}`; {}",
                nearest(number, &numbers)
            ));
        }
    }
    // Prefer candidates with the same first word; if that is misspelt too, any.
    let mut near = begin(behind_dot(metric, 1).map_or(metric, |(about, _)| about));
    if near.is_empty() {
        near = begin("");
    }
    Err(format!(
        "there is no such metric; {}",
        nearest(metric, &near)
    ))
}

/// Splits a name at its `count`-th dot.
fn behind_dot(name: &str, count: usize) -> Option<(&str, &str)> {
    let (dot, _) = name.match_indices('.').nth(count - 1)?;
    Some(name.split_at(dot + 1))
}

/// Why a cell can never have a metric; `None` if it can.
pub(super) fn lack(metric: &str, cell: &Cell) -> Option<String> {
    let found = find(metric).filter(|_| metric.starts_with(CELLS))?;
    if is_as_it_is(cell) && metric.starts_with(OF_PATHS) {
        let lack =
            "paths between real hosts are not emulated, and count nothing: name a `router` in one";
        return Some(lack.to_owned());
    }
    let mut takes = found.takes.clone();
    for (names, name) in found.names(metric) {
        if let Some(lack) = lack_of_name(names, name, cell) {
            return Some(lack);
        }
        if names == Names::Layers {
            takes.extend(of_layer(name));
        }
    }
    takes.iter().find_map(|takes| lack_of(*takes, cell))
}

/// The records besides `io` from which crossings of that layer are derived.
fn of_layer(name: &str) -> &'static [Takes] {
    match Layer::ALL.into_iter().find(|layer| layer.name() == name) {
        Some(Layer::Wire) => &[Takes::Packet, Takes::Pdu],
        Some(Layer::TcpInitiator | Layer::TcpTarget) => &[Takes::Stamp, Takes::Pdu],
        _ => &[],
    }
}

/// Why a cell has nothing of that name. Names that exist only in other cells have no results in this one.
fn lack_of_name(names: Names, name: &str, cell: &Cell) -> Option<String> {
    let document = &cell.document;
    let (kind, there): (_, Vec<&str>) = match names {
        Names::Streams => {
            let tables = document.stream.iter();
            ("[[stream]]", tables.map(|table| &table.name[..]).collect())
        }
        Names::Relays => {
            let tables = document.relay.iter();
            ("[[relay]]", tables.map(|table| &table.name[..]).collect())
        }
        _ => return None,
    };
    (!there.contains(&name))
        .then(|| format!("no {kind} is named `{name}`; {}", nearest(name, &there)))
}

/// Why a cell lacks what a metric requires.
fn lack_of(takes: Takes, cell: &Cell) -> Option<String> {
    let scenario = &cell.scenario;
    if let Some(kind) = takes.record() {
        let recorded: &[RecordKind] = &cell.document.trace.kinds;
        if !recorded.iter().any(|recorded| recorded.name() == kind) {
            return Some(format!("it takes \"{kind}\" in `trace.kinds`"));
        }
    }
    let (lacks, what) = match takes {
        Takes::Ios => (
            scenario.initiators.is_empty(),
            "it is about I/Os, and the plan has no [[initiator]]",
        ),
        Takes::Streams => (scenario.streams.is_empty(), "the plan has no [[stream]]"),
        Takes::Vpn => (!is_tunnelled(cell), "no route has a `vpn`"),
        Takes::Emulator => (
            cell.document.world.emulator == EmulatorKind::Netem,
            "netem does not count it",
        ),
        Takes::Packet if is_as_it_is(cell) => (
            true,
            "no packet is seen between real hosts: name a `router` in a path",
        ),
        Takes::Packet => (
            scenario.links.iter().all(|link| link.wire),
            "no packet is seen on wires: give a path `delay = \"0ms\"` at least",
        ),
        Takes::Pdu | Takes::Stamp | Takes::Tcp => return None,
    };
    lacks.then(|| what.to_owned())
}

/// Whether it runs on real hosts without any emulated path.
fn is_as_it_is(cell: &Cell) -> bool {
    let is_real = cell.document.world.kind == WorldKind::Hosts;
    is_real && cell.scenario.links.iter().all(|link| link.wire)
}

fn is_tunnelled(cell: &Cell) -> bool {
    let scenario = &cell.scenario;
    let connections = scenario.initiators.iter().flat_map(|i| &i.connections);
    let mut routes = connections.filter_map(|connection| connection.route_place);
    routes.any(|place| scenario.routes[place].tunnel.is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use wansan_insight::below::{Splits, from_splits};
    use wansan_insight::finding::explain;
    use wansan_insight::ledger::{WaitUse, cost_of};
    use wansan_schema::{
        Advice, Advised, CellResult, CwndUse, RelayResult, Results, RouterUsage, StampCount,
        StreamResult,
    };

    use super::*;

    /// Complete results, as measurements fill them in.
    fn whole() -> Results {
        let finding = || explain(&[]);
        let some = |names: Names| words(names).unwrap().into_iter().map(str::to_owned);
        let cell = CellResult {
            streams: [("up".to_owned(), StreamResult::default())].into(),
            relays: [(
                "edge".to_owned(),
                RelayResult {
                    fallbacks: some(Names::Fallbacks).map(|name| (name, 1)).collect(),
                    ..RelayResult::default()
                },
            )]
            .into(),
            routers: vec![RouterUsage {
                router: "far".to_owned(),
                ..RouterUsage::default()
            }],
            in_flight: some(Names::Layers).map(|name| (name, 1.0)).collect(),
            cwnd: Some(CwndUse::default()),
            waits: Some(WaitUse::default().result()),
            stalls: Some(cost_of(&[], &WaitUse::default())),
            below_socket: Some(from_splits(&Splits::default(), StampCount::default())),
            finding: Some(finding().into()),
            ..CellResult::default()
        };
        Results {
            cells: vec![cell],
            finding: Some(wansan_schema::Finding {
                advice: Some(Advice::default()),
                ..finding().into()
            }),
            advised: Some(Advised::default()),
            ..Results::default()
        }
    }

    /// Every name leads to a field of the file, whatever its value, and every number in a file has a name.
    #[test]
    fn names_are_those_of_the_file() {
        let results = serde_json::to_value(whole()).unwrap();
        let mut file = Vec::new();
        leaves(&results, String::new(), &mut file);
        let known = |name: &str| METRICS.iter().any(|metric| metric.is_meant(name));
        let numbers = file.iter().filter(|(_, value)| value.is_number());
        let apart = [
            "cell",
            "repeat",
            "measured_from_ns",
            "measured_to_ns",
            "expectations_unchecked",
        ];
        for (name, _) in numbers {
            let last = name.rsplit('.').next().unwrap();
            assert!(known(name) || apart.contains(&last), "{name} has no metric");
        }
        for metric in &*METRICS {
            let is_there = file.iter().any(|(name, _)| metric.is_meant(name));
            let untold = metric.parts.contains(&Part::One(Names::Untold));
            assert!(is_there || untold, "{metric:?} is in no results");
        }
    }

    /// The leaf values of a file, including nulls; cells and routers by their names in metrics.
    fn leaves(value: &Value, name: String, found: &mut Vec<(String, Value)>) {
        let within = |inner: &str| match &name[..] {
            "" => inner.to_owned(),
            outer => format!("{outer}.{inner}"),
        };
        match value {
            Value::Object(members) => {
                for (member, value) in members {
                    leaves(value, within(member), found);
                }
            }
            Value::Array(list) => {
                for value in list.iter().filter(|value| value.is_object()) {
                    let router = value.get("router").and_then(Value::as_str);
                    leaves(value, router.map_or(name.clone(), within), found);
                }
            }
            single => found.push((name, single.clone())),
        }
    }

    /// A lookup returns the value at that place.
    #[test]
    fn values_are_found_by_their_names() {
        let results = whole();
        for (name, value) in [
            ("cells.relays.edge.fallbacks.no_ecn", 1.into()),
            ("cells.in_flight.wire", 1.0.into()),
            ("cells.routers.far.cpu_ns", 0.into()),
            ("finding.limit", Value::from("nothing")),
            ("advised.planned_cell", 0.into()),
        ] {
            content(name).unwrap();
            let found = match name.strip_prefix(CELLS) {
                Some(name) => results.cells[0].value(name),
                None => results.value(name),
            };
            assert_eq!(found, Some(value), "{name}");
        }
        assert_eq!(results.cells[0].value("iops"), None);
    }

    #[test]
    fn what_is_no_result_is_no_metric() {
        for (name, near) in [
            ("cells.cell", "cells."),
            ("cells.paths.wan.in_packets", "cells."),
            ("cells.initiators.iops", "cells.iops"),
            ("cells.streams.up.byte_per_s", "`bytes_per_s`"),
            ("cells.relays.edge.fallbacks.no_ece", "`fallbacks.no_ecn`"),
            ("cells.in_flight.windo", "`cells.in_flight.window`"),
            ("stalls.cost_ns", "`cells.stalls.cost_ns`"),
        ] {
            let mistake = content(name).unwrap_err();
            assert!(mistake.contains(near), "{name}: {mistake}");
        }
    }
}
