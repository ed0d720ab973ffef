//! Browsers that view a live page.
//!
//! A browser loads the page from `/` and then reads `/events`, a stream of server-sent events. One that reads too
//! slowly is disconnected and reloads.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use wansan_metrics::http::{self, Response, ServeError};

/// Most browsers connected at once.
const MOST_VIEWERS: usize = 16;

/// Most messages queued for a browser.
const WAITING_MESSAGES: usize = 256;

/// Write timeout, after which a browser counts as gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// A live page, with its script and style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LivePage {
    /// TCP connections, as in `wansan watch`.
    Watch,
    /// What I/Os wait for, as in `wansan diagnose`.
    Diagnosis,
}

impl LivePage {
    const fn html(self) -> &'static str {
        match self {
            LivePage::Watch => include_str!(env!("WANSAN_LIVE_PAGE")),
            LivePage::Diagnosis => include_str!(env!("WANSAN_DIAGNOSIS_PAGE")),
        }
    }
}

/// Serves a page and sends messages to all its viewers.
#[derive(Debug)]
pub struct Audience {
    shared: Arc<Mutex<Viewers>>,
    address: SocketAddr,
}

/// The messages that a new browser receives first, by the sender's keys, and the browsers.
#[derive(Debug, Default)]
struct Viewers {
    first: BTreeMap<u64, String>,
    all: Vec<SyncSender<Arc<str>>>,
}

impl Audience {
    /// Serves `page` at `listen`.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub fn serve(listen: SocketAddr, page: LivePage) -> Result<Audience, ServeError> {
        let shared = Arc::new(Mutex::new(Viewers::default()));
        let admits = Arc::clone(&shared);
        let address = http::serve(listen, "the live page", move |path| match path {
            "/" => Response::Body {
                media_type: "text/html; charset=utf-8",
                body: page.html().to_owned(),
            },
            "/events" => {
                let admits = Arc::clone(&admits);
                Response::Stream(Box::new(move |stream| admit(&admits, stream)))
            }
            _ => Response::NotFound("the page is at /"),
        })?;
        Ok(Audience { shared, address })
    }

    /// The listening address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether there are no viewers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.locked().all.is_empty()
    }

    /// Keeps a message to send first to new viewers, in key order; replaces the one with the same key.
    pub fn keep(&self, key: u64, text: String) {
        self.locked().first.insert(key, text);
    }

    /// Drops the kept message with that key.
    pub fn forget(&self, key: u64) {
        self.locked().first.remove(&key);
    }

    /// Sends a message to all current viewers. Drops those that have gone or cannot keep up.
    pub fn send(&self, text: String) {
        if text.is_empty() {
            return;
        }
        let text: Arc<str> = text.into();
        self.locked()
            .all
            .retain(|viewer| viewer.try_send(Arc::clone(&text)).is_ok());
    }

    fn locked(&self) -> MutexGuard<'_, Viewers> {
        locked(&self.shared)
    }
}

fn locked(viewers: &Mutex<Viewers>) -> MutexGuard<'_, Viewers> {
    viewers.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Formats a server-sent event.
///
/// # Errors
/// A value cannot be expressed in JSON.
pub fn message(line: &impl Serialize) -> serde_json::Result<String> {
    Ok(format!("data: {}\n\n", serde_json::to_string(line)?))
}

/// Adds a browser, served by its own thread.
fn admit(viewers: &Mutex<Viewers>, mut stream: TcpStream) {
    let mut viewers = locked(viewers);
    if viewers.all.len() >= MOST_VIEWERS {
        let full = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
        // Ignore the error: the browser may have gone.
        let _ = stream.write_all(full);
        return;
    }
    let greeting: String = viewers.first.values().map(String::as_str).collect();
    let (give, messages) = sync_channel(WAITING_MESSAGES);
    let serve = move || {
        // A browser that leaves is not an error; its channel is dropped.
        drop(speak(stream, &greeting, &messages));
    };
    let thread = std::thread::Builder::new().name("viewer".to_owned());
    if thread.spawn(serve).is_ok() {
        viewers.all.push(give);
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
