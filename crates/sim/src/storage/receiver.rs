//! The receiving end of measured streams.

use std::net::SocketAddr;

use wansan_workload::stream::{Nonsense, Receiving};

use super::sender::CLOCK;
use super::socket::Sockets;

/// The settings of a receiver of streams.
#[derive(Debug)]
pub struct ReceiverConfig {
    /// The addresses at which it listens, all of its host.
    pub listen: Vec<SocketAddr>,
    /// Size of a read in bytes, at least one.
    pub read_bytes: usize,
}

/// A receiver of streams.
#[derive(Debug)]
pub(super) struct Receiver {
    streams: Vec<Stream>,
    space: Vec<u8>,
}

#[derive(Debug)]
struct Stream {
    end: u32,
    receiving: Receiving,
    /// Whether it has read everything and sent all answers.
    is_over: bool,
}

impl Receiver {
    pub(super) fn new(config: &ReceiverConfig) -> Receiver {
        Receiver {
            streams: Vec::new(),
            space: vec![0; config.read_bytes],
        }
    }

    /// A new connection.
    pub(super) fn accept(&mut self, end: u32) {
        self.streams.push(Stream {
            end,
            receiving: Receiving::new(CLOCK),
            is_over: false,
        });
    }

    /// An end has become readable or writable.
    pub(super) fn turn(&mut self, end: u32, sockets: &mut Sockets) -> Result<(), Nonsense> {
        // Streams are sorted by end, as they are accepted in that order.
        let place = self.streams.binary_search_by_key(&end, |stream| stream.end);
        let Some(stream) = place.ok().and_then(|place| self.streams.get_mut(place)) else {
            return Ok(());
        };
        let now = sockets.now();
        loop {
            let space = match stream.receiving.wants_input() {
                true => &mut self.space[..],
                false => &mut [],
            };
            let read = sockets.read(end, space);
            stream.receiving.take(&self.space[..read], now)?;
            let written = match stream.receiving.pending() {
                [] => 0,
                answers => sockets.write(end, answers),
            };
            stream.receiving.sent(written);
            if read == 0 && written == 0 {
                break;
            }
        }
        let has_answered = stream.receiving.pending().is_empty();
        if !stream.is_over && has_answered && sockets.has_ended(end) {
            stream.is_over = true;
            sockets.shut(end);
        }
        Ok(())
    }
}
