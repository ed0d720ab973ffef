//! The watched connections, and their events between two samples.

use std::collections::HashMap;
use std::net::SocketAddr;

use wansan_trace::congestion::{between, undone};
use wansan_trace::event::{Tcp, TcpEvent};
use wansan_trace::{ConnectionId, Instant, SessionId};

use super::traced::{Traced, What};
use super::{Begun, MOST_CONNECTIONS};
use crate::diag::{Connection, SocketInfo};

/// A connection and its last observed state.
struct Known {
    connection: Connection,
    last: Tcp,
    /// The last round of discovery that found it.
    round: u64,
}

/// Turns sockets into records.
pub(super) struct Tracker {
    /// Whether to derive events from samples: not where the kernel reports them.
    tells_events: bool,
    known: HashMap<u64, Known>,
    round: u64,
    /// What is new since [`Tracker::take`].
    begun: Vec<Begun>,
    records: Vec<Tcp>,
}

impl Tracker {
    pub(super) fn new(tells_events: bool) -> Tracker {
        Tracker {
            tells_events,
            known: HashMap::new(),
            round: 0,
            begun: Vec::new(),
            records: Vec::new(),
        }
    }

    /// All known connections.
    pub(super) fn connections(&self) -> Vec<Connection> {
        self.known.values().map(|known| known.connection).collect()
    }

    /// Whether it is watched already.
    pub(super) fn knows(&self, cookie: u64) -> bool {
        self.known.contains_key(&cookie)
    }

    /// All connections at `time`: known ones that are missing here have ended. Returns the number left out because too
    /// many are watched.
    pub(super) fn all(&mut self, time: Instant, sockets: Vec<SocketInfo>) -> u64 {
        self.round += 1;
        let mut left_out = 0;
        for socket in sockets {
            left_out += u64::from(!self.seen(time, socket));
        }
        let round = self.round;
        let gone: Vec<u64> = self
            .known
            .iter()
            .filter(|(_, known)| known.round != round)
            .map(|(cookie, _)| *cookie)
            .collect();
        for cookie in gone {
            self.gone(time, cookie);
        }
        left_out
    }

    /// One connection at `time`; `false` when there is no room for it.
    pub(super) fn seen(&mut self, time: Instant, socket: SocketInfo) -> bool {
        let SocketInfo {
            connection,
            info,
            congestion_control,
            memory,
        } = socket;
        let session = SessionId(connection.cookie);
        let sample = Tcp {
            in_flight_packets: info.in_flight_packets(),
            send_memory_bytes: memory.map_or(0, |memory| memory.sent_bytes),
            send_buffer_bytes: memory.map_or(0, |memory| memory.send_buffer_bytes),
            ..info.record(time, session, ConnectionId(0))
        };
        let full = self.known.len() >= MOST_CONNECTIONS;
        match self.known.get_mut(&connection.cookie) {
            Some(known) => {
                if self.tells_events {
                    let counts_ce = info.delivered_ce().is_some();
                    let events = told(&known.last, &sample, counts_ce);
                    self.records.extend(
                        events
                            .into_iter()
                            .flatten()
                            .map(|event| Tcp { event, ..sample }),
                    );
                }
                known.last = sample;
                known.round = self.round;
            }
            None if full => return false,
            None => {
                let begun = Begun {
                    connection,
                    congestion_control,
                };
                let first = Tcp {
                    event: TcpEvent::Begin,
                    ..sample
                };
                self.begin(begun, first);
            }
        }
        self.records.push(sample);
        true
    }

    /// An event from the kernel; connections that `is_meant` are watched from their start.
    pub(super) fn traced(
        &mut self,
        traced: &Traced,
        is_meant: impl Fn(SocketAddr, SocketAddr) -> bool,
    ) {
        let cookie = traced.cookie;
        let has_room = self.known.len() < MOST_CONNECTIONS;
        let known = self.known.get_mut(&cookie);
        match (&traced.what, known) {
            (What::Event(event), Some(known)) => {
                let record = traced.record(*event, &known.last);
                self.records.push(record);
                known.last = record;
            }
            (What::End, Some(known)) => {
                known.last = traced.record(TcpEvent::End, &known.last);
                self.gone(traced.time, cookie);
            }
            (
                What::Begin {
                    local,
                    remote,
                    interface,
                    congestion_control,
                },
                None,
            ) if has_room && is_meant(*local, *remote) => {
                let begun = Begun {
                    connection: Connection {
                        cookie,
                        local: *local,
                        remote: *remote,
                        interface: *interface,
                        inode: 0,
                    },
                    congestion_control: congestion_control.clone(),
                };
                let blank = Tcp {
                    session: SessionId(cookie),
                    ..Tcp::BLANK
                };
                self.begin(begun, traced.record(TcpEvent::Begin, &blank));
            }
            // For connections that are not watched, or are watched already.
            (What::Event(_) | What::End | What::Begin { .. }, _) => {}
        }
    }

    fn begin(&mut self, begun: Begun, first: Tcp) {
        let connection = begun.connection;
        let known = Known {
            connection,
            last: first,
            round: self.round,
        };
        self.known.insert(connection.cookie, known);
        self.begun.push(begun);
        self.records.push(first);
    }

    /// A connection ended at `time`.
    pub(super) fn gone(&mut self, time: Instant, cookie: u64) {
        if let Some(known) = self.known.remove(&cookie) {
            self.records.push(Tcp {
                time,
                event: TcpEvent::End,
                ..known.last
            });
        }
    }

    /// What is new since the last call.
    pub(super) fn take(&mut self) -> (Vec<Begun>, Vec<Tcp>) {
        (
            std::mem::take(&mut self.begun),
            std::mem::take(&mut self.records),
        )
    }
}

/// Events between two samples of a connection.
fn told(before: &Tcp, after: &Tcp, counts_ce: bool) -> [Option<TcpEvent>; 3] {
    let resent = after.retransmits != before.retransmits;
    let cut = between(before, after).map(|cut| match cut {
        // The kernel enters CWR for an ECN-Echo, for local congestion in a queueing discipline, and when a loss probe
        // has repaired the loss of the last segment (RFC 8985 §7.4.2).
        TcpEvent::Cwr if !counts_ce || (resent && after.delivered_ce == before.delivered_ce) => {
            TcpEvent::Cwr
        }
        TcpEvent::Cwr if after.delivered_ce == before.delivered_ce => TcpEvent::CwrByDevice,
        TcpEvent::Cwr => TcpEvent::CwrByEce,
        other => other,
    });
    [
        resent.then_some(TcpEvent::Retransmit),
        undone(before, after).then_some(TcpEvent::Undo),
        cut,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TcpInfo;
    use wansan_trace::event::CongestionState;

    /// TCP_INFO with these at their offsets.
    fn info(
        state: CongestionState,
        cwnd: u32,
        ssthresh: u32,
        delivered_ce: u32,
        retrans: u32,
    ) -> TcpInfo {
        let mut bytes = [0; 256];
        bytes[1] = state.0;
        for (at, value) in [
            (80, cwnd),
            (76, ssthresh),
            (196, delivered_ce),
            (100, retrans),
        ] {
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        TcpInfo::parse(&bytes)
    }

    fn socket(cookie: u64, info: TcpInfo) -> SocketInfo {
        SocketInfo {
            connection: Connection {
                cookie,
                local: "10.0.0.1:3260".parse().unwrap(),
                remote: "10.0.0.2:40000".parse().unwrap(),
                interface: 0,
                inode: 7,
            },
            info,
            congestion_control: "reno".to_owned(),
            memory: None,
        }
    }

    fn events(samples: &[TcpInfo]) -> Vec<TcpEvent> {
        let mut tracker = Tracker::new(true);
        for (ns, info) in (1..).zip(samples) {
            tracker.all(Instant::from_ns(ns), vec![socket(5, info.clone())]);
        }
        let (_, records) = tracker.take();
        let events = records.iter().map(|record| record.event);
        events.filter(|event| *event != TcpEvent::Sample).collect()
    }

    #[test]
    fn cwr_is_told_by_what_was_counted() {
        let quiet = info(CongestionState::OPEN, 100, 90, 3, 0);
        for (after, event) in [
            (info(CongestionState::CWR, 90, 50, 9, 0), TcpEvent::CwrByEce),
            (
                info(CongestionState::CWR, 90, 50, 3, 0),
                TcpEvent::CwrByDevice,
            ),
        ] {
            assert_eq!(events(&[quiet.clone(), after]), [TcpEvent::Begin, event]);
        }
        // A tail loss probe, or an older kernel: the cause is unknown.
        let probed = events(&[quiet.clone(), info(CongestionState::CWR, 90, 50, 3, 1)]);
        assert_eq!(probed[1..], [TcpEvent::Retransmit, TcpEvent::Cwr]);
        let old = |info: &TcpInfo| {
            let mut bytes = [0; 192];
            bytes[1] = if info.cwnd_packets() == 100 {
                CongestionState::OPEN.0
            } else {
                CongestionState::CWR.0
            };
            bytes[80..84].copy_from_slice(&info.cwnd_packets().to_ne_bytes());
            bytes[76..80].copy_from_slice(&50_u32.to_ne_bytes());
            TcpInfo::parse(&bytes)
        };
        let seen = events(&[old(&quiet), old(&info(CongestionState::CWR, 90, 50, 3, 0))]);
        assert_eq!(seen, [TcpEvent::Begin, TcpEvent::Cwr]);
    }

    #[test]
    fn recovery_and_what_takes_it_back() {
        let seen = events(&[
            info(CongestionState::OPEN, 100, 90, 0, 0),
            info(CongestionState::RECOVERY, 60, 50, 0, 2),
            info(CongestionState::OPEN, 100, 90, 0, 2),
        ]);
        use TcpEvent::{Begin, Recovery, Retransmit, Undo};
        assert_eq!(seen, [Begin, Retransmit, Recovery, Undo]);
    }

    #[test]
    fn what_is_not_seen_any_more_has_ended() {
        let mut tracker = Tracker::new(true);
        let one = || socket(1, info(CongestionState::OPEN, 10, 9, 0, 0));
        let two = || socket(2, info(CongestionState::OPEN, 10, 9, 0, 0));
        assert_eq!(tracker.all(Instant::from_ns(1), vec![one(), two()]), 0);
        assert_eq!(tracker.take().0.len(), 2);
        tracker.all(Instant::from_ns(2), vec![two()]);
        let (begun, records) = tracker.take();
        assert!(begun.is_empty());
        let ends: Vec<_> = records
            .iter()
            .filter(|record| record.event == TcpEvent::End)
            .map(|record| (record.session.0, record.time.ns()))
            .collect();
        assert_eq!(ends, [(1, 2)]);
        assert!(tracker.knows(2) && !tracker.knows(1));
    }
}
