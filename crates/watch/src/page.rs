//! The watch as a live page in browsers.
//!
//! A browser loads the page from `/` and then reads `/events`, a stream of server-sent events: the
//! lines of [`crate::json`] but for samples, and ten times a second a frame with the present state
//! of all connections. One that reads too slowly is left behind and loads anew.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use wansan_metrics::http::{self, Response, ServeError};
use wansan_tcp::watch::{Batch, Ending, Method, Unseen};
use wansan_trace::event::{Tcp, TcpEvent};

use crate::board::{Board, Entry};
use crate::json::Line;
use crate::sink::{Sink, SinkError};

/// The page, with its script and style.
const HTML: &str = include_str!(env!("WANSAN_LIVE_PAGE"));

/// Time between frames.
const FRAME: Duration = Duration::from_millis(100);

/// Browsers that look at once.
const MOST_VIEWERS: usize = 16;

/// Messages that wait for a browser.
const WAITING_MESSAGES: usize = 256;

/// A browser that takes nothing for so long has gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a browser is sent first, and the browsers.
#[derive(Default)]
struct Audience {
    watch: String,
    begins: BTreeMap<u64, String>,
    viewers: Vec<SyncSender<Arc<str>>>,
}

/// The present state of a connection.
#[derive(Serialize)]
struct Now<'b> {
    connection: String,
    #[serde(flatten)]
    tcp: &'b Tcp,
    /// Shares of the time between the last two samples: busy, stopped by the peer's window, stopped by
    /// a full send buffer.
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
    audience: Arc<Mutex<Audience>>,
    address: SocketAddr,
    framed: Instant,
}

impl Page {
    /// Listens at `listen`.
    ///
    /// # Errors
    /// When it cannot.
    pub fn serve(listen: SocketAddr) -> Result<Page, ServeError> {
        let audience = Arc::new(Mutex::new(Audience::default()));
        let shared = Arc::clone(&audience);
        let address = http::serve(listen, "the live page", move |path| match path {
            "/" => Response::Body {
                media_type: "text/html; charset=utf-8",
                body: HTML.to_owned(),
            },
            "/events" => {
                let shared = Arc::clone(&shared);
                Response::Stream(Box::new(move |stream| admit(&shared, stream)))
            }
            _ => Response::NotFound("the page is at /"),
        })?;
        Ok(Page {
            board: Board::default(),
            unseen: Unseen::default(),
            audience,
            address,
            framed: Instant::now(),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn locked(audience: &Mutex<Audience>) -> MutexGuard<'_, Audience> {
    audience.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One message of a stream of server-sent events.
fn message(line: &impl Serialize) -> serde_json::Result<String> {
    Ok(format!("data: {}\n\n", serde_json::to_string(line)?))
}

/// Takes in another browser, which is served by a thread of its own.
fn admit(audience: &Mutex<Audience>, mut stream: TcpStream) {
    let mut all = locked(audience);
    if all.viewers.len() >= MOST_VIEWERS {
        let full = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
        // One that has gone does not wait for an answer.
        let _ = stream.write_all(full);
        return;
    }
    let greeting: String = std::iter::once(&all.watch)
        .chain(all.begins.values())
        .map(String::as_str)
        .collect();
    let (give, messages) = sync_channel(WAITING_MESSAGES);
    let serve = move || {
        // A browser that goes away is its own affair; what is given is dropped with the channel.
        drop(speak(stream, &greeting, &messages));
    };
    let thread = std::thread::Builder::new().name("viewer".to_owned());
    if thread.spawn(serve).is_ok() {
        all.viewers.push(give);
    }
}

fn speak(mut stream: TcpStream, greeting: &str, messages: &Receiver<Arc<str>>) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\
          Connection: close\r\n\r\n",
    )?;
    stream.write_all(greeting.as_bytes())?;
    for message in messages {
        stream.write_all(message.as_bytes())?;
    }
    Ok(())
}

impl Audience {
    fn send(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        let text: Arc<str> = text.into();
        // One that does not keep up, or has gone, is let go.
        self.viewers
            .retain(|viewer| viewer.try_send(Arc::clone(&text)).is_ok());
    }
}

impl Sink for Page {
    fn began(&mut self, method: &Method, interval: Duration) -> Result<(), SinkError> {
        locked(&self.audience).watch = message(&Line::watch(method, interval))?;
        Ok(())
    }

    fn batch(&mut self, batch: &Batch) -> Result<bool, SinkError> {
        let mut audience = locked(&self.audience);
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
                        audience.begins.insert(entry.cookie(), line);
                    } else if record.event == TcpEvent::End {
                        audience.begins.remove(&entry.cookie());
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
        audience.send(text);
        Ok(true)
    }

    fn idle(&mut self) -> Result<bool, SinkError> {
        if self.framed.elapsed() < FRAME {
            return Ok(true);
        }
        self.framed = Instant::now();
        let mut audience = locked(&self.audience);
        if !audience.viewers.is_empty() {
            let frame = Frame {
                kind: "frame",
                time_ns: self.board.time.ns(),
                connections: self.board.entries.values().map(Now::of).collect(),
            };
            audience.send(message(&frame)?);
        }
        Ok(true)
    }

    fn ended(&mut self, ending: Option<&Ending>) -> Result<(), SinkError> {
        locked(&self.audience).send(message(&Line::over(ending))?);
        Ok(())
    }
}
