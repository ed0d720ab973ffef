//! Browsers that look at a live page.
//!
//! One loads the page from `/` and then reads `/events`, a stream of server-sent events. One that reads too slowly is left
//! behind and loads anew.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use wansan_metrics::http::{self, Response, ServeError};

/// Browsers that look at once.
const MOST_VIEWERS: usize = 16;

/// Messages that wait for a browser.
const WAITING_MESSAGES: usize = 256;

/// A browser that takes nothing for so long has gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// A live page, with its script and style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LivePage {
    /// TCP connections, as `wansan watch` has them.
    Watch,
    /// What I/Os wait for, as `wansan diagnose` has it.
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

/// Serves a page, and sends messages to all browsers that look at it.
#[derive(Debug)]
pub struct Audience {
    shared: Arc<Mutex<Viewers>>,
    address: SocketAddr,
}

/// What a browser is sent first, by keys of the sender, and the browsers.
#[derive(Debug, Default)]
struct Viewers {
    first: BTreeMap<u64, String>,
    all: Vec<SyncSender<Arc<str>>>,
}

impl Audience {
    /// Serves `page` at `listen`.
    ///
    /// # Errors
    /// It cannot listen there.
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

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether nobody looks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.locked().all.is_empty()
    }

    /// Has those who come from now on be sent this first, in the order of keys, in the place of what had that key.
    pub fn keep(&self, key: u64, text: String) {
        self.locked().first.insert(key, text);
    }

    /// Takes what has that key out again.
    pub fn forget(&self, key: u64) {
        self.locked().first.remove(&key);
    }

    /// Sends messages to all who look now. One that does not keep up, or has gone, is let go.
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

/// One message of a stream of server-sent events.
///
/// # Errors
/// A value has no form in JSON.
pub fn message(line: &impl Serialize) -> serde_json::Result<String> {
    Ok(format!("data: {}\n\n", serde_json::to_string(line)?))
}

/// Takes in another browser, which is served by a thread of its own.
fn admit(viewers: &Mutex<Viewers>, mut stream: TcpStream) {
    let mut viewers = locked(viewers);
    if viewers.all.len() >= MOST_VIEWERS {
        let full = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
        // One that has gone does not wait for an answer.
        let _ = stream.write_all(full);
        return;
    }
    let greeting: String = viewers.first.values().map(String::as_str).collect();
    let (give, messages) = sync_channel(WAITING_MESSAGES);
    let serve = move || {
        // A browser that goes away is its own affair; what is given is dropped with the channel.
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
