//! Windowed maximum in constant memory (lib/win_minmax.c, after Kathleen Nichols).

/// A value and its time.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    at: u32,
    value: u32,
}

/// The maximum of a window, with the two largest later values, which replace it when it expires.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WindowedMax {
    /// Each neither later nor smaller than the next.
    best: [Entry; 3],
}

impl WindowedMax {
    pub(super) fn get(&self) -> u32 {
        self.best[0].value
    }

    /// Adds a value (`minmax_running_max`). `at` and `window` have the same unit.
    pub(super) fn update(&mut self, window: u32, at: u32, value: u32) {
        let new = Entry { at, value };
        let [first, second, third] = &mut self.best;
        if value >= first.value || at - third.at > window {
            self.best = [new; 3];
            return;
        }
        if value >= second.value {
            (*second, *third) = (new, new);
        } else if value >= third.value {
            *third = new;
        }
        let age = at - first.at;
        if age > window {
            // The second may have expired as well; the third has not.
            self.best = [*second, *third, new];
            if at - self.best[0].at > window {
                self.best = [self.best[1], new, new];
            }
        } else if second.at == first.at && age > window / 4 {
            // A quarter of the window has passed without a second; half of it without a third.
            (*second, *third) = (new, new);
        } else if third.at == second.at && age > window / 2 {
            *third = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared with a filter that keeps every value: never above the maximum of the window, and never below that of
    /// its last quarter.
    #[test]
    fn it_lies_between_the_maximum_of_the_window_and_that_of_its_last_quarter() {
        const WINDOW: u32 = 40;
        let mut filter = WindowedMax::default();
        let mut all: Vec<(u32, u32)> = Vec::new();
        let mut random = 1_u32;
        for at in 1..5_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Falling for a while, and then at random.
            let value = if at % 700 < 200 {
                10_000 - at
            } else {
                (random >> 8) % 1_000
            };
            filter.update(WINDOW, at, value);
            all.push((at, value));
            let most = |window| {
                let recent = all.iter().rev().take_while(|(then, _)| at - then <= window);
                recent.map(|(_, value)| *value).max().unwrap()
            };
            assert!(filter.get() <= most(WINDOW), "{at}");
            assert!(filter.get() >= most(WINDOW / 4), "{at}");
        }
    }

    #[test]
    fn a_maximum_lasts_for_its_window_and_no_longer() {
        let mut filter = WindowedMax::default();
        filter.update(10, 1, 100);
        for at in 2..=11 {
            filter.update(10, at, 50);
            assert_eq!(filter.get(), 100, "{at}");
        }
        filter.update(10, 12, 50);
        assert_eq!(filter.get(), 50);
    }
}
