//! Records of recorders as a table, without a file.

use std::collections::BTreeMap;

use super::{Names, Row, Table};
use crate::Recorder;
use crate::log::{Words as _, by_time};
use crate::recorder::Recorded;

/// All records of a kind, sorted by time, as a merged file of these hosts' parts would have them. `None` when
/// no recorder keeps the kind, or they name more than 65,535 things.
#[must_use]
pub fn gather<T: Recorded>(recorders: &[(&str, &Recorder)]) -> Option<Table<T>> {
    let logs: Vec<_> = recorders.iter().map(|(_, it)| T::log(it)).collect();
    if !logs.iter().any(|log| log.is_kept()) {
        return None;
    }
    let mut table = Table {
        rows: Vec::with_capacity(logs.iter().map(|log| log.len()).sum()),
        names: Names::default(),
        dropped: BTreeMap::new(),
    };
    let mut hosts = Vec::new();
    for ((host, _), log) in recorders.iter().zip(&logs) {
        hosts.push(table.names.intern(host)?);
        *table.dropped.entry((*host).to_owned()).or_default() += log.dropped();
    }
    for (place, kept) in by_time(&logs) {
        for mut record in kept.unfold() {
            if let Some(name) = record.name_mut() {
                *name = table.names.intern(recorders[place].1.name_of(*name))?;
            }
            let host = hosts[place];
            table.rows.push(Row { host, record });
        }
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Connection, Path};
    use crate::{Instant, Kinds};

    #[test]
    fn records_of_all_hosts_stand_in_the_order_of_their_times() {
        let recorder = |times_ns: &[u64], path: &str| {
            let kinds = Kinds {
                path: true,
                ..Kinds::NONE
            };
            let mut recorder = Recorder::new(kinds, Recorder::MIN_BYTES);
            recorder.name("another");
            let path = recorder.name(path);
            for &ns in times_ns {
                let time = Instant::from_ns(ns);
                recorder.path(Path {
                    time,
                    path,
                    ..Path::BLANK
                });
            }
            recorder
        };
        let (one, other) = (recorder(&[1, 4], "up"), recorder(&[2, 3], "down"));
        let table = gather::<Path>(&[("a", &one), ("b", &other)]).unwrap();
        let told = table.rows.iter().map(|row| {
            let [host, path] = [row.host, row.record.path].map(|id| table.names.get(id));
            (row.record.time.ns(), host, path)
        });
        let expected = [
            (1, "a", "up"),
            (2, "b", "down"),
            (3, "b", "down"),
            (4, "a", "up"),
        ];
        assert_eq!(told.collect::<Vec<_>>(), expected);
        assert!(gather::<Connection>(&[("a", &one)]).is_none());
    }
}
