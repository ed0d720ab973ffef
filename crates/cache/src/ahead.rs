//! Read-ahead: predicts which data a program will read next.

use crate::range::Range;

/// Streams tracked at once; a new one replaces the one idle for longest.
const STREAMS: usize = 32;

/// Repetitions of a stride before read-ahead starts: for sequential reads, and for other strides, which random reads
/// sometimes form by chance.
const CONFIRMED: u32 = 2;
const CONFIRMED_STRIDES: u32 = 3;

/// Longest stride, in bytes.
const LONGEST_STRIDE_BYTES: u64 = 64 << 20;

/// Initial read-ahead window of a stream: this many reads or this many bytes, whichever is more.
const FIRST_READS: u64 = 8;
const FIRST_BYTES: u64 = 128 << 10;

/// Shortest and longest operation of sequential read-ahead, in bytes.
const SHORTEST_BYTES: u64 = 64 << 10;
const LONGEST_BYTES: u64 = 1 << 20;

/// Most outstanding operations of strided read-ahead, per stream.
const MOST_STRIDES: u64 = 256;

/// Reads at a constant stride.
#[derive(Debug)]
struct Stream {
    last: Range,
    /// Distance from the start of one read to the start of the next; negative towards the start of the disk.
    stride: i64,
    /// Reads that had this stride.
    confirmed: u32,
    /// Read-ahead window, outstanding and cached, in bytes.
    window_bytes: u64,
    /// End of the data read ahead; for strides, start of the next read.
    ahead: u64,
    used: u64,
}

/// The tracked streams.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    streams: Vec<Stream>,
    reads: u64,
}

impl Ahead {
    /// Processes a read and returns the ranges to read ahead, in order. `waits` is true if not all its data were
    /// cached; `most_bytes` bounds one stream's read-ahead.
    pub(crate) fn read(
        &mut self,
        range: Range,
        waits: bool,
        most_bytes: u64,
        size_bytes: u64,
    ) -> Vec<Range> {
        self.reads += 1;
        let used = self.reads;
        let Some(stream) = self.follow(range) else {
            self.begin(range);
            return Vec::new();
        };
        stream.used = used;
        if !stream.is_confirmed() || range.is_empty() {
            return Vec::new();
        }
        let first = (range.bytes() * FIRST_READS).max(FIRST_BYTES);
        if stream.window_bytes == 0 {
            stream.window_bytes = first;
        } else if waits {
            // The program has caught up with read-ahead: it could use a larger window.
            stream.window_bytes *= 2;
        }
        stream.window_bytes = stream
            .window_bytes
            .min(most_bytes)
            .max(first.min(most_bytes));
        stream.extend(size_bytes)
    }

    /// The stream that a read continues, updated by it.
    fn follow(&mut self, range: Range) -> Option<&mut Stream> {
        let expected = |stream: &Stream| {
            stream.confirmed > 0
                && stream.last.start.checked_add_signed(stream.stride) == Some(range.start)
        };
        if let Some(at) = self.streams.iter().position(expected) {
            let stream = &mut self.streams[at];
            stream.confirmed = stream.confirmed.saturating_add(1);
            stream.last = range;
            return Some(stream);
        }
        // Concurrent reads of one sequence arrive in any order.
        let inside = |stream: &Stream| {
            stream.is_sequential()
                && stream.is_confirmed()
                && range.start >= stream.last.start
                && range.start <= stream.ahead
        };
        if let Some(at) = self.streams.iter().position(inside) {
            let stream = &mut self.streams[at];
            stream.stride = range.bytes() as i64;
            stream.last = range;
            return Some(stream);
        }
        // A read that starts where another ended continues it, in preference to any other stream.
        let distance = |stream: &Stream| range.start.abs_diff(stream.last.start);
        let near = |stream: &&mut Stream| {
            (1..=LONGEST_STRIDE_BYTES).contains(&distance(stream)) && !stream.is_confirmed()
        };
        let adjoins = |stream: &Stream| stream.last.end != range.start;
        let stream = self
            .streams
            .iter_mut()
            .filter(near)
            .min_by_key(|stream| (adjoins(stream), distance(stream)))?;
        stream.stride = range.start.wrapping_sub(stream.last.start) as i64;
        stream.confirmed = 1;
        stream.last = range;
        stream.ahead = 0;
        Some(stream)
    }

    fn begin(&mut self, range: Range) {
        if self.streams.len() >= STREAMS {
            let idle = self
                .streams
                .iter()
                .enumerate()
                .min_by_key(|(_, stream)| stream.used);
            if let Some((at, _)) = idle {
                self.streams.swap_remove(at);
            }
        }
        self.streams.push(Stream {
            last: range,
            stride: 0,
            confirmed: 0,
            window_bytes: 0,
            ahead: 0,
            used: self.reads,
        });
    }

    /// Drops all streams.
    pub(crate) fn forget(&mut self) {
        self.streams.clear();
    }
}

impl Stream {
    fn is_sequential(&self) -> bool {
        self.stride == self.last.bytes() as i64
    }

    fn is_confirmed(&self) -> bool {
        self.confirmed
            >= match self.is_sequential() {
                true => CONFIRMED,
                false => CONFIRMED_STRIDES,
            }
    }

    fn extend(&mut self, size_bytes: u64) -> Vec<Range> {
        match self.is_sequential() {
            true => self.extend_sequence(size_bytes),
            false => self.extend_strides(size_bytes),
        }
    }

    fn extend_sequence(&mut self, size_bytes: u64) -> Vec<Range> {
        let read = self.last.bytes();
        let piece = (self.window_bytes / 8)
            .clamp(SHORTEST_BYTES, LONGEST_BYTES)
            .max(read);
        // Whole reads, so that none spans two pieces.
        let piece = piece.div_ceil(read) * read;
        let end = self
            .last
            .end
            .saturating_add(self.window_bytes)
            .min(size_bytes);
        let mut pieces = Vec::new();
        self.ahead = self.ahead.max(self.last.end);
        while self.ahead + piece <= end || (end == size_bytes && self.ahead < end) {
            let next = Range::new(self.ahead, piece.min(size_bytes - self.ahead));
            pieces.push(next);
            self.ahead = next.end;
        }
        pieces
    }

    fn extend_strides(&mut self, size_bytes: u64) -> Vec<Range> {
        let read = self.last.bytes();
        let most = (self.window_bytes / read).clamp(1, MOST_STRIDES);
        let (start, stride) = (self.last.start, self.stride);
        let place = |reads: u64| start.checked_add_signed(stride.checked_mul(reads as i64)?);
        // Strides read ahead so far.
        let asked = match self.ahead {
            0 => 0,
            ahead => {
                (ahead as i64)
                    .wrapping_sub(start as i64)
                    .checked_div(stride)
                    .unwrap_or(0)
                    .clamp(1, most as i64 + 1) as u64
                    - 1
            }
        };
        let ahead = (asked + 1..=most).map_while(place);
        let pieces: Vec<Range> = ahead
            .map(|at| Range::new(at, read))
            .take_while(|piece| piece.end <= size_bytes)
            .collect();
        if let Some(last) = pieces.last() {
            self.ahead = last.start.saturating_add_signed(stride);
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 30;
    const MOST: u64 = 8 << 20;

    /// The read-ahead ranges after each of some 4 KiB reads.
    fn pieces(
        ahead: &mut Ahead,
        reads: impl IntoIterator<Item = u64>,
        waits: bool,
    ) -> Vec<Vec<Range>> {
        let reads = reads.into_iter().map(|at| Range::new(at, 4096));
        reads
            .map(|range| ahead.read(range, waits, MOST, SIZE))
            .collect()
    }

    #[test]
    fn a_sequence_is_read_ahead_without_gaps() {
        let mut ahead = Ahead::default();
        let pieces = pieces(&mut ahead, (0..64).map(|read| read * 4096), false);
        assert!(pieces[0].is_empty() && pieces[1].is_empty());
        let mut end = 3 * 4096;
        for piece in pieces.concat() {
            assert_eq!(piece.start, end);
            end = piece.end;
        }
        // The first window and the reads that have passed.
        assert!(end >= 64 * 4096 + FIRST_BYTES - SHORTEST_BYTES, "{end}");
        assert!(end <= 64 * 4096 + FIRST_BYTES, "{end}");
    }

    #[test]
    fn a_program_that_waits_has_more_read_ahead_up_to_the_bound() {
        let mut ahead = Ahead::default();
        let waiting = (0..2048).map(|read| read * 4096);
        let end = pieces(&mut ahead, waiting, true)
            .concat()
            .last()
            .map(|piece| piece.end);
        let window = end.unwrap_or_default() - 2048 * 4096;
        assert!((MOST - LONGEST_BYTES..=MOST).contains(&window), "{window}");
    }

    #[test]
    fn strides_are_followed_in_either_direction() {
        for stride in [1_i64 << 20, -(1 << 20)] {
            let mut ahead = Ahead::default();
            let place = |read: i64| ((512 << 20) + read * stride) as u64;
            let pieces = pieces(&mut ahead, (0..8).map(place), false).concat();
            let expected = (4..).map(|read| Range::new(place(read), 4096));
            let expected: Vec<Range> = expected.take(pieces.len()).collect();
            assert!(pieces.len() >= FIRST_READS as usize, "{pieces:?}");
            assert_eq!(pieces, expected);
        }
    }

    #[test]
    fn streams_do_not_disturb_each_other() {
        let mut ahead = Ahead::default();
        let reads = (0..60).map(|read| (read % 3) * (200 << 20) + (read / 3) * 4096);
        let pieces = pieces(&mut ahead, reads, false);
        for stream in 0..3 {
            let own = pieces.iter().skip(stream).step_by(3).flatten();
            assert!(own.map(Range::bytes).sum::<u64>() >= FIRST_BYTES - SHORTEST_BYTES);
        }
    }

    #[test]
    fn random_reads_have_nothing_read_ahead() {
        let mut ahead = Ahead::default();
        let mut place = 1_u64;
        let reads = std::iter::from_fn(|| {
            place = place.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            Some((place >> 34) / 4096 * 4096 % SIZE)
        });
        let pieces = pieces(&mut ahead, reads.take(10_000), false).concat();
        assert!(pieces.is_empty(), "{}", pieces.len());
    }

    #[test]
    fn nothing_is_read_behind_the_end() {
        let mut ahead = Ahead::default();
        let reads = (0..4).map(|read| SIZE - (8 - read) * 4096);
        let pieces = pieces(&mut ahead, reads, false).concat();
        assert_eq!(pieces.last().map(|piece| piece.end), Some(SIZE));
    }
}
