//! One direction of a flow over sockets: forwards bytes with at most one copy in user space.
//!
//! Data is read into a piece of memory and written from there. Where a whole piece arrived at once, the next bytes go
//! through a pipe by splice(2) instead, which moves references to the packets' memory and copies nothing
//! (docs/internals/relay.md has the cost of each). Bytes that the receiving side does not accept are held up to a
//! limit, the pipe's before those in pieces. Where the relay's memory is used up it holds nothing: it peeks at bytes,
//! and consumes from the socket as many as the other side accepted.

use std::collections::VecDeque;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::pipe::{SpliceFlags, splice};
use wansan_split::{Carrier, End, Taken, Turn};

use crate::pool::{PIECE_BYTES, PIPE_BYTES, Piece, Pipe, Pool};
use crate::side::{Read, Side};

/// A splice of fewer bytes costs more than a read and a write.
const WORTH_SPLICING_BYTES: usize = 16 << 10;

/// One direction.
#[derive(Debug, Default)]
pub(crate) struct Direction {
    /// Bytes moved and held, and whether it has ended.
    pub(crate) state: wansan_split::Direction,
    held: Held,
}

/// What the direction holds, and how.
#[derive(Debug, Default)]
struct Held {
    pipe: Option<Pipe>,
    pieces: VecDeque<Piece>,
    /// Whole pieces arrive at once.
    bulk: bool,
    /// Bytes spliced to the receiving socket.
    spliced_bytes: u64,
}

/// A direction's turn: its held bytes and its sockets.
struct Way<'a> {
    held: &'a mut Held,
    from: &'a mut Side,
    to: &'a mut Side,
    pool: &'a mut Pool,
}

impl Direction {
    /// Bytes spliced to the receiving socket since the flow began.
    pub(crate) fn spliced_bytes(&self) -> u64 {
        self.held.spliced_bytes
    }

    /// Moves as many bytes as possible, and holds at most `limit_bytes`.
    pub(crate) fn pump(
        &mut self,
        from: &mut Side,
        to: &mut Side,
        pool: &mut Pool,
        limit_bytes: usize,
    ) -> Turn {
        let mut way = Way {
            held: &mut self.held,
            from,
            to,
            pool,
        };
        let turn = self.state.pump(&mut way, limit_bytes);
        self.held.put_back(pool);
        turn
    }

    /// Drops held bytes: the receiving side is gone.
    pub(crate) fn cancel(&mut self, pool: &mut Pool) {
        self.state.cancel();
        if let Some(pipe) = self.held.pipe.take() {
            pool.put_pipe(pipe);
        }
        for piece in self.held.pieces.drain(..) {
            pool.put_piece(piece);
        }
    }
}

impl Held {
    /// Returns unused memory to the pool.
    fn put_back(&mut self, pool: &mut Pool) {
        if let Some(pipe) = self.pipe.take_if(|pipe| pipe.bytes == 0) {
            pool.put_pipe(pipe);
        }
    }
}

impl Carrier for Way<'_> {
    fn is_lost(&self) -> bool {
        self.to.lost.is_some()
    }

    fn is_readable(&self) -> bool {
        self.from.readable
    }

    fn is_writable(&self) -> bool {
        self.to.writable
    }

    /// Bytes behind a non-empty pipe have to be copied: only where the flow may hold more than a pipe does.
    fn has_room(&self, limit_bytes: usize) -> bool {
        let is_piped = self.held.pipe.as_ref().is_some_and(|pipe| pipe.bytes > 0);
        !(is_piped && limit_bytes <= PIPE_BYTES)
    }

    fn write(&mut self) -> usize {
        if let Some(pipe) = self.held.pipe.as_mut().filter(|pipe| pipe.bytes > 0) {
            let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
            match splice(&pipe.reader, None, &*self.to, None, pipe.bytes, flags) {
                // A non-empty pipe always returns data.
                Ok(0) => self.to.cannot_write(Errno::IO),
                Ok(bytes) => {
                    pipe.bytes -= bytes;
                    self.held.spliced_bytes += bytes as u64;
                    return bytes;
                }
                Err(errno) => self.to.cannot_write(errno),
            }
            return 0;
        }
        let Some(piece) = self.held.pieces.front_mut() else {
            return 0;
        };
        // The last data go in one segment with the FIN behind them, which pushes them out.
        let flags = match self.from.fin {
            true => SendFlags::MORE,
            false => SendFlags::empty(),
        };
        let written = self.to.write(piece.filled(), flags);
        piece.consume(written);
        if piece.filled().is_empty()
            && let Some(piece) = self.held.pieces.pop_front()
        {
            self.pool.put_piece(piece);
        }
        written
    }

    fn read(&mut self, room: usize, held_bytes: usize) -> Taken {
        let straight = held_bytes == 0 && self.to.writable;
        if self.from.urgent && self.from.is_at_urgent_byte() {
            return match straight {
                true => self.pass_urgent_byte(),
                false => Taken::default(),
            };
        }
        if straight
            && self.held.bulk
            && !self.from.urgent
            && let Some(taken) = self.splice(room)
        {
            return taken;
        }
        let has_space = |piece: &mut Piece| !piece.space().is_empty();
        if !self.held.pieces.back_mut().is_some_and(has_space) {
            match self.pool.piece() {
                Some(piece) => self.held.pieces.push_back(piece),
                None if straight => return self.pass_through(),
                None => return Taken::default(),
            }
        }
        let Some(piece) = self.held.pieces.back_mut() else {
            return Taken::default();
        };
        let space = piece.space();
        let wanted = space.len().min(room);
        let read = self.from.read(&mut space[..wanted], RecvFlags::empty());
        if let Read::Bytes(bytes) = read {
            piece.fill(bytes);
        }
        let taken = held(read);
        self.held.bulk = taken.held_bytes == PIECE_BYTES;
        if piece_is_empty(self.held.pieces.back())
            && let Some(piece) = self.held.pieces.pop_back()
        {
            self.pool.put_piece(piece);
        }
        taken
    }
}

impl Way<'_> {
    /// Moves up to `room` bytes into a pipe; `None` when they have to be read instead.
    fn splice(&mut self, room: usize) -> Option<Taken> {
        if self.held.pipe.is_none() {
            self.held.pipe = self.pool.pipe();
        }
        let pipe = self.held.pipe.as_mut()?;
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        match splice(&*self.from, None, &pipe.writer, None, room, flags) {
            // End of file, or a condition that only a read reports.
            Ok(0) => {
                self.held.bulk = false;
                None
            }
            Ok(bytes) => {
                pipe.bytes += bytes;
                self.held.bulk = bytes >= WORTH_SPLICING_BYTES;
                Some(held(Read::Bytes(bytes)))
            }
            Err(errno) => Some(held(self.from.cannot_read(errno))),
        }
    }

    /// Forwards bytes without holding any: bytes that the other side did not accept stay in the socket.
    fn pass_through(&mut self) -> Taken {
        let read = self.from.read(&mut self.pool.scratch, RecvFlags::PEEK);
        let Read::Bytes(seen) = read else {
            return held(read);
        };
        let sent = self
            .to
            .write(&self.pool.scratch[..seen], SendFlags::empty());
        if sent < seen {
            self.from.readable = true;
        }
        passed(self.from, &mut self.pool.scratch[..sent])
    }

    /// Forwards the urgent byte as urgent. Nothing is held, and the other side is writable.
    fn pass_urgent_byte(&mut self) -> Taken {
        let mut byte = [0];
        let read = self.from.read(&mut byte, RecvFlags::PEEK);
        if !matches!(read, Read::Bytes(_)) {
            return held(read);
        }
        match self.to.write(&byte, SendFlags::OOB) {
            0 => Taken::default(),
            _ => {
                self.from.urgent = false;
                passed(self.from, &mut byte)
            }
        }
    }
}

/// Holds bytes read.
fn held(read: Read) -> Taken {
    let (held_bytes, end) = match read {
        Read::Bytes(bytes) => (bytes, None),
        Read::Nothing => (0, None),
        Read::Fin => (0, Some(End::Fin)),
        Read::Lost => (0, Some(End::Lost)),
    };
    Taken {
        held_bytes,
        end,
        ..Taken::default()
    }
}

/// Consumes bytes that were already sent to the other side: TCP discards them in the socket (MSG_TRUNC of tcp(7)).
fn passed(from: &mut Side, seen: &mut [u8]) -> Taken {
    if seen.is_empty() {
        return Taken::default();
    }
    let readable = from.readable;
    // They were there a moment ago, and nobody else reads: otherwise the stream is out of order.
    let is_in_order = from.read(seen, RecvFlags::TRUNC) == Read::Bytes(seen.len());
    if !is_in_order {
        from.lost = Some(Errno::IO);
    }
    from.readable = readable;
    Taken {
        passed_bytes: seen.len(),
        end: (!is_in_order).then_some(End::Lost),
        ..Taken::default()
    }
}

fn piece_is_empty(piece: Option<&Piece>) -> bool {
    piece.is_some_and(|piece| piece.filled().is_empty())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::sync::Arc;

    use wansan_server::Ready;

    use super::*;
    use crate::pool::Budget;

    /// Both ends of a connection: the peer's, and ours, ready for everything.
    fn connection(ending: bool) -> (TcpStream, Side) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut side = Side::new(listener.accept().unwrap().0.into());
        side.note(Ready {
            source: 0,
            read: true,
            write: true,
            urgent: false,
            ending,
            gone: false,
            failed: false,
        });
        (peer, side)
    }

    /// Whether the last byte waits for the FIN behind it, instead of taking a segment of its own.
    fn last_byte_waits() -> bool {
        let (mut client, mut from) = connection(true);
        let (mut to, mut target) = {
            let (peer, side) = connection(false);
            (side, peer)
        };
        client.write_all(b"x").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut pool = Pool::new(Arc::new(Budget::new(1 << 20)));
        let mut direction = Direction::default();
        loop {
            match direction.pump(&mut from, &mut to, &mut pool, 1 << 20) {
                Turn::Ended(end) => break assert_eq!(end, End::Fin),
                Turn::Again => {}
                // Loopback may still carry it.
                Turn::Waits => from.readable = true,
            }
        }
        target.set_nonblocking(true).unwrap();
        let waits = target.peek(&mut [0]).is_err();
        target.set_nonblocking(false).unwrap();
        to.finish();
        let mut all = Vec::new();
        target.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"x");
        waits
    }

    #[test]
    fn the_last_data_go_in_one_segment_with_the_fin() {
        // The kernel sends it by itself after 200 ms, which a busy machine may take.
        assert!((0..10).any(|_| last_byte_waits()));
    }
}
