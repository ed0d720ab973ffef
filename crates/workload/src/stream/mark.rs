//! The wire protocol, as a pure state machine at each end. All numbers are big-endian.
//!
//! | from | what | bytes |
//! |---|---|---|
//! | sender, once | Hello | magic 8, distance of marks 4, 0 4, clock 24 |
//! | sender, in every N bytes of the stream | Mark, then filling | magic 8, number 8, time 8 |
//! | receiver, once | Welcome | magic 8, clock 24 |
//! | receiver, for every Mark | Echo | number 8, time of the Mark 8, time it was read 8 |
//!
//! Marks are numbered from 0. Times are ns of each end's CLOCK_MONOTONIC.

use wansan_trace::Instant;

use super::MARK_EVERY_BYTES;

const HELLO: [u8; 8] = *b"WSNSTRM1";
const WELCOME: [u8; 8] = *b"WSNWELC1";
const MARK: [u8; 8] = *b"WSNMARK1";

const CLOCK_BYTES: usize = 24;
/// Length of a stream's Hello.
pub(super) const HELLO_BYTES: usize = 16 + CLOCK_BYTES;
const WELCOME_BYTES: usize = 8 + CLOCK_BYTES;
/// Length of a mark in the stream.
pub(super) const MARK_BYTES: usize = 24;
const ECHO_BYTES: usize = 24;

/// A protocol violation by the peer; the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Nonsense {
    /// The stream does not begin with a Hello.
    #[error("not a stream of `wansan stream send`")]
    NoHello,
    /// The distance of marks is out of range.
    #[error("marks every {bytes} bytes are out of range")]
    Distance {
        /// The distance in bytes.
        bytes: u32,
    },
    /// A mark is missing at its position.
    #[error("mark {number} is missing")]
    NoMark {
        /// The mark's number.
        number: u64,
    },
    /// The answers do not begin with a Welcome.
    #[error("not an answer of `wansan stream receive`")]
    NoWelcome,
    /// An echo of another mark than the next one.
    #[error("echo of mark {said} received, mark {awaited} expected")]
    Echo {
        /// The mark echoed.
        said: u64,
        /// The mark expected.
        awaited: u64,
    },
}

/// The clock of a process. Two processes with the same clock can compare their times: they run on one kernel, in the
/// same time namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock(pub [u8; CLOCK_BYTES]);

/// The echo of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Echo {
    /// The mark's number.
    pub(super) number: u64,
    /// When the sender first offered it to its socket, by the sender's clock.
    pub(super) sent: Instant,
    /// When the receiver read it, by the receiver's clock.
    pub(super) received: Instant,
}

fn u64_at(bytes: &[u8], place: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[place..place + 8]);
    u64::from_be_bytes(number)
}

/// The Hello of a stream.
pub(super) fn hello(every_bytes: u32, clock: Clock) -> [u8; HELLO_BYTES] {
    let mut bytes = [0; HELLO_BYTES];
    bytes[..8].copy_from_slice(&HELLO);
    bytes[8..12].copy_from_slice(&every_bytes.to_be_bytes());
    bytes[16..].copy_from_slice(&clock.0);
    bytes
}

/// What a sender writes after its Hello: [`Outgoing::piece`] returns what comes next, and [`Outgoing::wrote`] takes how
/// much of it was written.
#[derive(Debug)]
pub(super) struct Outgoing {
    every_bytes: usize,
    /// Bytes since the last mark began.
    place: usize,
    /// The last mark begun.
    mark: [u8; MARK_BYTES],
    /// Marks begun.
    marks: u64,
    /// Bytes written.
    bytes: u64,
}

impl Outgoing {
    pub(super) fn new(every_bytes: u32) -> Outgoing {
        Outgoing {
            every_bytes: every_bytes as usize,
            place: 0,
            mark: [0; MARK_BYTES],
            marks: 0,
            bytes: 0,
        }
    }

    /// What to write next: part of a mark, or filling. A mark carries the time at which it was first offered, so that
    /// waiting for room in the socket counts.
    pub(super) fn piece<'a>(&'a mut self, filling: &'a [u8], now: Instant) -> &'a [u8] {
        if self.place == 0 && self.marks * self.every_bytes as u64 == self.bytes {
            self.mark[..8].copy_from_slice(&MARK);
            self.mark[8..16].copy_from_slice(&self.marks.to_be_bytes());
            self.mark[16..].copy_from_slice(&now.ns().to_be_bytes());
            self.marks += 1;
        }
        match self.mark.get(self.place..) {
            Some(rest) if !rest.is_empty() => rest,
            _ => &filling[..filling.len().min(self.every_bytes - self.place)],
        }
    }

    /// Advances by `bytes`, which were written.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.place = (self.place + bytes) % self.every_bytes;
        self.bytes += bytes as u64;
    }

    /// Bytes written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Marks begun.
    pub(super) fn marks(&self) -> u64 {
        self.marks
    }
}

/// A receiver's view of a stream: [`Incoming::take`] takes bytes and produces answers.
#[derive(Debug)]
pub(super) struct Incoming {
    clock: Clock,
    /// Distance of marks; 0 before the Hello is complete.
    every_bytes: usize,
    /// The received part of an incomplete Hello or mark.
    part: Vec<u8>,
    /// Bytes since the last mark began.
    place: usize,
    /// Complete marks.
    marks: u64,
}

impl Incoming {
    pub(super) fn new(clock: Clock) -> Incoming {
        Incoming {
            clock,
            every_bytes: 0,
            part: Vec::with_capacity(HELLO_BYTES),
            place: 0,
            marks: 0,
        }
    }

    /// Processes what was read at `now`, and appends the answers to `out`.
    pub(super) fn take(
        &mut self,
        mut bytes: &[u8],
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Result<(), Nonsense> {
        while !bytes.is_empty() {
            if self.every_bytes == 0 {
                let whole = self.gather(&mut bytes, HELLO_BYTES);
                let shown = self.part.len().min(HELLO.len());
                if self.part[..shown] != HELLO[..shown] {
                    return Err(Nonsense::NoHello);
                }
                if whole {
                    self.begin(out)?;
                }
            } else if self.place < MARK_BYTES {
                let before = bytes.len();
                let whole = self.gather(&mut bytes, MARK_BYTES);
                self.place += before - bytes.len();
                if whole {
                    self.echo(now, out)?;
                }
            } else {
                let filling = bytes.len().min(self.every_bytes - self.place);
                self.place = (self.place + filling) % self.every_bytes;
                bytes = &bytes[filling..];
            }
        }
        Ok(())
    }

    /// Whether the Hello is complete.
    pub(super) fn has_begun(&self) -> bool {
        self.every_bytes > 0
    }

    /// Complete marks.
    pub(super) fn marks(&self) -> u64 {
        self.marks
    }

    /// Takes bytes until `part` has `wanted` of them; returns whether it has.
    fn gather(&mut self, bytes: &mut &[u8], wanted: usize) -> bool {
        let (taken, rest) = bytes.split_at(bytes.len().min(wanted - self.part.len()));
        self.part.extend_from_slice(taken);
        *bytes = rest;
        self.part.len() == wanted
    }

    fn begin(&mut self, out: &mut Vec<u8>) -> Result<(), Nonsense> {
        let every_bytes = (u64_at(&self.part, 8) >> 32) as u32;
        let (least, most) = MARK_EVERY_BYTES;
        if !(least..=most).contains(&every_bytes) {
            return Err(Nonsense::Distance { bytes: every_bytes });
        }
        self.every_bytes = every_bytes as usize;
        self.part.clear();
        out.extend_from_slice(&WELCOME);
        out.extend_from_slice(&self.clock.0);
        Ok(())
    }

    fn echo(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<(), Nonsense> {
        let number = self.marks;
        if self.part[..8] != MARK || u64_at(&self.part, 8) != number {
            return Err(Nonsense::NoMark { number });
        }
        out.extend_from_slice(&self.part[8..]);
        out.extend_from_slice(&now.ns().to_be_bytes());
        self.part.clear();
        self.marks += 1;
        Ok(())
    }
}

/// A sender's view of the answers.
#[derive(Debug, Default)]
pub(super) struct Answers {
    part: Vec<u8>,
    clock: Option<Clock>,
    echoes: u64,
}

impl Answers {
    /// Processes what was read, and passes each echo on with the receiver's clock. `marks` is the number of marks
    /// begun.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        marks: u64,
        mut echo: impl FnMut(Echo, Clock),
    ) -> Result<(), Nonsense> {
        self.part.extend_from_slice(bytes);
        let mut rest = &self.part[..];
        let clock = match self.clock {
            Some(clock) => clock,
            None => {
                let shown = rest.len().min(WELCOME.len());
                if rest[..shown] != WELCOME[..shown] {
                    return Err(Nonsense::NoWelcome);
                }
                let Some((welcome, after)) = rest.split_at_checked(WELCOME_BYTES) else {
                    return Ok(());
                };
                let mut clock = [0; CLOCK_BYTES];
                clock.copy_from_slice(&welcome[8..]);
                rest = after;
                *self.clock.insert(Clock(clock))
            }
        };
        while let Some((one, after)) = rest.split_at_checked(ECHO_BYTES) {
            let number = u64_at(one, 0);
            if number != self.echoes || number >= marks {
                return Err(Nonsense::Echo {
                    said: number,
                    awaited: self.echoes,
                });
            }
            self.echoes += 1;
            let found = Echo {
                number,
                sent: Instant::from_ns(u64_at(one, 8)),
                received: Instant::from_ns(u64_at(one, 16)),
            };
            echo(found, clock);
            rest = after;
        }
        let left = rest.len();
        self.part.drain(..self.part.len() - left);
        Ok(())
    }

    /// The receiver's clock, once its Welcome has arrived.
    pub(super) fn clock(&self) -> Option<Clock> {
        self.clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Clock = Clock([7; CLOCK_BYTES]);

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    /// Everything that a sender writes of a stream of `bytes`; mark n has time 100 n.
    fn stream(every_bytes: u32, bytes: u64, piece: usize) -> Vec<u8> {
        let filling = vec![0xa5; piece];
        let mut outgoing = Outgoing::new(every_bytes);
        let mut written = hello(every_bytes, HERE).to_vec();
        while outgoing.bytes() < bytes {
            let now = at(outgoing.bytes() / u64::from(every_bytes) * 100);
            let next = outgoing.piece(&filling, now);
            // A socket that takes only part of what it is offered.
            let taken = next.len().div_ceil(2);
            written.extend_from_slice(&next[..taken]);
            outgoing.wrote(taken);
        }
        written
    }

    fn echoes(answers: &[u8], marks: u64) -> Result<Vec<Echo>, Nonsense> {
        let mut found = Vec::new();
        let mut machine = Answers::default();
        for piece in answers.chunks(5) {
            machine.take(piece, marks, |echo, _| found.push(echo))?;
        }
        assert_eq!(machine.clock(), Some(HERE));
        Ok(found)
    }

    #[test]
    fn every_mark_comes_back_however_the_stream_is_cut() {
        let written = stream(1024, 10_240, 700);
        for cut in [1, 7, 23, 24, 1000, 4096, written.len()] {
            let mut incoming = Incoming::new(HERE);
            let mut out = Vec::new();
            for (number, piece) in written.chunks(cut).enumerate() {
                incoming.take(piece, at(number as u64), &mut out).unwrap();
            }
            assert_eq!(incoming.marks(), 10, "{cut}");
            let echoes = echoes(&out, 10).unwrap();
            let sent: Vec<u64> = echoes.iter().map(|echo| echo.sent.ns()).collect();
            assert_eq!(sent, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
            assert!(echoes.iter().map(|echo| echo.number).eq(0..10));
            assert!(echoes.is_sorted_by_key(|echo| echo.received));
        }
    }

    #[test]
    fn a_mark_keeps_the_time_at_which_it_was_first_offered() {
        let mut outgoing = Outgoing::new(1024);
        outgoing.piece(&[], at(5));
        // The socket takes nothing at first; later it takes a part, and then the rest.
        let first = outgoing.piece(&[], at(900))[..10].to_vec();
        outgoing.wrote(10);
        let whole = [&first[..], outgoing.piece(&[], at(1000))].concat();
        assert_eq!((u64_at(&whole, 8), u64_at(&whole, 16)), (0, 5));
        assert_eq!(outgoing.marks(), 1);
    }

    #[test]
    fn streams_that_are_none_are_refused() {
        let refused = |bytes: &[u8]| {
            let mut incoming = Incoming::new(HERE);
            incoming.take(bytes, at(0), &mut Vec::new()).unwrap_err()
        };
        assert_eq!(refused(b"GET"), Nonsense::NoHello);
        for bytes in [0, 1023, (1 << 30) + 1, u32::MAX] {
            assert_eq!(refused(&hello(bytes, HERE)), Nonsense::Distance { bytes });
        }
        let mut moved = stream(1024, 4096, 700);
        moved.remove(HELLO_BYTES + 1500);
        assert_eq!(refused(&moved), Nonsense::NoMark { number: 2 });
    }

    #[test]
    fn answers_that_are_none_are_refused() {
        let written = stream(1024, 4096, 700);
        let mut out = Vec::new();
        let mut incoming = Incoming::new(HERE);
        incoming.take(&written, at(9), &mut out).unwrap();
        assert_eq!(echoes(&out, 4).unwrap().len(), 4);
        // An echo of a mark that was never sent, and a duplicate echo.
        let early = Nonsense::Echo {
            said: 3,
            awaited: 3,
        };
        assert_eq!(echoes(&out, 3), Err(early));
        let twice = [&out[..], &out[WELCOME_BYTES..]].concat();
        let again = Nonsense::Echo {
            said: 0,
            awaited: 4,
        };
        assert_eq!(echoes(&twice, 4), Err(again));
        let mut answers = Answers::default();
        let http = answers.take(b"HTTP/1.1 400", 0, |_, _| {});
        assert_eq!(http, Err(Nonsense::NoWelcome));
    }
}
