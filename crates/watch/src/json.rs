//! The watch as lines of JSON (`docs/reference/watch.md`).

use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;
use wansan_tcp::watch::{Batch, Ending, Method, Unseen};
use wansan_trace::event::{Tcp, TcpEvent};
use wansan_trace::time::duration_ns;

use crate::board::{Board, Entry};

/// One line.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Line<'l> {
    /// The first line.
    Watch {
        way: &'static str,
        why: &'l str,
        interval_ns: u64,
    },
    Begin {
        #[serde(flatten)]
        place: Place<'l>,
        #[serde(flatten)]
        tcp: &'l Tcp,
    },
    Sample {
        #[serde(flatten)]
        place: Place<'l>,
        #[serde(flatten)]
        tcp: &'l Tcp,
        /// `None` in a connection's first sample.
        busy_share: Option<f64>,
        rwnd_limited_share: Option<f64>,
        sndbuf_limited_share: Option<f64>,
    },
    Event {
        #[serde(flatten)]
        place: Place<'l>,
        #[serde(flatten)]
        tcp: &'l Tcp,
    },
    End {
        #[serde(flatten)]
        place: Place<'l>,
        #[serde(flatten)]
        tcp: &'l Tcp,
    },
    /// A network device was removed.
    DeviceGone { time_ns: u64, device: &'l str },
    /// Written whenever it has grown.
    Unseen {
        time_ns: u64,
        connections: u64,
        samples: u64,
        events: u64,
        records: u64,
    },
    /// The last line.
    Over { why: String },
}

/// Identifies a connection.
#[derive(Serialize)]
pub(crate) struct Place<'l> {
    connection: String,
    local: SocketAddr,
    remote: SocketAddr,
    congestion_control: &'l str,
}

impl<'l> Line<'l> {
    /// How connections are watched.
    pub(crate) fn watch(method: &'l Method, interval: Duration) -> Line<'l> {
        let (way, why) = match method {
            Method::Traced => ("traced", "the kernel tells every change by itself (eBPF)"),
            Method::Sampled { reason } => ("sampled", reason.as_str()),
        };
        Line::Watch {
            way,
            why,
            interval_ns: duration_ns(interval),
        }
    }

    /// A record of a connection.
    pub(crate) fn record(tcp: &'l Tcp, entry: &'l Entry) -> Line<'l> {
        let connection = &entry.begun.connection;
        let place = Place {
            connection: format!("{:x}", connection.cookie),
            local: connection.local,
            remote: connection.remote,
            congestion_control: &entry.begun.congestion_control,
        };
        match tcp.event {
            TcpEvent::Begin => Line::Begin { place, tcp },
            TcpEvent::End => Line::End { place, tcp },
            TcpEvent::Sample => Line::Sample {
                place,
                tcp,
                busy_share: entry.shares.map(|shares| shares.busy),
                rwnd_limited_share: entry.shares.map(|shares| shares.rwnd_limited),
                sndbuf_limited_share: entry.shares.map(|shares| shares.sndbuf_limited),
            },
            _ => Line::Event { place, tcp },
        }
    }

    /// The network devices that were removed.
    pub(crate) fn devices_gone(batch: &'l Batch) -> impl Iterator<Item = Line<'l>> {
        let time_ns = batch.time.ns();
        let devices = batch.devices_gone.iter();
        devices.map(move |device| Line::DeviceGone { time_ns, device })
    }

    /// The last line: why the watch ended.
    pub(crate) fn over(ending: Option<&Ending>) -> Line<'static> {
        let why = ending.map_or_else(|| "told to end".to_owned(), ToString::to_string);
        Line::Over { why }
    }

    /// What was missed.
    pub(crate) fn unseen(time_ns: u64, unseen: &Unseen) -> Line<'static> {
        Line::Unseen {
            time_ns,
            connections: unseen.connections,
            samples: unseen.samples,
            events: unseen.events,
            records: unseen.records,
        }
    }
}

/// Formats the lines of a watch. Each method returns whole lines; those of a batch each end with a line feed.
#[derive(Debug, Default)]
pub struct Lines {
    board: Board,
    unseen: Unseen,
}

impl Lines {
    /// The first line.
    ///
    /// # Errors
    /// None is known: all values can be expressed in JSON. The same holds for the other methods.
    pub fn begin(&self, method: &Method, interval: Duration) -> serde_json::Result<String> {
        serde_json::to_string(&Line::watch(method, interval))
    }

    /// The lines of a batch; empty if nothing happened.
    ///
    /// # Errors
    /// See [`Lines::begin`].
    pub fn batch(&mut self, batch: &Batch) -> serde_json::Result<String> {
        let mut text = String::new();
        let mut add = |line: &Line<'_>| {
            text.push_str(&serde_json::to_string(line)?);
            text.push('\n');
            Ok(())
        };
        let mut failed = None;
        self.board.take(batch, |record, entry| {
            if let Err(error) = add(&Line::record(record, entry)) {
                failed = Some(error);
            }
        });
        for line in Line::devices_gone(batch) {
            add(&line)?;
        }
        if batch.unseen != self.unseen {
            self.unseen = batch.unseen;
            add(&Line::unseen(batch.time.ns(), &self.unseen))?;
        }
        failed.map_or(Ok(text), Err)
    }

    /// The last line.
    ///
    /// # Errors
    /// See [`Lines::begin`].
    pub fn end(&self, ending: Option<&Ending>) -> serde_json::Result<String> {
        serde_json::to_string(&Line::over(ending))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::tests::{begin, records};

    fn read(lines: &mut Lines, batch: &Batch) -> Vec<serde_json::Value> {
        let text = lines.batch(batch).unwrap();
        let values = text.lines().map(|line| serde_json::from_str(line).unwrap());
        values.collect()
    }

    #[test]
    fn a_line_for_each_record_and_one_when_something_went_unseen() {
        let mut watch = Lines::default();
        let first = read(&mut watch, &begin(0xab));
        let kinds: Vec<&str> = first.iter().map(|l| l["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["begin", "sample"]);
        assert_eq!(first[0]["connection"], "ab");
        assert_eq!(first[0]["local"], "127.0.0.1:3260");
        assert_eq!(first[0]["congestion_control"], "cubic");
        assert!(first[1]["busy_share"].is_null());

        let mut next = records(2_000, 0xab, &[TcpEvent::CwrByEce, TcpEvent::Sample]);
        next.unseen.samples = 3;
        next.devices_gone = vec!["wan".to_owned()];
        let lines = read(&mut watch, &next);
        assert_eq!(lines[0]["event"], "cwr_by_ece");
        assert_eq!(lines[0]["seen"], "sampled");
        assert_eq!(lines[1]["busy_share"], 0.5);
        assert_eq!(
            (&lines[2]["kind"], &lines[2]["device"]),
            (&"device_gone".into(), &"wan".into())
        );
        assert_eq!(
            (&lines[3]["kind"], &lines[3]["samples"]),
            (&"unseen".into(), &3.into())
        );
        next.records.clear();
        next.devices_gone.clear();
        assert!(read(&mut watch, &next).is_empty());
    }

    #[test]
    fn the_document_says_what_every_line_holds() {
        let document = include_str!("../../../docs/reference/watch.md");
        let section = document
            .split("\n## ")
            .find(|s| s.starts_with("JSON lines"));
        let section = section.unwrap();
        let documented: Vec<&str> = section.split('`').skip(1).step_by(2).collect();
        let mut watch = Lines::default();
        let mut lines = read(&mut watch, &begin(0xab));
        let mut next = records(2_000, 0xab, &[TcpEvent::Undo, TcpEvent::End]);
        next.unseen.samples = 1;
        next.devices_gone = vec!["wan".to_owned()];
        lines.extend(read(&mut watch, &next));
        for line in [
            Line::watch(&Method::Traced, Duration::ZERO),
            Line::over(None),
        ] {
            lines.push(serde_json::to_value(line).unwrap());
        }
        let mut kinds: Vec<&str> = lines.iter().map(|l| l["kind"].as_str().unwrap()).collect();
        kinds.sort_unstable();
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        let rows = rows.filter_map(|row| row.split('|').nth(1));
        let mut all: Vec<&str> = rows
            .flat_map(|kinds| kinds.split('`').skip(1).step_by(2))
            .collect();
        all.sort_unstable();
        assert_eq!(kinds, all);
        for line in &lines {
            let kind = line["kind"].as_str().unwrap();
            for word in line
                .as_object()
                .unwrap()
                .keys()
                .map(String::as_str)
                .chain([kind])
            {
                assert!(
                    documented.contains(&word),
                    "`{word}` of `{kind}` is not in the document"
                );
            }
            let has_time = !["watch", "over"].contains(&kind);
            assert_eq!(line["time_ns"].is_u64(), has_time, "{line}");
        }
    }
}
