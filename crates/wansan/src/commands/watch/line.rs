//! What is seen as lines of JSON; docs/reference/watch.md says what they hold.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use wansan_tcp::watch::{Batch, Ending, Unseen, Way};
use wansan_trace::event::{Tcp, TcpEvent};
use wansan_trace::time::duration_ns;

use super::board::{Board, Entry};
use super::sink::Sink;
use crate::commands::{is_read, print_json, try_print_json};

/// One line.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Line<'l> {
    /// The first.
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
    /// A network device has gone.
    DeviceGone { time_ns: u64, device: &'l str },
    /// Whenever there is more of it.
    Unseen {
        time_ns: u64,
        connections: u64,
        samples: u64,
        events: u64,
        records: u64,
    },
    /// The last.
    Over { why: String },
}

/// Which connection.
#[derive(Serialize)]
pub(super) struct Place<'l> {
    connection: String,
    local: SocketAddr,
    remote: SocketAddr,
    congestion_control: &'l str,
}

impl<'l> Line<'l> {
    /// How the watch goes about it.
    pub(super) fn watch(way: &'l Way, interval: Duration) -> Line<'l> {
        let (way, why) = match way {
            Way::Traced => ("traced", "the kernel tells every change by itself (eBPF)"),
            Way::Sampled { reason } => ("sampled", reason.as_str()),
        };
        Line::Watch {
            way,
            why,
            interval_ns: duration_ns(interval),
        }
    }

    /// A record of a connection.
    pub(super) fn record(tcp: &'l Tcp, entry: &'l Entry) -> Line<'l> {
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

    /// The network devices that have gone.
    pub(super) fn devices_gone(batch: &'l Batch) -> impl Iterator<Item = Line<'l>> {
        let time_ns = batch.time.ns();
        let devices = batch.devices_gone.iter();
        devices.map(move |device| Line::DeviceGone { time_ns, device })
    }

    /// What was not seen.
    pub(super) fn unseen(time_ns: u64, unseen: &Unseen) -> Line<'static> {
        Line::Unseen {
            time_ns,
            connections: unseen.connections,
            samples: unseen.samples,
            events: unseen.events,
            records: unseen.records,
        }
    }
}

/// Prints lines on standard output.
#[derive(Default)]
pub(super) struct Lines {
    board: Board,
    unseen: Unseen,
}

impl Sink for Lines {
    fn began(&mut self, way: &Way, interval: Duration) -> Result<()> {
        print_json(&serde_json::to_string(&Line::watch(way, interval))?)
    }

    fn batch(&mut self, batch: &Batch) -> Result<bool> {
        let text = lines(&mut self.board, &mut self.unseen, batch)?;
        Ok(text.is_empty() || try_print_json(&text)?)
    }

    /// As long as nothing happens, nothing is written that would tell.
    fn idle(&mut self) -> Result<bool> {
        Ok(is_read())
    }

    fn ended(&mut self, over: Option<&Ending>) -> Result<()> {
        let why = over.map_or_else(|| "told to end".to_owned(), ToString::to_string);
        print_json(&serde_json::to_string(&Line::Over { why })?)
    }
}

/// All lines of a batch, each with its end.
pub(super) fn lines(
    board: &mut Board,
    told: &mut Unseen,
    batch: &Batch,
) -> serde_json::Result<String> {
    let mut text = String::new();
    let mut add = |line: &Line<'_>| {
        text.push_str(&serde_json::to_string(line)?);
        text.push('\n');
        Ok(())
    };
    let mut failed = None;
    board.take(batch, |record, entry| {
        if let Err(error) = add(&Line::record(record, entry)) {
            failed = Some(error);
        }
    });
    for line in Line::devices_gone(batch) {
        add(&line)?;
    }
    if batch.unseen != *told {
        *told = batch.unseen;
        add(&Line::unseen(batch.time.ns(), told))?;
    }
    failed.map_or(Ok(text), Err)
}

#[cfg(test)]
mod tests {
    use super::super::board::tests::{begin, records};
    use super::*;

    fn read(batch: &Batch, board: &mut Board, told: &mut Unseen) -> Vec<serde_json::Value> {
        let text = lines(board, told, batch).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect()
    }

    #[test]
    fn a_line_for_each_record_and_one_when_something_went_unseen() {
        let (mut board, mut told) = (Board::default(), Unseen::default());
        let first = read(&begin(0xab), &mut board, &mut told);
        let kinds: Vec<&str> = first.iter().map(|l| l["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["begin", "sample"]);
        assert_eq!(first[0]["connection"], "ab");
        assert_eq!(first[0]["local"], "127.0.0.1:3260");
        assert_eq!(first[0]["congestion_control"], "cubic");
        assert!(first[1]["busy_share"].is_null());

        let mut next = records(2_000, 0xab, &[TcpEvent::CwrByEce, TcpEvent::Sample]);
        next.unseen.samples = 3;
        next.devices_gone = vec!["wan".to_owned()];
        let lines = read(&next, &mut board, &mut told);
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
        assert!(read(&next, &mut board, &mut told).is_empty());
    }

    #[test]
    fn the_document_says_what_every_line_holds() {
        let document = include_str!("../../../../../docs/reference/watch.md");
        let section = document
            .split("\n## ")
            .find(|s| s.starts_with("Lines of JSON"));
        let section = section.unwrap();
        let told: Vec<&str> = section.split('`').skip(1).step_by(2).collect();
        let (mut board, mut told_unseen) = (Board::default(), Unseen::default());
        let mut lines = read(&begin(0xab), &mut board, &mut told_unseen);
        let mut next = records(2_000, 0xab, &[TcpEvent::Undo, TcpEvent::End]);
        next.unseen.samples = 1;
        next.devices_gone = vec!["wan".to_owned()];
        lines.extend(read(&next, &mut board, &mut told_unseen));
        let over = Line::Over { why: String::new() };
        for line in [Line::watch(&Way::Traced, Duration::ZERO), over] {
            lines.push(serde_json::to_value(line).unwrap());
        }
        let mut kinds: Vec<&str> = lines.iter().map(|l| l["kind"].as_str().unwrap()).collect();
        kinds.sort_unstable();
        let all = [
            "begin",
            "device_gone",
            "end",
            "event",
            "over",
            "sample",
            "unseen",
            "watch",
        ];
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
                    told.contains(&word),
                    "`{word}` of `{kind}` is not in the document"
                );
            }
            let has_time = !["watch", "over"].contains(&kind);
            assert_eq!(line["time_ns"].is_u64(), has_time, "{line}");
        }
    }
}
