//! Session names on the page.

use std::collections::BTreeMap;

use wansan_trace::SessionId;
use wansan_trace::event::{Connection, Role};
use wansan_trace::file::Table;

/// The initiator's host of each session.
pub(super) struct SessionNames<'a> {
    hosts: BTreeMap<SessionId, &'a str>,
}

impl<'a> SessionNames<'a> {
    /// The hosts named in these connection records.
    pub(super) fn of(connections: Option<&'a Table<Connection>>) -> SessionNames<'a> {
        let hosts = connections.into_iter().flat_map(|table| {
            let initiators = table.rows.iter();
            let initiators = initiators.filter(|row| row.record.role == Role::Initiator);
            initiators.map(|row| (row.record.session, table.names.get(row.host)))
        });
        SessionNames {
            hosts: hosts.collect(),
        }
    }

    /// The initiator's host if that has no other session, otherwise the session's identifier.
    pub(super) fn name(&self, session: SessionId) -> String {
        let sessions_of = |host: &str| self.hosts.values().filter(|other| **other == host).count();
        match self.hosts.get(&session) {
            Some(host) if sessions_of(host) == 1 => (*host).to_owned(),
            _ => format!("session {session}"),
        }
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the test writes the records that it reads back"
)]
mod tests {
    use wansan_trace::{Kinds, Recorder, file};

    use super::*;

    #[test]
    fn a_host_names_its_session_unless_it_has_several() {
        let folder = tempfile::tempdir().unwrap();
        let write = |host: &str, role, sessions: &[u64]| {
            let mut recorder = Recorder::new(Kinds::ALL, Recorder::MIN_BYTES);
            for &session in sessions {
                recorder.connection(Connection {
                    session: SessionId(session),
                    role,
                    ..Connection::BLANK
                });
            }
            file::write_part(folder.path(), host, &[recorder]).unwrap();
        };
        write("alone", Role::Initiator, &[1, 1]);
        write("busy", Role::Initiator, &[2, 3]);
        write("storage", Role::Target, &[1, 2, 3, 4]);
        file::merge_parts(folder.path()).unwrap();
        let connections = file::read_folder(folder.path()).unwrap();
        let names = SessionNames::of(connections.as_ref());
        let named = [1, 2, 3, 4].map(|session| names.name(SessionId(session)));
        let ids = [2, 3, 4].map(|session| format!("session {}", SessionId(session)));
        assert_eq!(named[0], "alone");
        assert_eq!(named[1..], ids);
    }
}
