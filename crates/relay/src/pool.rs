//! Memory for held bytes: fixed-size pieces and pipes, in one budget.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use crate::mapping::Mapping;

/// Bytes of one piece.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// Requested capacity of a pipe. It is a number of pages, so the pipe holds less where packets do not fill them.
pub(crate) const PIPE_BYTES: usize = 256 << 10;

/// The most pieces, and pipes, that a thread keeps for reuse: forwarding allocates nothing while flows hold no more
/// than before.
const KEPT: usize = 16;

/// The limit of all threads together.
#[derive(Debug)]
pub(crate) struct Budget {
    limit_bytes: usize,
    taken_bytes: AtomicUsize,
    most_bytes: AtomicUsize,
    /// Number of refusals.
    refusals: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(limit_bytes: usize) -> Budget {
        Budget {
            limit_bytes,
            taken_bytes: AtomicUsize::new(0),
            most_bytes: AtomicUsize::new(0),
            refusals: AtomicUsize::new(0),
        }
    }

    fn take(&self, bytes: usize) -> bool {
        // The counters guard no other data.
        let before = self.taken_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > self.limit_bytes {
            self.taken_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.refusals.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.most_bytes.fetch_max(before + bytes, Ordering::Relaxed);
        true
    }

    fn give(&self, bytes: usize) {
        self.taken_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes in use.
    pub(crate) fn taken_bytes(&self) -> usize {
        self.taken_bytes.load(Ordering::Relaxed)
    }

    /// High-water mark, in bytes.
    pub(crate) fn most_bytes(&self) -> usize {
        self.most_bytes.load(Ordering::Relaxed)
    }

    /// Number of refusals.
    pub(crate) fn refusals(&self) -> usize {
        self.refusals.load(Ordering::Relaxed)
    }
}

/// A piece of memory and the unsent bytes in it.
#[derive(Debug)]
pub(crate) struct Piece {
    bytes: Mapping<PIECE_BYTES>,
    from: usize,
    to: usize,
}

impl Piece {
    /// The unsent bytes.
    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    /// The room after them.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        &mut self.bytes[self.to..]
    }

    /// Adds `bytes` written to the room.
    pub(crate) fn fill(&mut self, bytes: usize) {
        self.to += bytes;
    }

    /// Removes `bytes` that were sent.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.from += bytes;
    }
}

/// A pipe and the number of bytes in it.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) reader: OwnedFd,
    pub(crate) writer: OwnedFd,
    pub(crate) bytes: usize,
}

/// Items kept for reuse.
#[derive(Debug)]
struct Kept<T> {
    things: Vec<T>,
    /// The fewest since the last tidy-up: these were not needed.
    idle: usize,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Kept {
            things: Vec::new(),
            idle: 0,
        }
    }
}

impl<T> Kept<T> {
    fn take(&mut self) -> Option<T> {
        let thing = self.things.pop()?;
        self.idle = self.idle.min(self.things.len());
        Some(thing)
    }

    /// Keeps an item, if there is room.
    fn put(&mut self, thing: T) -> bool {
        let has_room = self.things.len() < KEPT;
        if has_room {
            self.things.push(thing);
        }
        has_room
    }

    /// Drops the items not used since the last call; returns their number.
    fn tidy_up(&mut self) -> usize {
        let idle = self.idle;
        self.things.truncate(self.things.len() - idle);
        self.idle = self.things.len();
        idle
    }
}

/// A thread's memory.
#[derive(Debug)]
pub(crate) struct Pool {
    budget: Arc<Budget>,
    pieces: Kept<Mapping<PIECE_BYTES>>,
    pipes: Kept<Pipe>,
    /// Buffer for bytes that are not held.
    pub(crate) scratch: Box<[u8]>,
}

impl Pool {
    pub(crate) fn new(budget: Arc<Budget>) -> Pool {
        Pool {
            budget,
            pieces: Kept::default(),
            pipes: Kept::default(),
            scratch: vec![0; PIECE_BYTES].into(),
        }
    }

    /// An empty piece; `None` when the budget is used up, or the system is out of memory.
    pub(crate) fn piece(&mut self) -> Option<Piece> {
        let bytes = self.pieces.take().or_else(|| self.new_piece())?;
        Some(Piece {
            bytes,
            from: 0,
            to: 0,
        })
    }

    fn new_piece(&self) -> Option<Mapping<PIECE_BYTES>> {
        if !self.budget.take(PIECE_BYTES) {
            return None;
        }
        let mapping = Mapping::new();
        if mapping.is_none() {
            self.budget.give(PIECE_BYTES);
        }
        mapping
    }

    /// Returns a piece.
    pub(crate) fn put_piece(&mut self, piece: Piece) {
        if !self.pieces.put(piece.bytes) {
            self.budget.give(PIECE_BYTES);
        }
    }

    /// An empty pipe; `None` when the budget is used up, or the system denies one.
    pub(crate) fn pipe(&mut self) -> Option<Pipe> {
        if let Some(pipe) = self.pipes.take() {
            return Some(pipe);
        }
        if !self.budget.take(PIPE_BYTES) {
            return None;
        }
        match new_pipe() {
            Ok(pipe) => Some(pipe),
            Err(_) => {
                self.budget.give(PIPE_BYTES);
                None
            }
        }
    }

    /// Returns a pipe; closes it if it is not empty.
    pub(crate) fn put_pipe(&mut self, pipe: Pipe) {
        if pipe.bytes > 0 || !self.pipes.put(pipe) {
            self.budget.give(PIPE_BYTES);
        }
    }

    /// Frees what was kept and not needed since the last call.
    pub(crate) fn tidy_up(&mut self) {
        let pieces = self.pieces.tidy_up() * PIECE_BYTES;
        self.budget.give(pieces + self.pipes.tidy_up() * PIPE_BYTES);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let pieces = self.pieces.things.len() * PIECE_BYTES;
        self.budget
            .give(pieces + self.pipes.things.len() * PIPE_BYTES);
    }
}

fn new_pipe() -> io::Result<Pipe> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    // A user's pipes have a common limit (fs.pipe-user-pages-soft): a smaller pipe will do.
    let _ = fcntl_setpipe_size(&writer, PIPE_BYTES);
    Ok(Pipe {
        reader,
        writer,
        bytes: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_kept_and_given_back() {
        let budget = Arc::new(Budget::new(3 * PIECE_BYTES));
        let mut pool = Pool::new(Arc::clone(&budget));
        let pieces: Vec<Piece> = (0..3).map_while(|_| pool.piece()).collect();
        assert_eq!(pieces.len(), 3);
        assert!(pool.piece().is_none() && pool.pipe().is_none());
        assert_eq!(budget.refusals(), 2);
        pieces.into_iter().for_each(|piece| pool.put_piece(piece));
        // A kept piece is reused without a new allocation.
        assert!(pool.piece().is_some_and(|piece| piece.filled().is_empty()));
        drop(pool);
        assert_eq!(
            budget.taken_bytes(),
            PIECE_BYTES,
            "the one that was not put back"
        );
        assert_eq!(budget.most_bytes(), 3 * PIECE_BYTES);
    }

    #[test]
    fn what_nobody_needs_is_given_back() {
        let budget = Arc::new(Budget::new(1 << 30));
        let mut pool = Pool::new(Arc::clone(&budget));
        let burst: Vec<Piece> = (0..100).map_while(|_| pool.piece()).collect();
        burst.into_iter().for_each(|piece| pool.put_piece(piece));
        let pipe = pool.pipe().unwrap();
        pool.put_pipe(pipe);
        let kept_bytes = KEPT * PIECE_BYTES + PIPE_BYTES;
        assert_eq!(budget.taken_bytes(), kept_bytes);
        // It was needed a moment ago.
        pool.tidy_up();
        assert_eq!(budget.taken_bytes(), kept_bytes);
        // One is in use now and then.
        for _ in 0..3 {
            let piece = pool.piece().unwrap();
            pool.put_piece(piece);
            pool.tidy_up();
            assert_eq!(budget.taken_bytes(), PIECE_BYTES);
        }
        pool.tidy_up();
        assert_eq!(budget.taken_bytes(), 0);
    }

    #[test]
    fn a_piece_gives_what_was_put_in() {
        let budget = Arc::new(Budget::new(PIECE_BYTES));
        let mut pool = Pool::new(budget);
        let mut piece = pool.piece().unwrap();
        piece.space()[..3].copy_from_slice(b"abc");
        piece.fill(3);
        piece.consume(1);
        assert_eq!(piece.filled(), b"bc");
        assert_eq!(piece.space().len(), PIECE_BYTES - 3);
    }
}
