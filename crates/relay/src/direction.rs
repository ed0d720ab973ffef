//! One direction of a flow: bytes from one socket to the other, in order, with at most one copy in
//! user space.
//!
//! What comes is read into a piece of memory and written from there. Where a whole piece came at
//! once, the next bytes go through a pipe by splice(2) instead, which moves references to the
//! packets' memory and copies nothing (docs/internals/relay.md has what each costs). What the receiving side
//! does not take is held up to a bound, the pipe's bytes before those in pieces. Where the relay may
//! take no more memory it holds nothing: it looks at bytes without taking them from the socket, and
//! takes as many as the other side took.

use std::collections::VecDeque;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::pipe::{SpliceFlags, splice};

use crate::pool::{PIECE_BYTES, PIPE_BYTES, Piece, Pipe, Pool};
use crate::side::{Read, Side};

/// What one direction may move before others have their turn.
const TURN_BYTES: usize = 1 << 20;

/// A splice that moves less than this costs more than a read and a write.
const WORTH_SPLICING_BYTES: usize = 16 << 10;

/// How the bytes of a direction end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// With a FIN.
    Fin,
    /// With the loss of the connection that they came from.
    Lost,
}

/// One direction.
#[derive(Debug, Default)]
pub(crate) struct Direction {
    pipe: Option<Pipe>,
    pieces: VecDeque<Piece>,
    held_bytes: usize,
    held_bytes_max: usize,
    /// Whole pieces come at once.
    bulk: bool,
    end: Option<End>,
    /// The end was passed on, or the other side is gone.
    pub(crate) over: bool,
    /// Bytes that the receiving socket took since the flow began.
    pub(crate) moved_bytes: u64,
    /// Those of them that were spliced.
    pub(crate) spliced_bytes: u64,
}

/// What a turn ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing can be done until a socket becomes ready.
    Waits,
    /// There is more to do.
    Again,
    /// All bytes were passed on, and this is how they end.
    Ended(End),
}

impl Direction {
    /// What the relay itself holds, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The most that it held at once, in bytes.
    pub(crate) fn held_bytes_max(&self) -> usize {
        self.held_bytes_max
    }

    /// Moves what can be moved, and holds at most `limit_bytes`.
    pub(crate) fn pump(
        &mut self,
        from: &mut Side,
        to: &mut Side,
        pool: &mut Pool,
        limit_bytes: usize,
    ) -> Turn {
        let mut left = TURN_BYTES;
        let turn = loop {
            if to.lost.is_some() {
                break Turn::Waits;
            }
            if self.held_bytes > 0 && to.writable {
                self.write(to, pool);
                continue;
            }
            if self.held_bytes == 0
                && let Some(end) = self.end
            {
                break Turn::Ended(end);
            }
            if self.end.is_some() || !from.readable || !self.has_room(limit_bytes) {
                break Turn::Waits;
            }
            if left == 0 {
                break Turn::Again;
            }
            let read = self.read(from, to, pool, limit_bytes - self.held_bytes);
            if read == 0 && self.end.is_none() && from.readable {
                // Only the receiving side, or memory, can bring it further.
                break Turn::Waits;
            }
            left = left.saturating_sub(read);
        };
        self.put_back(pool);
        turn
    }

    /// Drops what is held: the receiving side is gone.
    pub(crate) fn cancel(&mut self, pool: &mut Pool) {
        if let Some(pipe) = self.pipe.take() {
            pool.put_pipe(pipe);
        }
        for piece in self.pieces.drain(..) {
            pool.put_piece(piece);
        }
        self.held_bytes = 0;
        self.over = true;
    }

    /// Whether more may be held. Behind a pipe that holds something bytes would have to be copied:
    /// that is done only where the flow may hold more than a pipe does.
    fn has_room(&self, limit_bytes: usize) -> bool {
        let piped = self.pipe.as_ref().is_some_and(|pipe| pipe.bytes > 0);
        self.held_bytes < limit_bytes && !(piped && limit_bytes <= PIPE_BYTES)
    }

    /// Gives memory back that holds nothing.
    fn put_back(&mut self, pool: &mut Pool) {
        if let Some(pipe) = self.pipe.take_if(|pipe| pipe.bytes == 0) {
            pool.put_pipe(pipe);
        }
    }

    fn hold(&mut self, bytes: usize) {
        self.held_bytes += bytes;
        self.held_bytes_max = self.held_bytes_max.max(self.held_bytes);
    }

    fn sent(&mut self, bytes: usize) {
        self.held_bytes -= bytes;
        self.moved_bytes += bytes as u64;
    }

    /// Writes the oldest bytes that are held.
    fn write(&mut self, to: &mut Side, pool: &mut Pool) {
        if let Some(pipe) = self.pipe.as_mut().filter(|pipe| pipe.bytes > 0) {
            let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
            match splice(&pipe.reader, None, &*to, None, pipe.bytes, flags) {
                // A pipe that holds something gives something.
                Ok(0) => to.cannot_write(Errno::IO),
                Ok(bytes) => {
                    pipe.bytes -= bytes;
                    self.spliced_bytes += bytes as u64;
                    self.sent(bytes);
                }
                Err(errno) => to.cannot_write(errno),
            }
            return;
        }
        let Some(piece) = self.pieces.front_mut() else {
            return;
        };
        let written = to.write(piece.filled(), SendFlags::empty());
        piece.consume(written);
        if piece.filled().is_empty()
            && let Some(piece) = self.pieces.pop_front()
        {
            pool.put_piece(piece);
        }
        self.sent(written);
    }

    /// Reads up to `room` bytes; how many came.
    fn read(&mut self, from: &mut Side, to: &mut Side, pool: &mut Pool, room: usize) -> usize {
        let straight = self.held_bytes == 0 && to.writable;
        if from.urgent && from.is_at_urgent_byte() {
            return if straight {
                self.pass_urgent_byte(from, to)
            } else {
                0
            };
        }
        if straight
            && self.bulk
            && !from.urgent
            && let Some(read) = self.splice(from, pool, room)
        {
            return read;
        }
        let has_space = |piece: &mut Piece| !piece.space().is_empty();
        if !self.pieces.back_mut().is_some_and(has_space) {
            match pool.piece() {
                Some(piece) => self.pieces.push_back(piece),
                None if straight => return self.pass_through(from, to, pool),
                None => return 0,
            }
        }
        let Some(piece) = self.pieces.back_mut() else {
            return 0;
        };
        let space = piece.space();
        let wanted = space.len().min(room);
        let read = from.read(&mut space[..wanted], RecvFlags::empty());
        if let Read::Bytes(bytes) = read {
            piece.fill(bytes);
        }
        let bytes = self.judge(read);
        self.bulk = bytes == PIECE_BYTES;
        self.hold(bytes);
        if piece_is_empty(self.pieces.back())
            && let Some(piece) = self.pieces.pop_back()
        {
            pool.put_piece(piece);
        }
        bytes
    }

    /// Moves up to `room` bytes into a pipe; `None` when they have to be read instead.
    fn splice(&mut self, from: &mut Side, pool: &mut Pool, room: usize) -> Option<usize> {
        if self.pipe.is_none() {
            self.pipe = pool.pipe();
        }
        let pipe = self.pipe.as_mut()?;
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        match splice(&*from, None, &pipe.writer, None, room, flags) {
            // The end, or something that only reading tells.
            Ok(0) => {
                self.bulk = false;
                None
            }
            Ok(bytes) => {
                pipe.bytes += bytes;
                self.bulk = bytes >= WORTH_SPLICING_BYTES;
                self.hold(bytes);
                Some(bytes)
            }
            Err(errno) => {
                let read = from.cannot_read(errno);
                Some(self.judge(read))
            }
        }
    }

    /// How many bytes came; an end is remembered.
    fn judge(&mut self, read: Read) -> usize {
        match read {
            Read::Bytes(bytes) => return bytes,
            Read::Nothing => {}
            Read::Fin => self.end = Some(End::Fin),
            Read::Lost => self.end = Some(End::Lost),
        }
        0
    }

    /// Passes bytes on without holding any: those that the other side did not take stay where they
    /// are.
    fn pass_through(&mut self, from: &mut Side, to: &mut Side, pool: &mut Pool) -> usize {
        let read = from.read(&mut pool.scratch, RecvFlags::PEEK);
        let seen = self.judge(read);
        if seen == 0 {
            return 0;
        }
        let sent = to.write(&pool.scratch[..seen], SendFlags::empty());
        if sent < seen {
            from.readable = true;
        }
        self.take(from, &mut pool.scratch[..sent]);
        sent
    }

    /// Passes the urgent byte on as such. Nothing is held, and the other side is writable.
    fn pass_urgent_byte(&mut self, from: &mut Side, to: &mut Side) -> usize {
        let mut byte = [0];
        let read = from.read(&mut byte, RecvFlags::PEEK);
        if self.judge(read) == 0 {
            return 0;
        }
        let sent = to.write(&byte, SendFlags::OOB);
        if sent == 1 {
            from.urgent = false;
            self.take(from, &mut byte);
        }
        sent
    }

    /// Takes bytes from a socket that were sent to the other one already: TCP discards them where
    /// they are (MSG_TRUNC of tcp(7)).
    fn take(&mut self, from: &mut Side, seen: &mut [u8]) {
        if seen.is_empty() {
            return;
        }
        let readable = from.readable;
        // They were there a moment ago, and nobody else reads: else what follows is not in order.
        if from.read(seen, RecvFlags::TRUNC) != Read::Bytes(seen.len()) {
            from.lost = Some(Errno::IO);
            self.end = Some(End::Lost);
        }
        from.readable = readable;
        self.moved_bytes += seen.len() as u64;
    }
}

fn piece_is_empty(piece: Option<&Piece>) -> bool {
    piece.is_some_and(|piece| piece.filled().is_empty())
}
