//! One direction of a flow: which bytes are read, held and written, in order, and how the stream ends.

/// Bytes that one direction may read per turn before others run.
const TURN_BYTES: usize = 64 << 10;

/// How the byte stream of a direction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With a FIN.
    Fin,
    /// With the loss of the sending connection.
    Lost,
}

/// Result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Taken {
    /// Bytes read and now held.
    pub held_bytes: usize,
    /// Bytes written at once, without being held.
    pub passed_bytes: usize,
    /// How the stream ends, if it ended.
    pub end: Option<End>,
}

/// The sockets at both ends of a direction, and the memory between.
pub trait Carrier {
    /// Whether the receiving connection is lost.
    fn is_lost(&self) -> bool;
    /// Whether a read may return data.
    fn is_readable(&self) -> bool;
    /// Whether the receiving socket may accept data.
    fn is_writable(&self) -> bool;
    /// Whether more may be held, up to `limit_bytes` in all.
    fn has_room(&self, limit_bytes: usize) -> bool;
    /// Writes the oldest held bytes; returns how many.
    fn write(&mut self) -> usize;
    /// Reads up to `room` bytes when `held_bytes` are held.
    fn read(&mut self, room: usize, held_bytes: usize) -> Taken;
}

/// One direction of a flow.
#[derive(Debug, Default)]
pub struct Direction {
    held_bytes: usize,
    held_bytes_max: usize,
    moved_bytes: u64,
    end: Option<End>,
    is_over: bool,
}

/// Result of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Nothing to do until a socket becomes ready.
    Waits,
    /// There is more to do.
    Again,
    /// All bytes were passed on, and the stream ended this way.
    Ended(End),
}

impl Direction {
    /// Bytes held by the relay itself.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The maximum held at once, in bytes.
    #[must_use]
    pub fn held_bytes_max(&self) -> usize {
        self.held_bytes_max
    }

    /// Bytes written to the receiving socket since the flow began.
    #[must_use]
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes
    }

    /// Whether the end was passed on or the receiving side is gone.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Records that the end was passed on.
    pub fn finish(&mut self) {
        self.is_over = true;
    }

    /// Records that held bytes were dropped because the receiving side is gone.
    pub fn cancel(&mut self) {
        self.held_bytes = 0;
        self.is_over = true;
    }

    /// Moves what can be moved, holding at most `limit_bytes`.
    pub fn pump(&mut self, carrier: &mut impl Carrier, limit_bytes: usize) -> Turn {
        let mut left = TURN_BYTES;
        loop {
            if carrier.is_lost() {
                return Turn::Waits;
            }
            if self.held_bytes > 0 && carrier.is_writable() {
                let written = carrier.write();
                self.held_bytes -= written;
                self.moved_bytes += written as u64;
                continue;
            }
            if self.held_bytes == 0
                && let Some(end) = self.end
            {
                return Turn::Ended(end);
            }
            let has_room = self.held_bytes < limit_bytes && carrier.has_room(limit_bytes);
            if self.end.is_some() || !carrier.is_readable() || !has_room {
                return Turn::Waits;
            }
            if left == 0 {
                return Turn::Again;
            }
            let taken = carrier.read(limit_bytes - self.held_bytes, self.held_bytes);
            self.held_bytes += taken.held_bytes;
            self.held_bytes_max = self.held_bytes_max.max(self.held_bytes);
            self.moved_bytes += taken.passed_bytes as u64;
            self.end = taken.end;
            let read = taken.held_bytes + taken.passed_bytes;
            if read == 0 && self.end.is_none() && carrier.is_readable() {
                // Only the receiving side or freed memory can help.
                return Turn::Waits;
            }
            left = left.saturating_sub(read);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sockets with the given bytes to read and room to write.
    #[derive(Debug, Default)]
    struct Sockets {
        readable: usize,
        room: usize,
        held: usize,
        end: Option<End>,
        is_lost: bool,
    }

    impl Carrier for Sockets {
        fn is_lost(&self) -> bool {
            self.is_lost
        }
        fn is_readable(&self) -> bool {
            self.readable > 0 || self.end.is_some()
        }
        fn is_writable(&self) -> bool {
            self.room > 0
        }
        fn has_room(&self, _: usize) -> bool {
            true
        }
        fn write(&mut self) -> usize {
            let bytes = self.held.min(self.room);
            self.held -= bytes;
            self.room -= bytes;
            bytes
        }
        fn read(&mut self, room: usize, held_bytes: usize) -> Taken {
            assert_eq!(held_bytes, self.held);
            let bytes = room.min(self.readable);
            self.readable -= bytes;
            self.held += bytes;
            Taken {
                held_bytes: bytes,
                passed_bytes: 0,
                end: if bytes == 0 { self.end } else { None },
            }
        }
    }

    #[test]
    fn no_more_is_held_than_may_be_and_the_end_comes_last() {
        let mut direction = Direction::default();
        let mut sockets = Sockets {
            readable: 1000,
            room: 300,
            end: Some(End::Fin),
            ..Sockets::default()
        };
        assert_eq!(direction.pump(&mut sockets, 200), Turn::Waits);
        assert_eq!(
            (direction.moved_bytes(), direction.held_bytes()),
            (300, 200)
        );
        assert_eq!(sockets.readable, 500);
        sockets.room = 10_000;
        assert_eq!(direction.pump(&mut sockets, 200), Turn::Ended(End::Fin));
        assert_eq!(direction.moved_bytes(), 1000);
        assert_eq!(direction.held_bytes_max(), 200);
    }

    #[test]
    fn a_turn_ends_although_there_is_more() {
        let mut direction = Direction::default();
        let mut sockets = Sockets {
            readable: 3 * TURN_BYTES,
            room: usize::MAX,
            ..Sockets::default()
        };
        let limit = TURN_BYTES / 4;
        assert_eq!(direction.pump(&mut sockets, limit), Turn::Again);
        assert_eq!(direction.moved_bytes(), TURN_BYTES as u64);
    }

    #[test]
    fn nothing_moves_to_a_side_that_is_lost() {
        let mut direction = Direction::default();
        let mut sockets = Sockets {
            readable: 10,
            is_lost: true,
            ..Sockets::default()
        };
        assert_eq!(direction.pump(&mut sockets, 200), Turn::Waits);
        direction.cancel();
        assert!(direction.is_over() && direction.moved_bytes() == 0);
    }
}
