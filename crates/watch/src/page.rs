//! The watch as a live page in browsers.
//!
//! Browsers receive the lines of [`crate::json`] except samples, and ten times a second a frame with the current state
//! of all connections.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde::Serialize;
use wansan_metrics::http::ServeError;
use wansan_tcp::watch::{Batch, Ending, Method, Unseen};
use wansan_trace::event::{Tcp, TcpEvent};

use crate::audience::{Audience, LivePage, message};
use crate::board::{Board, Entry};
use crate::json::Line;
use crate::sink::{Sink, SinkError};

/// Interval between frames.
const FRAME: Duration = Duration::from_millis(100);
/// Key of the watch's own line, which browsers receive first; the others have their cookies, from 1, as keys.
const OF_WATCH: u64 = 0;

/// Current state of a connection.
#[derive(Serialize)]
struct Now<'b> {
    connection: String,
    #[serde(flatten)]
    tcp: &'b Tcp,
    /// Shares of the time between the last two samples: busy, limited by the receive window, limited by the send
    /// buffer.
    shares: Option<[f64; 3]>,
}

impl Now<'_> {
    fn of(entry: &Entry) -> Now<'_> {
        Now {
            connection: format!("{:x}", entry.cookie()),
            tcp: &entry.last,
            shares: entry
                .shares
                .map(|s| [s.busy, s.rwnd_limited, s.sndbuf_limited]),
        }
    }
}

#[derive(Serialize)]
struct Frame<'b> {
    kind: &'static str,
    time_ns: u64,
    connections: Vec<Now<'b>>,
}

/// Serves the page.
pub struct Page {
    board: Board,
    unseen: Unseen,
    audience: Audience,
    framed: Instant,
}

impl Page {
    /// Listens at `listen`.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub fn serve(listen: SocketAddr) -> Result<Page, ServeError> {
        Ok(Page {
            board: Board::default(),
            unseen: Unseen::default(),
            audience: Audience::serve(listen, LivePage::Watch)?,
            framed: Instant::now(),
        })
    }

    /// The listening address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.audience.address()
    }
}

impl Sink for Page {
    fn began(&mut self, method: &Method, interval: Duration) -> Result<(), SinkError> {
        let line = message(&Line::watch(method, interval))?;
        self.audience.keep(OF_WATCH, line);
        Ok(())
    }

    fn batch(&mut self, batch: &Batch) -> Result<bool, SinkError> {
        let audience = &self.audience;
        let mut text = String::new();
        let mut failed = None;
        self.board.take(batch, |record, entry| {
            if matches!(record.event, TcpEvent::Sample | TcpEvent::Change) {
                return;
            }
            match message(&Line::record(record, entry)) {
                Ok(line) => {
                    text.push_str(&line);
                    if record.event == TcpEvent::Begin {
                        audience.keep(entry.cookie(), line);
                    } else if record.event == TcpEvent::End {
                        audience.forget(entry.cookie());
                    }
                }
                Err(error) => failed = Some(error),
            }
        });
        if let Some(error) = failed {
            return Err(error.into());
        }
        for line in Line::devices_gone(batch) {
            text.push_str(&message(&line)?);
        }
        if batch.unseen != self.unseen {
            self.unseen = batch.unseen;
            text.push_str(&message(&Line::unseen(batch.time.ns(), &self.unseen))?);
        }
        self.audience.send(text);
        Ok(true)
    }

    fn idle(&mut self) -> Result<bool, SinkError> {
        if self.framed.elapsed() < FRAME {
            return Ok(true);
        }
        self.framed = Instant::now();
        if !self.audience.is_empty() {
            let frame = Frame {
                kind: "frame",
                time_ns: self.board.time.ns(),
                connections: self.board.entries.values().map(Now::of).collect(),
            };
            self.audience.send(message(&frame)?);
        }
        Ok(true)
    }

    fn ended(&mut self, ending: Option<&Ending>) -> Result<(), SinkError> {
        self.audience.send(message(&Line::over(ending))?);
        Ok(())
    }
}
