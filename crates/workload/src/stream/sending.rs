//! A stream at its sender.

use std::time::Duration;

use wansan_schema::FlowReport;
use wansan_trace::Instant;

use super::mark::{Answers, Clock, HELLO_BYTES, MARK_BYTES, Nonsense, Outgoing, hello};
use super::tally::Tally;

/// Maximum bytes offered to a socket at once.
pub const PIECE_BYTES: usize = 64 << 10;

/// A sender's view of one stream.
///
/// The driver writes [`hello`](Self::hello), and waits until the receiver [has answered](Self::is_answered). Once the
/// stream is [released](Self::release), it writes what [`next`](Self::next) returns, reports it to
/// [`wrote`](Self::wrote), and passes everything read to [`take`](Self::take).
#[derive(Debug)]
pub struct Sending {
    every_bytes: u32,
    here: Clock,
    outgoing: Outgoing,
    answers: Answers,
    /// Rate limit in bytes per second, and the time from which it counts.
    pace: Option<(f64, Instant)>,
    /// Total bytes to send.
    most_bytes: u64,
    pub(super) tally: Tally,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// Write this.
    Piece {
        /// The bytes to write.
        bytes: &'a [u8],
        /// Whether to send it together with what follows, as for a mark (MSG_MORE).
        has_more: bool,
    },
    /// Wait until the stream is [due](Sending::due).
    Waits,
    /// Nothing: everything was written.
    Finished,
}

impl Sending {
    /// A stream with a mark every `every_bytes`, within [`MARK_EVERY_BYTES`](super::MARK_EVERY_BYTES), of a sender with
    /// the clock `here`.
    #[must_use]
    pub fn new(every_bytes: u32, here: Clock) -> Sending {
        Sending {
            every_bytes,
            here,
            outgoing: Outgoing::new(every_bytes),
            answers: Answers::default(),
            pace: None,
            most_bytes: u64::MAX,
            tally: Tally::new((Instant::ZERO, Instant::ZERO)),
        }
    }

    /// What to write first.
    #[must_use]
    pub fn hello(&self) -> [u8; HELLO_BYTES] {
        hello(self.every_bytes, self.here)
    }

    /// Whether a receiver has answered.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.answers.clock().is_some()
    }

    /// Starts sending now, `most_bytes` at the given rate; echoes that arrive within the window count.
    pub fn release(
        &mut self,
        window: (Instant, Instant),
        rate_bytes_per_s: Option<f64>,
        most_bytes: u64,
        now: Instant,
    ) {
        self.tally = Tally::new(window);
        self.pace = rate_bytes_per_s.map(|rate| (rate, now));
        self.most_bytes = most_bytes;
    }

    /// Distance of its marks, in bytes.
    #[must_use]
    pub fn every_bytes(&self) -> u32 {
        self.every_bytes
    }

    /// Beginning and end of the measurement.
    #[must_use]
    pub fn window(&self) -> (Instant, Instant) {
        self.tally.window
    }

    /// When the next piece may be sent, if the stream has a rate.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        let (rate, since) = self.pace?;
        let seconds = (self.outgoing.bytes() + quantum_bytes(rate)) as f64 / rate;
        Some(since + Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }

    /// What to write now; `filling` is written between marks.
    pub fn next<'a>(&'a mut self, filling: &'a [u8], now: Instant) -> Next<'a> {
        let left = self.most_bytes - self.outgoing.bytes();
        if left == 0 {
            return Next::Finished;
        }
        let mut most = left;
        if let Some((rate, since)) = self.pace {
            if self.due().is_some_and(|due| now < due) {
                return Next::Waits;
            }
            let allowed = (now.since(since).as_secs_f64() * rate) as u64;
            let allowed = allowed.saturating_sub(self.outgoing.bytes());
            most = most.min(allowed.max(quantum_bytes(rate)));
        }
        let piece = self.outgoing.piece(filling, now);
        let bytes = &piece[..piece.len().min(usize::try_from(most).unwrap_or(usize::MAX))];
        Next::Piece {
            bytes,
            has_more: bytes.len() <= MARK_BYTES,
        }
    }

    /// Advances by `bytes` of the piece, which were written.
    pub fn wrote(&mut self, bytes: usize) {
        self.outgoing.wrote(bytes);
    }

    /// Bytes written.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.outgoing.bytes()
    }

    /// Processes what was read.
    ///
    /// # Errors
    /// [`Nonsense`] if the peer is not a receiver of streams.
    pub fn take(&mut self, bytes: &[u8], now: Instant) -> Result<(), Nonsense> {
        let (here, tally) = (self.here, &mut self.tally);
        let marks = self.outgoing.marks();
        self.answers.take(bytes, marks, |echo, there| {
            tally.count(echo, now, there == here);
        })
    }

    /// The measurements. The driver adds number, addresses and TCP statistics.
    #[must_use]
    pub fn report(&self) -> FlowReport {
        let (bytes, bytes_per_s) = self.tally.throughput(self.every_bytes);
        FlowReport {
            bytes,
            bytes_per_s,
            latency_ns: self.tally.latencies.summary(),
            one_way_ns: self.tally.one_way.summary(),
            ..FlowReport::default()
        }
    }
}

/// The data between marks, which is incompressible.
#[must_use]
pub fn filling() -> Box<[u8; PIECE_BYTES]> {
    let mut bytes = Box::new([0; PIECE_BYTES]);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for word in bytes.chunks_exact_mut(8) {
        // xorshift64 (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_be_bytes());
    }
    bytes
}

/// Bytes that a stream with a rate sends at once: those of a millisecond.
fn quantum_bytes(rate_bytes_per_s: f64) -> u64 {
    ((rate_bytes_per_s / 1000.0) as u64).clamp(MARK_BYTES as u64, PIECE_BYTES as u64)
}

#[cfg(test)]
mod tests {
    use super::super::Receiving;
    use super::*;

    const HERE: Clock = Clock([7; 24]);

    fn at(ms: u64) -> Instant {
        Instant::from_ns(ms * 1_000_000)
    }

    /// Writes as much as permitted to a socket that takes everything; returns the number of bytes.
    fn write_all(sending: &mut Sending, receiving: &mut Receiving, now: Instant) -> u64 {
        let before = sending.written_bytes();
        let filling = filling();
        while let Next::Piece { bytes, .. } = sending.next(&filling[..], now) {
            receiving.take(bytes, now).unwrap();
            let written = bytes.len();
            sending.wrote(written);
        }
        sending.written_bytes() - before
    }

    #[test]
    fn a_rate_is_kept_and_a_number_of_bytes_ends_the_stream() {
        let mut sending = Sending::new(10_000, HERE);
        let mut receiving = Receiving::new(HERE);
        receiving.take(&sending.hello(), at(0)).unwrap();
        sending.take(receiving.pending(), at(0)).unwrap();
        receiving.sent(receiving.pending().len());
        assert!(sending.is_answered());
        // 1 MB/s, so 1000 bytes each ms.
        sending.release((at(0), at(1000)), Some(1e6), 100_000, at(0));
        assert_eq!(write_all(&mut sending, &mut receiving, at(0)), 0);
        assert_eq!(sending.due(), Some(at(1)));
        assert_eq!(write_all(&mut sending, &mut receiving, at(10)), 10_000);
        assert_eq!(write_all(&mut sending, &mut receiving, at(99)), 89_000);
        assert_eq!(write_all(&mut sending, &mut receiving, at(500)), 1_000);
        assert_eq!(sending.next(&[0; 8], at(501)), Next::Finished);
        sending.take(receiving.pending(), at(500)).unwrap();
        let report = sending.report();
        assert_eq!(report.latency_ns.unwrap().count, 10);
        // The first mark is read at 10 ms; the last one, which begins at 90,000 bytes, at 99 ms.
        assert_eq!(report.bytes, 90_000);
        let rate = report.bytes_per_s.unwrap();
        assert!((rate - 90_000.0 / 0.089).abs() < 1.0, "{rate}");
    }
}
