//! Builds a table from recorders, without a file.

use std::collections::BTreeMap;

use super::{Names, Row, Table};
use crate::log::{Words as _, by_time};
use crate::recorder::Recorded;
use crate::{NameId, Recorder};

/// All records of a kind, sorted by time, as in the merged file of these hosts' parts. `None` if no recorder keeps the
/// kind, or if they use more than 65,535 names.
#[must_use]
pub fn gather<T: Recorded>(recorders: &[(&str, &Recorder)]) -> Option<Table<T>> {
    let sorted = by_host(recorders);
    let logs: Vec<_> = sorted.iter().map(|(_, it)| T::log(it)).collect();
    if !logs.iter().any(|log| log.is_kept()) {
        return None;
    }
    let mut table = Table {
        rows: Vec::with_capacity(logs.iter().map(|log| log.len()).sum()),
        names: Names::default(),
        dropped: BTreeMap::new(),
    };
    for (host, recorder) in recorders {
        table.names.intern(host)?;
        *table.dropped.entry((*host).to_owned()).or_default() += T::log(recorder).dropped();
    }
    let hosts = sorted.iter().map(|(host, _)| table.names.intern(host));
    let hosts: Vec<NameId> = hosts.collect::<Option<_>>()?;
    let mut namings: Vec<Naming<'_>> = sorted.iter().map(|(_, it)| Naming::of(it)).collect();
    for (place, kept) in by_time(&logs) {
        for mut record in kept.unfold() {
            if let Some(name) = record.name_mut() {
                *name = namings[place].intern(*name, &mut table.names)?;
            }
            let host = hosts[place];
            table.rows.push(Row { host, record });
        }
    }
    Some(table)
}

/// The recorders in the order that breaks ties in time: by host name.
pub(super) fn by_host<'a>(recorders: &[(&'a str, &'a Recorder)]) -> Vec<(&'a str, &'a Recorder)> {
    let mut recorders = recorders.to_vec();
    recorders.sort_by_key(|(host, _)| *host);
    recorders
}

/// Maps a recorder's name IDs to a table's, looking each up once.
pub(super) struct Naming<'a> {
    recorder: &'a Recorder,
    known: Vec<Option<NameId>>,
}

impl<'a> Naming<'a> {
    pub(super) fn of(recorder: &'a Recorder) -> Naming<'a> {
        Naming {
            recorder,
            known: Vec::new(),
        }
    }

    /// The ID in `names`; `None` if there are more than 65,535.
    pub(super) fn intern(&mut self, id: NameId, names: &mut Names) -> Option<NameId> {
        let place = usize::from(id.0);
        if let Some(Some(known)) = self.known.get(place) {
            return Some(*known);
        }
        let interned = names.intern(self.recorder.name_of(id))?;
        if self.known.len() <= place {
            self.known.resize(place + 1, None);
        }
        self.known[place] = Some(interned);
        Some(interned)
    }
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
