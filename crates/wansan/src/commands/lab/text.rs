//! The text output of `wansan lab`.

use std::fmt::Write;
use std::time::Duration;

use wansan_lab::plan::Phase;
use wansan_schema::metric::unit;
use wansan_schema::table::Unit;
use wansan_schema::{Advised, CellResult, Finding, Paper, Results};
use wansan_trace::Layer;

use crate::commands::grid::{grid, right};

mod streams;

/// An axis's name on several lines, so that a header is no wider than its column.
fn broken(name: &str) -> String {
    if name.contains('+') {
        name.replace(" + ", " +\n")
    } else {
        name.replace('.', "\n")
    }
}

/// The cells of a phase: settings and results. In-flight numbers are means per initiator, comparable with its
/// configured queue depth.
pub(super) fn table(results: &Results, phase: Phase) -> String {
    let cells: Vec<&CellResult> = results
        .cells
        .iter()
        .filter(|cell| cell.phase == phase.name())
        .collect();
    let layers: Vec<Layer> = Layer::ALL
        .into_iter()
        .filter(|layer| {
            cells
                .iter()
                .any(|cell| cell.in_flight.contains_key(layer.name()))
        })
        .collect();
    let mut names: Vec<&String> = cells
        .first()
        .map_or_else(Vec::new, |cell| cell.parameters.keys().collect());
    // An older run does not record the order of its axes.
    names.sort_by_key(|name| results.axes.iter().position(|axis| axis == *name));

    let mut header: Vec<String> = names.iter().map(|name| broken(name)).collect();
    let is_repeated = cells.iter().any(|cell| cell.repeat > 0);
    if is_repeated {
        header.push("repeat".to_owned());
    }
    let has_ios = cells
        .iter()
        .any(|cell| cell.streams.is_empty() || !cell.initiators.is_empty());
    let throughput = if has_ios { "IOPS" } else { "Mbit/s" };
    header.extend([throughput, "p50\nms", "p99\nms"].map(str::to_owned));
    let has_vpn = cells.iter().any(|cell| cell.vpn_cpu_s_per_gib.is_some());
    if has_vpn {
        header.push("VPN CPU\ns/GiB".to_owned());
    }
    header.extend(layers.iter().map(|layer| layer.name().replace('_', "\n")));
    let columns = header.len();
    let mut table = grid(header);
    for cell in &cells {
        let initiators = cell.initiators.len().max(1) as f64;
        let mut row: Vec<String> = names
            .iter()
            .map(|name| cell.parameters.get(*name).map_or_else(String::new, value))
            .collect();
        if is_repeated {
            // Counted as in the report.
            row.push((cell.repeat + 1).to_string());
        }
        let came = match has_ios {
            true => cell.iops.map(grouped),
            false => cell.bytes_per_s.map(megabits),
        };
        row.push(came.unwrap_or_else(|| "failed".to_owned()));
        row.push(cell.latency_p50_ns.map_or_else(String::new, milliseconds));
        row.push(cell.latency_p99_ns.map_or_else(String::new, milliseconds));
        if has_vpn {
            let cost = cell.vpn_cpu_s_per_gib;
            row.push(cost.map_or_else(String::new, |cost| format!("{cost:.2}")));
        }
        row.extend(layers.iter().map(|layer| {
            cell.in_flight
                .get(layer.name())
                .map_or_else(String::new, |mean| format!("{:.1}", mean / initiators))
        }));
        table.add_row(row);
    }
    right(&mut table, 0..columns);
    if !has_ios {
        let legend =
            "is the total of all streams; p50 and p99 are of the stream with the slowest marks";
        return format!("{table}\nMbit/s {legend}.\n{}", streams::tables(&cells));
    }
    format!(
        "{table}\nIOPS is the total of all initiators; the layer columns are the mean number in \
         flight per initiator.\n{}",
        streams::tables(&cells)
    )
}

/// The finding with its evidence and advice.
pub(super) fn finding(finding: &Finding) -> String {
    let mut text = format!("{}\n", finding.sentence);
    for fact in &finding.evidence {
        let _ = writeln!(text, "  - {fact}");
    }
    if let Some(advice) = &finding.advice {
        let _ = writeln!(text, "To change: {}.", advice.text);
    }
    text
}

/// Predicted and measured gain of the advised change, side by side.
pub(super) fn gains(advised: &Advised, finding: Option<&Finding>) -> String {
    let mut table = grid([
        "",
        "planned\nIOPS",
        "advised\nIOPS",
        "predicted\ngain",
        "measured\ngain",
    ]);
    for gain in &advised.gains {
        let point: Vec<String> = gain
            .parameters
            .iter()
            .map(|(name, set)| format!("{name} {}", value(set)))
            .collect();
        table.add_row([
            point.join(", "),
            grouped(gain.planned_iops),
            grouped(gain.advised_iops),
            percent(gain.predicted_gain),
            percent(gain.measured_gain),
        ]);
    }
    right(&mut table, 1..5);
    let before = advised
        .planned_value
        .as_ref()
        .map_or_else(String::new, |before| {
            format!(" instead of {}", value(before))
        });
    let advice = finding.and_then(|finding| finding.advice.as_ref());
    let with = advice.iter().flat_map(|advice| &advice.with);
    let with: String = with
        .map(|(name, value)| format!(", {name} = {value}"))
        .collect();
    format!(
        "With {} = {}{before}{with}:\n{table}\n",
        advised.parameter,
        value(&advised.value)
    )
}

/// The paper's description, and its figures beside ours.
pub(super) fn paper(paper: &Paper) -> String {
    let figure = paper.figure.as_ref();
    let figure = figure.map_or_else(String::new, |figure| format!(", {figure}"));
    let mut text = format!("{}{figure}\n", paper.title);
    for remark in &paper.remarks {
        let _ = writeln!(text, "It says: {remark}");
    }
    for difference in &paper.differs {
        let _ = writeln!(text, "Ours differs: {difference}");
    }
    if paper.known.is_empty() {
        return text;
    }
    let mut table = grid(["", "the paper", "ours", "ours ÷ the paper's"]);
    for number in &paper.known {
        let is_ratio = number.relative_to.is_some();
        let shown = |value| quantity(&number.metric, value, is_ratio);
        table.add_row([
            number.about.clone(),
            shown(number.value),
            number.ours.map_or_else(|| "none".to_owned(), shown),
            number
                .ratio
                .map_or_else(String::new, |ratio| format!("{ratio:.2}")),
        ]);
    }
    right(&mut table, 1..4);
    let _ = writeln!(text, "{table}");
    text
}

/// Formats a metric's number in its display unit.
fn quantity(metric: &str, value: f64, is_ratio: bool) -> String {
    match unit(metric).filter(|_| !is_ratio) {
        Some(Unit::BytesPerS) => format!("{:.1} Mbit/s", value * 8.0 / 1e6),
        Some(Unit::Ns) => format!("{:.2} ms", value / 1e6),
        Some(_) if value.abs() >= 1000.0 => grouped(value),
        _ => format!("{value:.3}"),
    }
}

/// The number of expectations that a quick form left out, on its own line; empty if none.
pub(super) fn unchecked(count: u64) -> String {
    match count {
        0 => String::new(),
        _ => format!("{count} not checked in the quick form\n"),
    }
}

/// The start of a phase on one line, for logs.
pub(super) fn phase(phase: Phase, cells: usize, left: Duration) -> String {
    let plural = if cells == 1 { "" } else { "s" };
    format!(
        "{} sweep of {cells} cell{plural}, about {} s left",
        phase.name(),
        left.as_secs()
    )
}

/// One cell on one line, for logs.
pub(super) fn cell(result: &CellResult) -> String {
    let came = match (&result.initiators[..], result.streams.is_empty()) {
        ([], false) => result
            .bytes_per_s
            .map(|rate| format!("{} Mbit/s", megabits(rate))),
        _ => result.iops.map(|iops| format!("{} IOPS", grouped(iops))),
    };
    let came = came.unwrap_or_else(|| "failed".to_owned());
    format!("cell {}: {}: {came}", result.cell, parameters(result))
}

/// Manual changes during cells, applied or requested but not applied, which are not in the plan.
pub(super) fn changes(results: &Results) -> String {
    const MOST: usize = 40;
    let of_cell = |cell: &CellResult| {
        let number = cell.cell;
        let changes = cell.timeline.clone().into_iter();
        let told = changes.filter(|change| change.is_by_hand() || change.refused.is_some());
        told.map(move |change| format!("  cell {number}: {change}\n"))
    };
    let lines: Vec<String> = results.cells.iter().flat_map(of_cell).collect();
    if lines.is_empty() {
        return String::new();
    }
    let more = match lines.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!("  and {more} more: see `timeline` in results.json\n"),
    };
    let shown = lines[..lines.len().min(MOST)].concat();
    format!("Deviations from the plan while cells ran:\n{shown}{more}\n")
}

/// Drops of VPN routers, which appear neither in the paths' counters nor in findings.
pub(super) fn router_drops(results: &Results) -> String {
    let of_cell = |cell: &CellResult| -> Vec<String> {
        let drops = cell.routers.iter().flat_map(|router| {
            let name = &router.router;
            let sealed = router.dropped_sealed_packets;
            let before = (router.dropped_packets, "before encryption");
            [before, (sealed, "before decryption")]
                .into_iter()
                .filter(|(packets, _)| *packets > 0)
                .map(move |(packets, when)| format!("`{name}` {packets} {when}"))
        });
        drops.collect()
    };
    let lines = results.cells.iter().map(|cell| (cell.cell, of_cell(cell)));
    let lines: Vec<String> = lines
        .filter(|(_, drops)| !drops.is_empty())
        .map(|(number, drops)| format!("  cell {number}: {}\n", drops.join(", ")))
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    format!(
        "Packets that VPN routers dropped because their own queues were full:\n{}\n",
        lines.concat()
    )
}

/// A cell's settings by the sweep, and its repeat number unless it is the first.
pub(super) fn parameters(result: &CellResult) -> String {
    let set = result.parameters.iter();
    let mut set: Vec<String> = set
        .map(|(name, set)| format!("{name} = {}", value(set)))
        .collect();
    if set.is_empty() {
        set.push("as the plan says".to_owned());
    }
    if result.repeat > 0 {
        set.push(format!("repeat {}", result.repeat + 1));
    }
    set.join(", ")
}

/// A parameter's value in plan syntax, without quotes.
pub(super) fn value(value: &serde_json::Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn milliseconds(ns: u64) -> String {
    format!("{:.2}", ns as f64 / 1e6)
}

fn megabits(bytes_per_s: f64) -> String {
    format!("{:.1}", bytes_per_s * 8.0 / 1e6)
}

fn percent(share: f64) -> String {
    format!("{:+.0} %", share * 100.0)
}

/// Formats an integer with thousands separators.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use wansan_lab::plan::Plan;
    use wansan_lab::record;

    use super::*;

    #[test]
    fn columns_stand_in_the_order_of_the_plan() {
        let plan = "title = \"t\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
            [[path]]\nbetween = [\"a\", \"b\"]\n[target]\nhost = \"a\"\nluns = [\"memory:1MiB\"]\n\
            [[initiator]]\nhost = \"b\"\n[workload]\nop = \"read\"\nblock = \"4KiB\"\ntime = \"1s\"\n\
            [sweep]\nworkload.parallel = [1, 2]\npath.wan.delay = [\"1ms\"]\n";
        let plan = Plan::parse("t.toml".as_ref(), plan).unwrap();
        let mut results = record::results(&plan);
        let cells = plan.cells(Phase::Planned, &[]).unwrap();
        results.cells = vec![record::cell_result(0, &cells[0])];
        let results = serde_json::to_string(&results).unwrap();
        let table = table(&serde_json::from_str(&results).unwrap(), Phase::Planned);
        let (first, second) = (table.find("parallel"), table.find("delay"));
        assert!(first.is_some() && first < second, "{table}");
    }

    #[test]
    fn one_cell_is_no_cells() {
        let left = Duration::from_secs(7);
        let one = phase(Phase::Planned, 1, left);
        assert_eq!(one, "planned sweep of 1 cell, about 7 s left");
        assert!(phase(Phase::Advised, 2, left).contains("of 2 cells,"));
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(grouped(0.4), "0");
        assert_eq!(grouped(999.0), "999");
        assert_eq!(grouped(12_345.6), "12,346");
        assert_eq!(grouped(1_000_000.0), "1,000,000");
        assert_eq!(percent(0.756), "+76 %");
    }
}
