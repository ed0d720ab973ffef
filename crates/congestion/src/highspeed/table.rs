//! HighSpeed TCP's law as a table, for programs with integer arithmetic only.

use super::HighSpeed;

/// Rows per doubling of the window.
const ROWS_PER_DOUBLING: u32 = 1 << ROWS_PER_DOUBLING_LOG2;
const ROWS_PER_DOUBLING_LOG2: u32 = 4;
/// Doublings covered, from a window of one segment: up to 2^21 segments.
const DOUBLINGS: u32 = 21;
/// Log2 of the interpolation steps between two rows.
const STEPS_LOG2: u32 = 8;

/// a(w) and b(w) of a window, in integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// a(w): growth per round trip, in units of 1/[`Row::PARTS`] segment.
    pub increase: u32,
    /// b(w): the fraction of the window that a loss event removes, in units of 1/[`Row::WHOLE`].
    pub decrease: u32,
}

impl Row {
    /// One segment of growth.
    pub const PARTS: u32 = 1024;
    /// A decrease of the whole window.
    pub const WHOLE: u32 = 65536;

    /// Reno: one segment per round trip, and half of the window at a loss.
    const RENO: Row = Row {
        increase: Row::PARTS,
        decrease: Row::WHOLE / 2,
    };
}

/// The law at every window: exact at sixteenths of each doubling, linearly interpolated in between, and constant beyond
/// 2^21 segments. `bpf/hstcp.bpf.c` has the same in the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    low_window: u32,
    rows: Vec<Row>,
}

impl Table {
    /// Number of rows.
    pub const ROWS: u32 = DOUBLINGS * ROWS_PER_DOUBLING + 1;

    /// The table of a law with valid parameters ([`HighSpeed::check`]).
    #[must_use]
    pub fn of(law: &HighSpeed) -> Table {
        let row = |row: u32| {
            let sixteenths = f64::from(ROWS_PER_DOUBLING + row % ROWS_PER_DOUBLING);
            let doublings = f64::from(row / ROWS_PER_DOUBLING);
            let window = doublings.exp2() * sixteenths / f64::from(ROWS_PER_DOUBLING);
            Row {
                increase: (law.increase(window) * f64::from(Row::PARTS)).round() as u32,
                decrease: (law.decrease(window) * f64::from(Row::WHOLE)).round() as u32,
            }
        };
        Table {
            low_window: law.low_window as u32,
            rows: (0..Table::ROWS).map(row).collect(),
        }
    }

    /// Up to this many segments the law is Reno's.
    #[must_use]
    pub fn low_window(&self) -> u32 {
        self.low_window
    }

    /// The rows, from a window of one segment on: 16 per doubling, equally spaced.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// a(w) and b(w) at a window of `window` segments.
    #[must_use]
    pub fn at(&self, window: u32) -> Row {
        if window <= self.low_window {
            return Row::RENO;
        }
        let log = window.ilog2();
        let place = (u64::from(window) << (ROWS_PER_DOUBLING_LOG2 + STEPS_LOG2)) >> log;
        let sixteenth = (place >> STEPS_LOG2) as u32 & (ROWS_PER_DOUBLING - 1);
        let row = (log << ROWS_PER_DOUBLING_LOG2) + sixteenth;
        let step = place as i64 & ((1 << STEPS_LOG2) - 1);
        let last = Table::ROWS - 1;
        let [from, to] = [row, row + 1].map(|row| self.rows[row.min(last) as usize]);
        let between = |from: u32, to: u32| {
            let whole = i64::from(to) - i64::from(from);
            (i64::from(from) + ((whole * step) >> STEPS_LOG2)) as u32
        };
        Row {
            increase: between(from.increase, to.increase),
            decrease: between(from.decrease, to.decrease),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row is a sixteenth of a doubling, and decreases are rounded to 1/65536.
    #[test]
    fn it_is_within_a_hundredth_of_the_formulas() {
        let steep = HighSpeed {
            low_window: 8.0,
            high_window: 400.0,
            low_loss: 0.02,
            high_loss: 1e-4,
            high_decrease: 0.2,
        };
        for law in [HighSpeed::default(), steep] {
            let table = Table::of(&law);
            let more = (0..200).map(|step| 1.05_f64.powi(step) * 128.0);
            for window in (1..128).chain(more.map(|window| window as u32)) {
                let (row, w) = (table.at(window), f64::from(window));
                let increase = f64::from(row.increase) / f64::from(Row::PARTS);
                let decrease = f64::from(row.decrease) / f64::from(Row::WHOLE);
                let ratio = increase / law.increase(w);
                assert!((ratio - 1.0).abs() < 0.01, "a({window}): {ratio}");
                let ratio = decrease / law.decrease(w);
                assert!((ratio - 1.0).abs() < 0.01, "b({window}): {ratio}");
            }
        }
    }

    #[test]
    fn up_to_the_low_window_it_is_reno_and_beyond_its_end_it_is_as_there() {
        let table = Table::of(&HighSpeed::default());
        assert_eq!(table.at(0), Row::RENO);
        assert_eq!(table.at(38), Row::RENO);
        // a(38) is 0.96 by the formula; Reno's 1 is the minimum.
        assert!(table.at(60).increase > Row::PARTS);
        let last = table.at(1 << 21);
        assert_eq!([table.at(1 << 22), table.at(u32::MAX)], [last; 2]);
    }
}
