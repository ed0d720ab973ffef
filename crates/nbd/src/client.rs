//! The client's end of a connection.

mod coverage;
mod error;
mod event;
mod facts;
mod negotiation;
mod open;
mod submit;
mod transmission;

pub use error::{ClientError, SubmitError};
pub use event::{Command, Done, Event, ExportInfo, Failure, Listing, Refusal, Wants};
pub use facts::MAX_LISTED;
pub use negotiation::MAX_OPTION_REPLY_BYTES;

use crate::input::Input;
use crate::output::Output;
use crate::wire::{StringProblem, check_string};
use negotiation::{Negotiation, Outcome};
use transmission::Transmission;

/// The client's end of a connection: it opens an export, or lists what there is; then it sends commands and takes their
/// replies.
///
/// In a loop: read from the connection into [`space`](Self::space), report the bytes by [`received`](Self::received),
/// take events by [`poll_event`](Self::poll_event) until there is none; send commands by [`submit`](Self::submit) once it
/// is ready; write [`pending`](Self::pending) to the connection and report the bytes by [`sent`](Self::sent). Close the
/// connection once [`is_finished`](Self::is_finished), after an error, or when the server does.
///
/// What a server can make it hold: a buffer of 64 KiB; during the handshake the data of one reply, up to
/// [`MAX_OPTION_REPLY_BYTES`], and up to [`MAX_LISTED`] exports; later what the caller asked for, and for each open
/// request an error's text of up to 4096 bytes, 4096 pieces of a read that came out of order, or 2^20 extents. All else
/// it treats as an error.
#[derive(Debug)]
pub struct Client {
    input: Input,
    output: Output,
    phase: Phase,
    /// What the server did, after which nothing of it is taken.
    failed: Option<ClientError>,
}

#[derive(Debug)]
enum Phase {
    Negotiation(Box<Negotiation>),
    Transmission(Box<Transmission>),
    /// Nothing more is expected.
    Over,
}

impl Client {
    /// A client that opens the export of that name, or the default export if the name is empty.
    ///
    /// # Errors
    /// [`StringProblem`] when that cannot be a name.
    pub fn new(export_name: &str, wants: Wants) -> Result<Client, StringProblem> {
        check_string(export_name.as_bytes())?;
        Ok(Self::negotiating(Negotiation::open(export_name, wants)))
    }

    /// A client that asks which exports there are, and leaves.
    #[must_use]
    pub fn list() -> Client {
        Self::negotiating(Negotiation::list())
    }

    fn negotiating(negotiation: Negotiation) -> Client {
        Client {
            input: Input::new(),
            output: Output::default(),
            phase: Phase::Negotiation(Box::new(negotiation)),
            failed: None,
        }
    }

    /// Space for what is received next, with undefined content: when the data of a read is awaited, its place in the
    /// read's own buffer; else some of a buffer of 64 KiB. It is never empty once [`poll_event`](Self::poll_event) has
    /// returned `None` or an error.
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
    /// [`ClientError`] when the server broke the protocol, from then on every time. No open request will be answered
    /// then.
    pub fn poll_event(&mut self) -> Result<Option<Event>, ClientError> {
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

    fn poll(&mut self) -> Result<Option<Event>, ClientError> {
        let outcome = match &mut self.phase {
            Phase::Negotiation(negotiation) => {
                negotiation.poll(&mut self.input, &mut self.output)?
            }
            Phase::Transmission(transmission) => return transmission.poll(&mut self.input),
            Phase::Over => {
                self.input.discard();
                return Ok(None);
            }
        };
        let Some(outcome) = outcome else {
            return Ok(None);
        };
        let (phase, event) = match outcome {
            Outcome::Opened {
                info,
                context_id,
                is_leaving,
            } => {
                let mut transmission = Transmission::new(&info, context_id);
                if is_leaving {
                    transmission.disconnect(&mut self.output);
                }
                let phase = Phase::Transmission(Box::new(transmission));
                (phase, Some(Event::Ready(info)))
            }
            Outcome::Refused(refusal) => (Phase::Over, Some(Event::Refused(refusal))),
            Outcome::Listed(exports) => (Phase::Over, Some(Event::Listed(exports))),
            Outcome::Left => (Phase::Over, None),
        };
        self.phase = phase;
        Ok(event)
    }

    /// Sends a command; its reply comes as [`Event::Done`] with `user`. Any number of commands may be open, and replies
    /// come in any order. The caller bounds how many, and how long [`pending`](Self::pending) may become.
    ///
    /// # Errors
    /// [`SubmitError`] when nothing was sent; the buffer of a read is dropped then.
    pub fn submit(&mut self, command: Command<'_>, user: u64) -> Result<(), SubmitError> {
        match &mut self.phase {
            Phase::Transmission(transmission) if self.failed.is_none() => {
                transmission.submit(command, user, &mut self.output)
            }
            _ => Err(SubmitError::NotReady),
        }
    }

    /// Says goodbye. Replies to open requests still come, and [`is_finished`](Self::is_finished) says when that is
    /// over. During the handshake it waits for the server's reply to the last option.
    pub fn disconnect(&mut self) {
        match &mut self.phase {
            Phase::Negotiation(negotiation) => negotiation.leave(),
            Phase::Transmission(transmission) => transmission.disconnect(&mut self.output),
            Phase::Over => {}
        }
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

    /// How many commands have no reply yet.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        match &self.phase {
            Phase::Transmission(transmission) => transmission.open_requests(),
            Phase::Negotiation(_) | Phase::Over => 0,
        }
    }

    /// Whether it has said goodbye, all replies have come, and everything was sent.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let is_over = match &self.phase {
            Phase::Negotiation(_) => false,
            Phase::Transmission(transmission) => transmission.is_over(),
            Phase::Over => true,
        };
        is_over && self.output.len() == 0
    }

    /// How much memory the server can make it hold, as it is now, bytes.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        self.input.memory_bytes() + self.output.memory_bytes()
    }
}
