//! Connections with TCP records only, as from `wansan watch --record`: what limited each as a
//! sender, its losses, and its congestion control events.

use std::collections::BTreeMap;

use serde::Serialize;
use wansan_trace::event::{Seen, Tcp, TcpEvent};
use wansan_trace::file::Table;
use wansan_trace::{ConnectionId, NameId, SessionId};

use crate::transport::{TransportUse, transport_use};
use crate::window::Window;

/// A limit that applies for a smaller share of the time is not reported.
const WORTH_NAMING: f64 = 0.05;

/// What limited a sender most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SenderLimit {
    /// Congestion control.
    CongestionWindow,
    /// The peer's receive window.
    ReceiveWindow,
    /// Its own send buffer.
    SendBuffer,
    /// None of them for a twentieth of the time: it had no more data to send, or its program was slow.
    Application,
}

impl SenderLimit {
    fn of(sender: &TransportUse) -> SenderLimit {
        let shares = [
            (
                sender.congestion_limited_share,
                SenderLimit::CongestionWindow,
            ),
            (sender.rwnd_limited_share, SenderLimit::ReceiveWindow),
            (sender.sndbuf_limited_share, SenderLimit::SendBuffer),
        ];
        let most = shares
            .into_iter()
            .max_by(|one, other| one.0.total_cmp(&other.0));
        let named = most.filter(|(share, _)| *share >= WORTH_NAMING);
        named.map_or(SenderLimit::Application, |(_, limit)| limit)
    }

    /// A clause about the connection, for text output.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            SenderLimit::CongestionWindow => "its congestion window limits it",
            SenderLimit::ReceiveWindow => "the peer's receive window limits it",
            SenderLimit::SendBuffer => "its own send buffer limits it",
            SenderLimit::Application => {
                "no TCP window or buffer limits it: it had no more data to send"
            }
        }
    }
}

/// One watched end of a connection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Watched {
    /// The host that recorded it.
    pub host: String,
    /// Its addresses, the watched end's first; empty if they were not recorded.
    pub ends: String,
    /// From its first record to its last, in seconds.
    pub seconds: f64,
    /// Whether every change was traced, rather than derived from samples.
    pub is_traced: bool,
    /// What limited it most; `None` if there are fewer than two samples.
    pub limit: Option<SenderLimit>,
    /// Events by their names.
    pub events: BTreeMap<&'static str, u64>,
    /// How it performed as a sender; `None` if there are fewer than two samples.
    pub sender: Option<TransportUse>,
}

/// The watched connections, those that sent most first.
#[must_use]
pub fn watched(table: &Table<Tcp>) -> Vec<Watched> {
    let mut ends: BTreeMap<(NameId, SessionId, ConnectionId), Vec<&Tcp>> = BTreeMap::new();
    for row in &table.rows {
        let key = (row.host, row.record.session, row.record.connection);
        ends.entry(key).or_default().push(&row.record);
    }
    let whole = Window {
        from_ns: 0,
        to_ns: u64::MAX,
    };
    let senders = transport_use(table, whole);
    let mut found: Vec<Watched> = ends
        .into_iter()
        .map(|((host, session, connection), records)| {
            let is_of = |sender: &&TransportUse| {
                sender.host == table.names.get(host)
                    && sender.session == session.to_string()
                    && sender.connection == connection.0
            };
            let sender = senders.iter().find(is_of).cloned();
            one(table, host, &records, sender)
        })
        .collect();
    let sent = |watched: &Watched| {
        watched
            .sender
            .as_ref()
            .map_or(0, |sender| sender.acked_bytes)
    };
    found.sort_by_key(|watched| std::cmp::Reverse(sent(watched)));
    found
}

fn one(
    table: &Table<Tcp>,
    host: NameId,
    records: &[&Tcp],
    sender: Option<TransportUse>,
) -> Watched {
    let mut events: BTreeMap<&'static str, u64> = BTreeMap::new();
    let is_event = |record: &&&Tcp| !matches!(record.event, TcpEvent::Sample | TcpEvent::Change);
    for record in records.iter().filter(is_event) {
        *events.entry(record.event.name()).or_default() += 1;
    }
    let times = records.iter().map(|record| record.time.ns());
    let (first_ns, last_ns) = (times.clone().min().unwrap_or(0), times.max().unwrap_or(0));
    let ends = records
        .iter()
        .map(|record| record.ends)
        .find(|ends| *ends != NameId::NONE);
    Watched {
        host: table.names.get(host).to_owned(),
        ends: ends.map_or("", |ends| table.names.get(ends)).to_owned(),
        seconds: (last_ns - first_ns) as f64 / 1e9,
        is_traced: records.iter().any(|record| record.seen == Seen::Traced),
        limit: sender.as_ref().map(SenderLimit::of),
        events,
        sender,
    }
}
