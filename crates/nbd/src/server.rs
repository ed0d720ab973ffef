//! The server's end of a connection.

mod command;
mod error;
mod event;
mod extents;
mod negotiation;
mod option_replier;
mod replier;
mod transmission;

use std::sync::Arc;

pub use error::ServerError;
pub use event::{Command, Event, Reply, Request, RequestId};
pub use negotiation::{MAX_OPTION_BYTES, MAX_UNREAD_BYTES};

use crate::Export;
use crate::input::Input;
use crate::output::Output;
use crate::rules::Rules;
use crate::wire::Errno;
use negotiation::{Negotiation, Outcome};
use transmission::Transmission;

/// The server's end of a connection: it negotiates, takes requests, and sends the replies that its caller gives.
///
/// In a loop: read from the connection into [`space`](Self::space), report the bytes by [`received`](Self::received),
/// take events by [`poll_event`](Self::poll_event) until there is none; answer each request by [`reply`](Self::reply) or
/// [`reply_read`](Self::reply_read), in any order and whenever that is possible; write [`pending`](Self::pending) to the
/// connection and report the bytes by [`sent`](Self::sent). The greeting is pending at once. Close the connection once
/// [`is_finished`](Self::is_finished), or after an error.
///
/// What a client can make it hold:
///
/// - what is received: a buffer of 64 KiB, and the data of one option or one write, up to
///   [`MAX_PAYLOAD_BYTES`](crate::MAX_PAYLOAD_BYTES); that of a refused write is dropped as it comes;
/// - what is to be sent: during the handshake [`MAX_UNREAD_BYTES`] and the replies to one option. Later the caller
///   bounds it, who stops reading while [`pending`](Self::pending) is long. What has been received by then adds
///   refusals at most: some 100 bytes for each request, so less than 300 KiB;
/// - open requests: the caller stops reading while there are too many of them
///   ([`open_requests`](Self::open_requests)). What has been received by then adds less than 2400. It may also leave
///   events where they are, and poll again later; [`space`](Self::space) may be empty meanwhile.
#[derive(Debug)]
pub struct Server {
    exports: Arc<[Export]>,
    input: Input,
    output: Output,
    phase: Phase,
    /// What the client did, after which nothing of it is taken.
    failed: Option<ServerError>,
}

#[derive(Debug)]
enum Phase {
    Negotiation(Negotiation),
    Transmission(Transmission),
    /// After `NBD_OPT_ABORT`.
    Aborted,
}

impl Server {
    /// A server that offers `exports`. Clients that ask for the export without a name get that one or, if there is no
    /// other, the only one.
    ///
    /// # Panics
    /// If [`Export::check`] refuses one.
    #[must_use]
    pub fn new(exports: Arc<[Export]>) -> Server {
        for export in exports.iter() {
            if let Err(error) = export.check() {
                panic!("export {:?} cannot be offered: {error}", export.name);
            }
        }
        let mut output = Output::default();
        let negotiation = Negotiation::new(Arc::clone(&exports), &mut output);
        Server {
            exports,
            input: Input::new(),
            output,
            phase: Phase::Negotiation(negotiation),
            failed: None,
        }
    }

    /// Space for what is received next, with undefined content: when a long payload is awaited, its place in the
    /// request; else some of a buffer of 64 KiB. It is never empty once [`poll_event`](Self::poll_event) has returned
    /// `None` or an error.
    pub fn space(&mut self) -> &mut [u8] {
        self.input.space()
    }

    /// `bytes` were received into [`space`](Self::space).
    ///
    /// # Panics
    /// If that exceeds the space.
    pub fn received(&mut self, bytes: usize) {
        self.input.received(bytes);
    }

    /// The next event, if what was received makes one.
    ///
    /// # Errors
    /// [`ServerError`] when the client did what no reply can answer, from then on every time. Requests that are open
    /// need no reply then.
    pub fn poll_event(&mut self) -> Result<Option<Event>, ServerError> {
        let polled = match &self.failed {
            Some(error) => Err(error.clone()),
            None => self.poll(),
        };
        if let Err(error) = &polled {
            self.input.discard();
            self.failed = Some(error.clone());
        }
        polled
    }

    fn poll(&mut self) -> Result<Option<Event>, ServerError> {
        match &mut self.phase {
            Phase::Negotiation(negotiation) => {
                match negotiation.poll(&mut self.input, &mut self.output)? {
                    None => Ok(None),
                    Some(Outcome::Aborted) => {
                        self.phase = Phase::Aborted;
                        Ok(Some(Event::Disconnect))
                    }
                    Some(Outcome::Opened(terms)) => {
                        let export = terms.export;
                        let rules = Rules {
                            export: self.exports[export].clone(),
                            replies: terms.replies,
                            has_status: terms.has_status,
                        };
                        self.phase = Phase::Transmission(Transmission::new(rules));
                        Ok(Some(Event::Opened { export }))
                    }
                }
            }
            Phase::Transmission(transmission) => {
                transmission.poll(&mut self.input, &mut self.output)
            }
            Phase::Aborted => {
                self.input.discard();
                Ok(None)
            }
        }
    }

    /// Answers a request. A structured or extended reply has its data in one chunk, so that it suits `NBD_CMD_FLAG_DF`.
    ///
    /// # Panics
    /// If the request is not open, or if that is no answer to it: only reads take [`Reply::Data`], of their length, and
    /// [`Reply::Hole`]; only [`Command::BlockStatus`] takes [`Reply::Status`]; all others take [`Reply::Done`].
    pub fn reply(&mut self, id: RequestId, reply: Result<Reply<'_>, Errno>) {
        self.phase
            .transmission(id)
            .reply(id, reply, &mut self.output);
    }

    /// Answers a read with data that `fill` writes into the output itself. It is given as many bytes as the read asks
    /// for, with undefined content, and must overwrite all of them. If it fails, so does the read.
    ///
    /// # Panics
    /// If the request is not open or no read.
    pub fn reply_read(&mut self, id: RequestId, fill: impl FnOnce(&mut [u8]) -> Result<(), Errno>) {
        self.phase
            .transmission(id)
            .reply_read(id, fill, &mut self.output);
    }

    /// All bytes to send.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        self.output.pending()
    }

    /// The connection took the first `bytes` of [`pending`](Self::pending).
    ///
    /// # Panics
    /// If less than that was pending.
    pub fn sent(&mut self, bytes: usize) {
        self.output.sent(bytes);
    }

    /// How many requests have no answer yet.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        match &self.phase {
            Phase::Transmission(transmission) => transmission.open_requests(),
            Phase::Negotiation(_) | Phase::Aborted => 0,
        }
    }

    /// Whether the client has said goodbye, and everything was answered and sent.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let is_over = match &self.phase {
            Phase::Negotiation(_) => false,
            Phase::Transmission(transmission) => transmission.is_over(),
            Phase::Aborted => true,
        };
        is_over && self.output.len() == 0
    }

    /// How much memory the client can make it hold, as it is now, bytes.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.input.memory_bytes() + self.output.memory_bytes()
    }
}

impl Phase {
    /// Where a request is open.
    fn transmission(&mut self, id: RequestId) -> &mut Transmission {
        match self {
            Phase::Transmission(transmission) => transmission,
            Phase::Negotiation(_) | Phase::Aborted => panic!("{id:?} is not open"),
        }
    }
}
