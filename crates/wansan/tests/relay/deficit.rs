//! The smallest backlog that a cut of the sender does not use up, as docs/internals/relay-control.md has it: a
//! receiver drains at a set rate and asks its sender by ECE to slow down whenever so much waits.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use wansan_tcp::control::{self, Algorithm, HighSpeed};
use wansan_tcp::ece::EceSignal;
use wansan_tcp::{TcpInfo, queues};

use crate::linear_topology::text;
use crate::machine::Trouble;
use crate::pair::Pair;

/// S, in bytes.
const SEGMENT: f64 = 1448.0;

/// A measured swing may differ by so much of it from the one that is reckoned, on a machine that has other work
/// too; on a quiet one it is a sixteenth. Were a sender of CUBIC or HighSpeed TCP as Reno is, its swing would be
/// twice what it is to be.
const TOLERANCE: f64 = 0.4;

/// A sender by its law: a and b of a window, in segments.
struct Sender {
    control: &'static str,
    increase: fn(f64) -> f64,
    decrease: fn(f64) -> f64,
}

const RENO: Sender = Sender {
    control: "reno",
    increase: |_| 1.0,
    decrease: |_| 0.5,
};

/// As far as it grows no faster than Reno would (RFC 9438 §4.3).
const CUBIC: Sender = Sender {
    control: "cubic",
    increase: |_| 3.0 * 0.3 / (2.0 - 0.3),
    decrease: |_| 0.3,
};

const HIGH_SPEED: Sender = Sender {
    control: "wansan_hstcp",
    increase: |window| HighSpeed::default().increase(window),
    decrease: |window| HighSpeed::default().decrease(window),
};

/// What a receiver takes of a sender, and for how long.
struct Scene {
    sender: Sender,
    /// C, in bytes per second.
    drain: f64,
    /// R_i.
    round_trip: Duration,
    /// Before it is measured, and while it is.
    times: [Duration; 2],
}

/// What came of it.
#[derive(Debug)]
struct Measured {
    /// The share of the drain that was lost because nothing waited.
    lost: f64,
    /// By how much the backlog, as the mean of a round trip, swings between two signals, in bytes: the
    /// median.
    swing: f64,
    /// R_i as it was: what a busy machine adds to the path is in it.
    round_trip: Duration,
}

impl Scene {
    /// Q_s, in bytes: how far the backlog falls in a saw-tooth whose mean takes the drain, with that R_i.
    fn least(&self, round_trip: Duration) -> f64 {
        const STEPS: f64 = 64.0;
        let mean = self.drain * round_trip.as_secs_f64() / SEGMENT;
        let Sender {
            increase, decrease, ..
        } = self.sender;
        let mut peak = mean;
        let mut lowest = 0.0;
        // From any peak on it becomes steady.
        for _ in 0..50 {
            let mut window = (1.0 - decrease(peak)) * peak;
            let mut backlog = 0.0;
            lowest = 0.0;
            while window < mean || backlog < 0.0 {
                backlog += (window - mean) / STEPS;
                lowest = f64::min(lowest, backlog);
                window += increase(window) / STEPS;
            }
            peak = window;
        }
        -lowest * SEGMENT
    }

    /// The same of a sender as senders are, in bytes: windows are whole segments, and each is there for a whole
    /// round trip. The mean of many cuts.
    fn swing(&self, round_trip: Duration) -> f64 {
        const CUTS: usize = 200;
        let mean = self.drain * round_trip.as_secs_f64() / SEGMENT;
        let Sender {
            increase, decrease, ..
        } = self.sender;
        let mut window = mean;
        let (mut backlog, mut lowest, mut highest) = (0.0, 0.0, 0.0);
        let mut swings = Vec::new();
        while swings.len() < CUTS {
            backlog += window.floor() - mean;
            lowest = f64::min(lowest, backlog);
            highest = f64::max(highest, backlog);
            if backlog < 0.0 || window <= mean {
                window += increase(window);
                continue;
            }
            swings.push(highest - lowest);
            (lowest, highest) = (backlog, backlog);
            window = ((1.0 - decrease(window)) * window.floor()).floor();
        }
        swings.iter().sum::<f64>() / CUTS as f64 * SEGMENT
    }

    /// Asks for ECE as soon as `bound_bytes` wait and the backlog is growing.
    fn measure(&self, bound_bytes: f64) -> Result<(Measured, Option<String>), Trouble> {
        let pair = Pair::build(self.sender.control, self.round_trip)?;
        let ends = pair.connect(|mut stream| {
            // Until the receiver has seen enough.
            while stream.write_all(&[7; 64 << 10]).is_ok() {}
            Ok(())
        })?;
        let measured = self.drain(&ends.to, &ends.from, &pair.signal, bound_bytes);
        let disturbance = pair.end(ends)?;
        match measured {
            Ok(measured) => Ok((measured, disturbance)),
            Err(what) => Err(Trouble::of(what, disturbance)),
        }
    }

    fn drain(
        &self,
        mut stream: &TcpStream,
        sender: &TcpStream,
        signal: &EceSignal,
        bound_bytes: f64,
    ) -> Result<Measured, String> {
        let mut piece = vec![0; 1 << 20];
        let began = Instant::now();
        let mut last = began;
        let mut asked = began;
        // Backlogs every millisecond or so, the last one last, of two round trips: segments of a window
        // come together, so only means of a whole round trip can be compared.
        let mut backlogs = VecDeque::new();
        let mut round_trips = Vec::new();
        let mut lost = 0.0;
        // From one signal to the next: the least and the most.
        let mut swing = None::<(f64, f64)>;
        let mut swings = Vec::new();
        while last - began < self.times[0] + self.times[1] {
            thread::sleep(Duration::from_millis(1));
            let now = Instant::now();
            let room = self.drain * (now - last).as_secs_f64();
            last = now;
            let warms_up = now - began < self.times[0];
            let waits = queues::received_bytes(stream).map_err(text)? as f64;
            // Slow start leaves more than any saw-tooth would.
            let excess = if warms_up { waits - bound_bytes } else { 0.0 };
            let read = (waits.min(room).max(excess) as usize).min(piece.len());
            if read > 0 {
                stream.read_exact(&mut piece[..read]).map_err(text)?;
            }
            let left = waits - read as f64;
            backlogs.push_back((now, left));
            backlogs.retain(|(at, _)| now - *at < 2 * self.round_trip);
            let mean = |is_of: fn(bool) -> bool| {
                let of = backlogs
                    .iter()
                    .filter(|(at, _)| is_of(now - *at < self.round_trip));
                let of: Vec<f64> = of.map(|(_, left)| *left).collect();
                of.iter().sum::<f64>() / of.len().max(1) as f64
            };
            let (earlier, lately) = (mean(|is_late| !is_late), mean(|is_late| is_late));
            if !warms_up {
                lost += room - waits.min(room);
                swing = swing.map(|(least, most)| (least.min(lately), most.max(lately)));
                round_trips.push(TcpInfo::of(sender).map_err(text)?.srtt_ns());
            }
            let grows = warms_up || lately > earlier;
            if left + 1.0 >= bound_bytes && grows && now - asked > 6 * self.round_trip {
                asked = now;
                signal.ask(stream).map_err(text)?;
                if !warms_up {
                    let whole = swing.replace((lately, lately));
                    swings.extend(whole.map(|(least, most)| most - least));
                }
            }
        }
        let signals = signal.signals(stream);
        if signals.answers < 5 || swings.len() < 3 {
            return Err(format!("the sender is hardly slowed down: {signals:?}"));
        }
        swings.sort_by(f64::total_cmp);
        round_trips.sort_unstable();
        Ok(Measured {
            lost: lost / (self.drain * self.times[1].as_secs_f64()),
            swing: swings[swings.len() / 2],
            round_trip: Duration::from_nanos(round_trips[round_trips.len() / 2]),
        })
    }

    /// With a bound far below [`Scene::least`] the drain runs dry; with twice as much it does not, and the
    /// backlog swings as far as was reckoned.
    fn agrees(&self) -> Result<(), Trouble> {
        let least = self.least(self.round_trip);
        let control = self.sender.control;
        let mut all = Vec::new();
        let mut disturbances = Vec::new();
        for part in [0.1, 2.0] {
            let (measured, disturbance) = self.measure(part * least)?;
            disturbances.extend(disturbance);
            let reckoned = self.swing(measured.round_trip);
            eprintln!(
                "{control}: {part} of {least:.0} bytes: {:.1} % of the rate is lost, a swing is {:.0} bytes, {:.2} \
                 of what it is to be at {:?}",
                100.0 * measured.lost,
                measured.swing,
                measured.swing / reckoned,
                measured.round_trip,
            );
            all.push((measured, reckoned));
        }
        let runs_dry = all.first().is_some_and(|(it, _)| it.lost > 0.06);
        let holds = all.last().is_some_and(|(it, reckoned)| {
            it.lost < 0.03 && (it.swing / reckoned - 1.0).abs() < TOLERANCE
        });
        if runs_dry && holds {
            Ok(())
        } else {
            let what = format!("{control}, {least:.0} bytes: {all:?}");
            Err(Trouble::of(what, disturbances.pop()))
        }
    }
}

pub(crate) fn of_reno() -> Result<(), Trouble> {
    let scene = Scene {
        sender: RENO,
        drain: 2.5e6,
        round_trip: Duration::from_millis(10),
        times: [Duration::from_secs(2), Duration::from_secs(5)],
    };
    scene.agrees()
}

/// A window at which HighSpeed TCP is not Reno any more: 86 segments.
fn wide(sender: Sender) -> Scene {
    Scene {
        sender,
        drain: 6.25e6,
        round_trip: Duration::from_millis(20),
        times: [Duration::from_secs(3), Duration::from_secs(9)],
    }
}

pub(crate) fn of_cubic() -> Result<(), Trouble> {
    wide(CUBIC).agrees()
}

pub(crate) fn of_high_speed() -> Result<(), Trouble> {
    let _held = control::hold(Algorithm::HighSpeed, None).map_err(text)?;
    wide(HIGH_SPEED).agrees()
}
