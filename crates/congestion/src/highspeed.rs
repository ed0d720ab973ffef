//! HighSpeed TCP's law (RFC 3649 §5): increase and decrease as functions of the window, from five parameters.

use wansan_trace::units::format_number;

mod table;

pub use table::{Row, Table};

/// RFC 3649's parameters. Windows are in segments, loss rates in lost packets per packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HighSpeed {
    /// Low_Window: up to this window the law is Reno's. 1 or more.
    pub low_window: f64,
    /// High_Window: the target window at the loss rate `high_loss`.
    pub high_window: f64,
    /// Low_P: the loss rate at which the window is `low_window`.
    pub low_loss: f64,
    /// High_P: the loss rate at which the window is `high_window`.
    pub high_loss: f64,
    /// High_Decrease: the fraction of the window that a loss event removes at `high_window`, up to 0.5.
    pub high_decrease: f64,
}

/// Recommended by RFC 3649 §5: 83000 segments, 10 Gbit/s at 100 ms, at a loss rate of 10^-7.
impl Default for HighSpeed {
    fn default() -> HighSpeed {
        HighSpeed {
            low_window: 38.0,
            high_window: 83_000.0,
            low_loss: 1e-3,
            high_loss: 1e-7,
            high_decrease: 0.1,
        }
    }
}

/// Parameters that do not define a law.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum HighSpeedError {
    /// The windows are not in order, or out of range.
    #[error(
        "HighSpeed TCP's low window {low} and high window {high} do not fit: 1 <= low < high <= \
         1000000 segments (RFC 3649 §5)",
        low = format_number(*low),
        high = format_number(*high)
    )]
    Windows {
        /// Low_Window.
        low: f64,
        /// High_Window.
        high: f64,
    },
    /// The loss rates are not in order, or out of range.
    #[error(
        "HighSpeed TCP's loss rate {high_loss} at its high window and {low_loss} at its low one do \
         not fit: 0 < the former < the latter < 1 (RFC 3649 §5)",
        low_loss = format_number(*low_loss),
        high_loss = format_number(*high_loss)
    )]
    Losses {
        /// Low_P.
        low_loss: f64,
        /// High_P.
        high_loss: f64,
    },
    /// The decrease is not positive, or greater than Reno's.
    #[error(
        "HighSpeed TCP's decrease {decrease} at its high window does not fit: more than 0, up to 0.5 \
         (RFC 3649 §5)",
        decrease = format_number(*.0)
    )]
    Decrease(f64),
}

impl HighSpeed {
    /// Checks the parameters.
    ///
    /// # Errors
    /// [`HighSpeedError`] names the invalid ones.
    pub fn check(&self) -> Result<(), HighSpeedError> {
        let (low, high) = (self.low_window, self.high_window);
        // Written so that NaN is rejected, too.
        if !(low >= 1.0 && low < high && high <= 1e6) {
            return Err(HighSpeedError::Windows { low, high });
        }
        let (low_loss, high_loss) = (self.low_loss, self.high_loss);
        if !(high_loss > 0.0 && high_loss < low_loss && low_loss < 1.0) {
            return Err(HighSpeedError::Losses {
                low_loss,
                high_loss,
            });
        }
        if !(self.high_decrease > 0.0 && self.high_decrease <= 0.5) {
            return Err(HighSpeedError::Decrease(self.high_decrease));
        }
        Ok(())
    }

    /// Logarithmic position of `window` between Low_Window (0) and High_Window (1).
    fn place(&self, window: f64) -> f64 {
        (window / self.low_window).ln() / (self.high_window / self.low_window).ln()
    }

    /// p(w): the loss rate at which the window is `window` segments, linear between the two points on logarithmic
    /// scales.
    #[must_use]
    pub fn loss(&self, window: f64) -> f64 {
        self.low_loss * (self.high_loss / self.low_loss).powf(self.place(window))
    }

    /// w(p), the response function: the window in segments at the loss rate `loss`, the inverse of [`HighSpeed::loss`].
    /// Valid from Low_Window on.
    #[must_use]
    pub fn response(&self, loss: f64) -> f64 {
        let place = (loss / self.low_loss).ln() / (self.high_loss / self.low_loss).ln();
        self.low_window * (self.high_window / self.low_window).powf(place)
    }

    /// b(w): the fraction of a window of `window` segments that a loss event removes. Far beyond High_Window the RFC's
    /// formula falls to zero and below, so half of High_Decrease is the minimum.
    #[must_use]
    pub fn decrease(&self, window: f64) -> f64 {
        let share = (self.high_decrease - 0.5) * self.place(window).max(0.0) + 0.5;
        share.max(self.high_decrease / 2.0)
    }

    /// a(w): the growth per round trip, in segments, of a window of `window` segments. At least Reno's 1.
    #[must_use]
    pub fn increase(&self, window: f64) -> f64 {
        if window <= self.low_window {
            return 1.0;
        }
        increase(window, self.loss(window), self.decrease(window)).max(1.0)
    }
}

/// RFC 3649 §5: a(w) = w² p(w) 2 b(w) / (2 - b(w)), which makes w(p) the mean window.
fn increase(window: f64, loss: f64, decrease: f64) -> f64 {
    window * window * loss * 2.0 * decrease / (2.0 - decrease)
}

#[cfg(test)]
mod tests;
