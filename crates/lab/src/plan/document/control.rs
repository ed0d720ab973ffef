//! `[tcp.control]`: parameters of a congestion control.

use serde::{Deserialize, Serialize};
use wansan_settings::{settings, usual};
use wansan_tcp::control::{Algorithm, Counting, Growth, HighSpeed, Options};

use super::TcpTable;

settings! {
    /// `[tcp.control]`: parameters with which the lab loads the cell's congestion control, one of [`Algorithm`].
    /// Omitted parameters have the values of its standard; if all are omitted, a control that is already loaded
    /// is used unchanged.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct ControlTable {
        /// What an ACK counts for in congestion avoidance
        pub count: Option<Count>;
        /// Limited slow start (RFC 3742): above this many segments (at least 2), slow start adds at most half of
        /// that per round trip
        pub max_ssthresh: Option<u32>;
        /// HighSpeed TCP's Low_Window (RFC 3649 §5), in segments
        pub low_window: Option<f64>, "number";
        /// Its High_Window, in segments
        pub high_window: Option<f64>, "number";
        /// Its Low_P: lost packets per packet at the low window
        pub low_loss: Option<f64>, "number";
        /// Its High_P: lost packets per packet at the high window
        pub high_loss: Option<f64>, "number";
        /// Its High_Decrease: the fraction by which a loss reduces the high window
        pub high_decrease: Option<f64>, "number";
    }
}

/// What an ACK counts for in window growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Count {
    /// The packets that it acknowledges.
    Packets,
    /// One packet.
    Acks,
}

impl TcpTable {
    /// The parameters of the control `name`: `control` applies to `congestion_control`, others have their standards'
    /// values.
    pub(crate) fn control_of(&self, name: &str) -> ControlTable {
        match name == self.congestion_control {
            true => self.control,
            false => usual(),
        }
    }
}

impl ControlTable {
    /// All parameters with which `law` was loaded.
    #[must_use]
    pub fn of(law: Algorithm, options: &Options) -> ControlTable {
        let highspeed = (law == Algorithm::HighSpeed).then_some(options.highspeed);
        ControlTable {
            count: Some(match options.growth.counting {
                Counting::PerPacket => Count::Packets,
                Counting::PerAck => Count::Acks,
            }),
            max_ssthresh: options.growth.max_ssthresh,
            low_window: highspeed.map(|law| law.low_window),
            high_window: highspeed.map(|law| law.high_window),
            low_loss: highspeed.map(|law| law.low_loss),
            high_loss: highspeed.map(|law| law.high_loss),
            high_decrease: highspeed.map(|law| law.high_decrease),
        }
    }

    /// The parameters to load with; `None` if the plan sets none.
    #[must_use]
    pub fn options(&self) -> Option<Options> {
        if *self == usual() {
            return None;
        }
        let standard = HighSpeed::default();
        Some(Options {
            growth: Growth {
                max_ssthresh: self.max_ssthresh,
                counting: match self.count {
                    None | Some(Count::Packets) => Counting::PerPacket,
                    Some(Count::Acks) => Counting::PerAck,
                },
            },
            highspeed: HighSpeed {
                low_window: self.low_window.unwrap_or(standard.low_window),
                high_window: self.high_window.unwrap_or(standard.high_window),
                low_loss: self.low_loss.unwrap_or(standard.low_loss),
                high_loss: self.high_loss.unwrap_or(standard.high_loss),
                high_decrease: self.high_decrease.unwrap_or(standard.high_decrease),
            },
        })
    }

    /// Its mistake for the congestion control of that name.
    pub(in crate::plan) fn check(&self, name: &str) -> Result<(), String> {
        let Some(options) = self.options() else {
            return Ok(());
        };
        let of_highspeed = [
            self.low_window,
            self.high_window,
            self.low_loss,
            self.high_loss,
            self.high_decrease,
        ];
        match Algorithm::by_name(name) {
            None => {
                let ours = Algorithm::ALL.map(Algorithm::name).join(", ");
                Err(format!(
                    "`{name}` is the kernel's and takes no parameters here; {ours} do"
                ))
            }
            Some(law)
                if law != Algorithm::HighSpeed && of_highspeed.iter().any(Option::is_some) =>
            {
                let highspeed = Algorithm::HighSpeed.name();
                Err(format!(
                    "`{name}` takes no window or loss-rate parameters; {highspeed} does"
                ))
            }
            Some(_) => options.check().map_err(|error| error.to_string()),
        }
    }
}
