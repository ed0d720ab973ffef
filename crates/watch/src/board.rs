//! All open connections, with the latest state of each.

use std::collections::HashMap;

use wansan_tcp::watch::{Batch, Begun, Unseen};
use wansan_trace::Instant;
use wansan_trace::event::{Tcp, TcpEvent};

/// Shares of a period of time, each from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Shares {
    /// Busy sending.
    pub(crate) busy: f64,
    /// Of the whole period: limited by the receive window.
    pub(crate) rwnd_limited: f64,
    /// Of the whole period: limited by the send buffer.
    pub(crate) sndbuf_limited: f64,
}

impl Shares {
    /// The shares between two samples; `None` if no time passed.
    fn between(before: &Tcp, after: &Tcp) -> Option<Shares> {
        let passed_ns = (after.time - before.time).as_nanos() as f64;
        let share = |counter: fn(&Tcp) -> u64| {
            // The kernel counts in its own ticks, which may end after our clock was read.
            (counter(after).saturating_sub(counter(before)) as f64 / passed_ns).min(1.0)
        };
        (passed_ns > 0.0).then(|| Shares {
            busy: share(|tcp| tcp.busy_ns),
            rwnd_limited: share(|tcp| tcp.rwnd_limited_ns),
            sndbuf_limited: share(|tcp| tcp.sndbuf_limited_ns),
        })
    }
}

/// How often each event occurred on a connection since it was first seen, by event code.
pub(crate) type Counts = [u64; TcpEvent::ALL.len()];

/// One connection.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Its identity.
    pub(crate) begun: Begun,
    /// Its last record.
    pub(crate) last: Tcp,
    /// Shares between the last two samples; `None` before the second.
    pub(crate) shares: Option<Shares>,
    /// Event counts since it was first seen.
    pub(crate) counts: Counts,
    /// The last sample.
    sample: Option<Tcp>,
}

/// The connections, by cookie.
#[derive(Debug, Clone, Default)]
pub(crate) struct Board {
    /// Time of the last sample.
    pub(crate) time: Instant,
    /// The open connections.
    pub(crate) entries: HashMap<u64, Entry>,
    /// The last network device that was removed.
    pub(crate) device_gone: Option<String>,
    /// What was missed.
    pub(crate) unseen: Unseen,
    /// New connections since the watch began.
    pub(crate) begun: u64,
    /// Connections that ended since the watch began.
    pub(crate) ended: u64,
    /// Event counts of ended connections.
    pub(crate) counts_of_ended: Counts,
}

impl Board {
    /// Applies a batch; calls `each` with every record and its connection at that point.
    pub(crate) fn take(&mut self, batch: &Batch, mut each: impl FnMut(&Tcp, &Entry)) {
        self.time = batch.time;
        self.unseen = batch.unseen;
        if let Some(device) = batch.devices_gone.last() {
            self.device_gone = Some(device.clone());
        }
        let mut begun: HashMap<u64, &Begun> = batch
            .begun
            .iter()
            .map(|begun| (begun.connection.cookie, begun))
            .collect();
        for record in &batch.records {
            let cookie = record.session.0;
            if let Some(begun) = begun.remove(&cookie) {
                self.begun += 1;
                let entry = Entry {
                    begun: begun.clone(),
                    last: *record,
                    shares: None,
                    counts: Counts::default(),
                    sample: None,
                };
                self.entries.insert(cookie, entry);
            }
            let Some(entry) = self.entries.get_mut(&cookie) else {
                // Its begin was in a lost batch and was counted there.
                continue;
            };
            entry.take(record);
            each(record, entry);
            if record.event == TcpEvent::End {
                self.ended += 1;
                for (sum, of_entry) in self.counts_of_ended.iter_mut().zip(entry.counts) {
                    *sum += of_entry;
                }
                self.entries.remove(&cookie);
            }
        }
    }
}

impl Entry {
    fn take(&mut self, record: &Tcp) {
        self.counts[record.event as usize] += 1;
        if record.event == TcpEvent::Sample {
            if let Some(before) = &self.sample {
                self.shares = Shares::between(before, record).or(self.shares);
            }
            self.sample = Some(*record);
        }
        self.last = *record;
    }

    /// The connection's cookie.
    pub(crate) fn cookie(&self) -> u64 {
        self.begun.connection.cookie
    }

    /// How often one event occurred.
    pub(crate) fn count(&self, event: TcpEvent) -> u64 {
        self.counts[event as usize]
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use wansan_tcp::diag::Connection;
    use wansan_trace::SessionId;

    /// A batch in which one connection begins.
    pub(crate) fn begin(cookie: u64) -> Batch {
        let connection = Connection {
            cookie,
            local: "127.0.0.1:3260".parse().unwrap(),
            remote: "127.0.0.1:40000".parse().unwrap(),
            interface: 0,
            inode: 1,
        };
        let begun = Begun {
            connection,
            congestion_control: "cubic".to_owned(),
        };
        Batch {
            begun: vec![begun],
            ..records(1_000, cookie, &[TcpEvent::Begin, TcpEvent::Sample])
        }
    }

    /// A batch of records at one time, with the connection busy for half of it.
    pub(crate) fn records(time_ns: u64, cookie: u64, events: &[TcpEvent]) -> Batch {
        let record = |event: &TcpEvent| Tcp {
            time: Instant::from_ns(time_ns),
            session: SessionId(cookie),
            event: *event,
            cwnd_packets: 10,
            busy_ns: time_ns / 2,
            rwnd_limited_ns: time_ns / 4,
            ..Tcp::BLANK
        };
        Batch {
            time: Instant::from_ns(time_ns),
            begun: Vec::new(),
            records: events.iter().map(record).collect(),
            devices_gone: Vec::new(),
            unseen: Unseen::default(),
        }
    }

    #[test]
    fn shares_are_of_the_time_between_samples_and_events_are_counted() {
        let mut board = Board::default();
        board.take(&begin(5), |_, entry| assert_eq!(entry.shares, None));
        let next = records(2_000, 5, &[TcpEvent::Loss, TcpEvent::Sample]);
        board.take(&next, |_, _| {});
        let entry = &board.entries[&5];
        let shares = entry.shares.unwrap();
        assert_eq!((shares.busy, shares.rwnd_limited), (0.5, 0.25));
        assert_eq!(entry.count(TcpEvent::Loss), 1);

        let mut seen = Vec::new();
        let end = records(3_000, 5, &[TcpEvent::End]);
        board.take(&end, |record, _| seen.push(record.event));
        assert_eq!(seen, [TcpEvent::End]);
        assert!(board.entries.is_empty());
        assert_eq!((board.begun, board.ended), (1, 1));
        assert_eq!(board.counts_of_ended[TcpEvent::Loss as usize], 1);
    }

    #[test]
    fn a_connection_whose_begin_was_lost_is_left_out() {
        let mut board = Board::default();
        board.take(&records(1, 9, &[TcpEvent::Sample]), |_, _| panic!("shown"));
        assert!(board.entries.is_empty());
    }
}
