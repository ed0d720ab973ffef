//! dm-multipath devices: path selection, and detection of a path that is slower than the others.

use std::process::Command;

use serde::Serialize;

use crate::change::{Change, shell::is_plain};

/// Path selection of a dm-multipath device (Documentation/admin-guide/device-mapper, `multipath`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Table {
    /// Path groups, of which one is active at a time: the first with a usable path.
    pub groups: Vec<Group>,
}

/// Paths that share the I/Os.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// The path selector.
    pub selector: String,
    /// The device numbers of its paths, as MAJOR:MINOR, and each path's consecutive I/Os (`rr_min_io_rq`), if the
    /// selector has that parameter.
    pub paths: Vec<(String, Option<u64>)>,
}

impl Table {
    /// Reads a device's table with dmsetup(8); `None` if unavailable.
    #[must_use]
    pub fn read(name: &str) -> Option<Table> {
        let mut command = Command::new("dmsetup");
        command.args(["table", "--target", "multipath", "--", name]);
        let output = command.output().ok()?;
        Table::parse(&String::from_utf8_lossy(&output.stdout))
    }

    /// Parses a line `START LENGTH multipath FEATURES HANDLER GROUPS FIRST GROUP...`, where features, handler and
    /// selectors are preceded by their word counts.
    #[must_use]
    pub fn parse(line: &str) -> Option<Table> {
        let mut words = line.split_whitespace().skip(2);
        words.next().filter(|word| *word == "multipath")?;
        let count = |words: &mut dyn Iterator<Item = &str>| words.next()?.parse::<usize>().ok();
        for _ in 0..2 {
            let more = count(&mut words)?;
            words.by_ref().take(more).for_each(drop);
        }
        let groups = count(&mut words)?;
        words.next()?;
        let mut table = Table::default();
        for _ in 0..groups {
            let selector = words.next()?.to_owned();
            let more = count(&mut words)?;
            words.by_ref().take(more).for_each(drop);
            let (paths, arguments) = (count(&mut words)?, count(&mut words)?);
            let mut group = Group {
                selector,
                paths: Vec::new(),
            };
            for _ in 0..paths {
                let device = words.next()?.to_owned();
                let own: Vec<&str> = words.by_ref().take(arguments).collect();
                // It is the first parameter of all selectors.
                let in_a_row = own.first().and_then(|word| word.parse().ok());
                group.paths.push((device, in_a_row));
            }
            table.groups.push(group);
        }
        Some(table)
    }
}

/// A path and its I/Os.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathUse {
    /// Its disk.
    pub disk: String,
    /// Its portal.
    pub portal: String,
    /// I/Os per second.
    pub iops: f64,
    /// Latency at that disk, in ns.
    pub latency_ns: f64,
}

/// A dm-multipath device and the I/Os on its paths.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MultipathDiagnosis {
    /// Its name, as in `/dev/mapper/NAME`.
    pub name: String,
    /// Its block device.
    pub device: String,
    /// Its path selection, if known.
    pub table: Option<Table>,
    /// Latency of its own I/Os, in ns, from tracepoints.
    pub latency_ns: Option<f64>,
    /// Its paths with I/Os, slowest first.
    pub paths: Vec<PathUse>,
    /// The slow path.
    pub slow: Option<String>,
    /// The same as a sentence.
    pub finding: Option<String>,
    /// What to change.
    pub changes: Vec<Change>,
}

/// A path is slow if its I/Os take this many times as long as another path's.
const SLOW_RATIO: f64 = 2.0;
/// Smallest share of total I/O time for which a slow path matters.
const COSTLY_SHARE: f64 = 0.25;
/// Selectors that prefer faster paths.
const BY_TIME: [&str; 2] = ["service-time", "historical-service-time"];

impl MultipathDiagnosis {
    /// Judges the paths of a device.
    #[must_use]
    pub fn of(
        name: &str,
        device: &str,
        table: Option<Table>,
        latency_ns: Option<f64>,
        mut paths: Vec<PathUse>,
    ) -> MultipathDiagnosis {
        paths.retain(|path| path.iops > 0.0);
        paths.sort_by(|one, other| other.latency_ns.total_cmp(&one.latency_ns));
        let selector = table.as_ref().and_then(|table| table.groups.first());
        let selector = selector.map(|group| group.selector.as_str());
        let slow = slow(&paths);
        let finding = slow.map(|(slow, fast)| {
            let all: f64 = paths.iter().map(|path| path.iops).sum();
            let chosen = match selector {
                Some(selector) => format!("{selector} sends it"),
                None => "it gets".to_owned(),
            };
            format!(
                "Path {} of {name} (to {}) is slow: an I/O takes {:.2} ms over it, {:.2} ms over {}, and {chosen} {:.0} % of the I/Os.",
                slow.disk,
                slow.portal,
                slow.latency_ns / 1e6,
                fast.latency_ns / 1e6,
                fast.disk,
                slow.iops / all * 100.0,
            )
        });
        let changes = slow.map(|(slow, _)| changes(&slow.disk, selector));
        MultipathDiagnosis {
            name: name.to_owned(),
            device: device.to_owned(),
            latency_ns,
            slow: slow.map(|(slow, _)| slow.disk.clone()),
            finding,
            changes: changes.unwrap_or_default(),
            table,
            paths,
        }
    }
}

/// The slow path and the fastest one, by latency.
fn slow(paths: &[PathUse]) -> Option<(&PathUse, &PathUse)> {
    let (slow, fast) = (paths.first()?, paths.last()?);
    let all: f64 = paths.iter().map(|path| path.iops * path.latency_ns).sum();
    let lost = slow.iops * (slow.latency_ns - fast.latency_ns);
    let is_slow = slow.latency_ns >= SLOW_RATIO * fast.latency_ns && lost >= COSTLY_SHARE * all;
    is_slow.then_some((slow, fast))
}

fn changes(disk: &str, selector: Option<&str>) -> Vec<Change> {
    let mut changes = Vec::new();
    if selector.is_some_and(|selector| !BY_TIME.contains(&selector)) {
        let file = "/etc/multipath/conf.d/path_selector.conf";
        changes.push(Change {
            what: "Choose paths by their service time and I/O in flight".to_owned(),
            commands: vec![
                "mkdir -p /etc/multipath/conf.d".to_owned(),
                format!(r#"printf 'overrides {{\n path_selector "service-time 0"\n}}\n' > {file}"#),
                "multipathd reconfigure".to_owned(),
            ],
            note: Some("for all devices; needs the module dm-service-time".to_owned()),
            ..Change::default()
        });
    }
    if is_plain(disk) {
        changes.push(Change {
            what: "Remove the path until it is repaired".to_owned(),
            commands: vec![format!("multipathd del path {disk}")],
            note: Some(format!("`multipathd add path {disk}` restores it")),
            ..Change::default()
        });
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_tells_groups_selectors_and_paths() {
        let line = "0 524288 multipath 1 queue_if_no_path 1 alua 2 1 round-robin 0 2 1 8:0 1000 8:16 1 service-time 0 1 2 8:32 1 1";
        let table = Table::parse(line).unwrap();
        let path = |device: &str, in_a_row| (device.to_owned(), Some(in_a_row));
        let groups = [
            Group {
                selector: "round-robin".to_owned(),
                paths: vec![path("8:0", 1000), path("8:16", 1)],
            },
            Group {
                selector: "service-time".to_owned(),
                paths: vec![path("8:32", 1)],
            },
        ];
        assert_eq!(table.groups, groups);
        assert_eq!(Table::parse("0 524288 linear 8:0 0"), None);
        assert_eq!(Table::parse(""), None);
        assert_eq!(
            Table::parse("0 1 multipath 0 0 1 1 round-robin 0 2 1 8:0"),
            None
        );
    }

    fn told(paths: [(f64, f64); 2], selector: &str) -> MultipathDiagnosis {
        let mut names = ["sda", "sdb"].into_iter();
        let paths = paths.map(|(iops, ms)| PathUse {
            disk: names.next().unwrap().to_owned(),
            portal: "10.0.0.2:3260".to_owned(),
            iops,
            latency_ns: ms * 1e6,
        });
        let table = Table {
            groups: vec![Group {
                selector: selector.to_owned(),
                paths: Vec::new(),
            }],
        };
        MultipathDiagnosis::of("mpatha", "dm-0", Some(table), None, paths.to_vec())
    }

    #[test]
    fn the_slow_one_of_two_paths_is_named_if_it_costs_anything() {
        let commands =
            |of: &MultipathDiagnosis| of.changes.iter().map(|it| it.commands.len()).sum::<usize>();
        let bad = told([(100.0, 2.0), (100.0, 52.0)], "round-robin");
        assert_eq!(bad.slow.as_deref(), Some("sdb"));
        assert!(bad.finding.as_ref().unwrap().contains("50 %"), "{bad:?}");
        assert_eq!(commands(&bad), 4);
        let bad = told([(100.0, 52.0), (100.0, 2.0)], "service-time");
        assert_eq!((bad.slow.as_deref(), commands(&bad)), (Some("sda"), 1));
        for healthy in [
            [(100.0, 2.0), (100.0, 3.0)],
            [(1000.0, 2.0), (2.0, 52.0)],
            [(100.0, 2.0), (0.0, 0.0)],
        ] {
            assert_eq!(told(healthy, "round-robin").slow, None, "{healthy:?}");
        }
    }
}
