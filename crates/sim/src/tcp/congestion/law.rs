//! The congestion control algorithm of a connection.

use wansan_congestion::{Algorithm, Options};

use super::super::jiffies::Hz;
use super::bbr::Bbr;
use super::cubic::Cubic;
use super::highspeed::HighSpeed;
use super::loaded::Loaded;
use super::reno::{self, Reno};
use super::scalable::Scalable;
use super::vegas::Vegas;
use super::westwood::Westwood;
use super::{Acked, Event, State, Window};

/// The operations of an algorithm (`struct tcp_congestion_ops`); the defaults are those of Reno.
pub(super) trait Ops {
    fn init(&mut self, _: &mut Window, _now_ns: u64) {}
    fn ssthresh(&mut self, window: &Window) -> u32 {
        reno::ssthresh(window)
    }
    fn avoid(&mut self, window: &mut Window, acked: &Acked) {
        reno::avoid(window, acked);
    }
    fn on_state(&mut self, _: &mut Window, _: State, _now_ns: u64) {}
    fn on_event(&mut self, _: &mut Window, _: Event, _now_ns: u64) {}
    fn on_acked(&mut self, _: &mut Window, _: &Acked) {}
    fn undo(&mut self, window: &Window) -> u32 {
        window.cwnd.max(window.prior)
    }
    fn control(&mut self, _: &mut Window, _: &Acked) -> bool {
        false
    }
    fn sends_paced(&self) -> bool {
        false
    }
    /// `tcp_min_tso_segs`.
    fn min_tso_segments(&self, _: &Window) -> u32 {
        2
    }
    fn sndbuf_expand(&self) -> u32 {
        2
    }
}

/// A congestion control algorithm with its state.
///
/// The sender calls, in the kernel's order: [`init`](Law::init) after the handshake; for every acknowledgement of new
/// data, [`on_acked`](Law::on_acked) as soon as packets are off the queue; after losses are marked,
/// [`control`](Law::control) and, if that leaves the window to the sender and no reduction is in progress,
/// [`avoid`](Law::avoid); [`ssthresh`](Law::ssthresh) when a reduction or a recovery begins, [`undo`](Law::undo) when
/// it proves spurious; [`on_state`](Law::on_state) before each change of state; and [`on_event`](Law::on_event), which
/// reports the end of a reduction only if [`control`](Law::control) leaves the window to the sender.
#[derive(Debug, Clone)]
pub enum Law {
    /// Reno.
    Reno(Reno),
    /// CUBIC.
    Cubic(Cubic),
    /// HighSpeed TCP.
    HighSpeed(HighSpeed),
    /// Scalable TCP.
    Scalable(Scalable),
    /// Vegas.
    Vegas(Vegas),
    /// Westwood+.
    Westwood(Westwood),
    /// BBR, version 1.
    Bbr(Bbr),
    /// An algorithm of `wansan cc`.
    Loaded(Loaded),
}

/// Calls the algorithm's own method.
macro_rules! of {
    ($law:expr, $method:ident($($argument:expr),*)) => {
        match $law {
            Law::Reno(law) => law.$method($($argument),*),
            Law::Cubic(law) => law.$method($($argument),*),
            Law::HighSpeed(law) => law.$method($($argument),*),
            Law::Scalable(law) => law.$method($($argument),*),
            Law::Vegas(law) => law.$method($($argument),*),
            Law::Westwood(law) => law.$method($($argument),*),
            Law::Bbr(law) => law.$method($($argument),*),
            Law::Loaded(law) => law.$method($($argument),*),
        }
    };
}

impl Law {
    /// The names of the kernel's own algorithms.
    pub const KERNEL: [&str; 7] = [
        "reno",
        "cubic",
        "highspeed",
        "scalable",
        "vegas",
        "westwood",
        "bbr",
    ];

    /// The names of the algorithms of `wansan cc`.
    pub const LOADED: [&str; 3] = {
        let [reno, highspeed, scalable] = Algorithm::ALL;
        [reno.name(), highspeed.name(), scalable.name()]
    };

    /// The names of all algorithms.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        [&Law::KERNEL[..], &Law::LOADED].concat()
    }

    /// The algorithm of a name, `None` if there is none; those of `wansan cc` get their default options. `seed` is for
    /// random decisions, which only BBR makes.
    #[must_use]
    pub fn named(name: &str, hz: Hz, seed: u64) -> Option<Law> {
        Some(match name {
            "reno" => Law::Reno(Reno),
            "cubic" => Law::Cubic(Cubic::new(hz)),
            "highspeed" => Law::HighSpeed(HighSpeed::default()),
            "scalable" => Law::Scalable(Scalable),
            "vegas" => Law::Vegas(Vegas::default()),
            "westwood" => Law::Westwood(Westwood::new(hz)),
            "bbr" => Law::Bbr(Bbr::new(hz, seed)),
            _ => Law::Loaded(Loaded::new(Algorithm::by_name(name)?, &Options::default())),
        })
    }

    /// The name by which sockets select it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Law::Reno(_) => "reno",
            Law::Cubic(_) => "cubic",
            Law::HighSpeed(_) => "highspeed",
            Law::Scalable(_) => "scalable",
            Law::Vegas(_) => "vegas",
            Law::Westwood(_) => "westwood",
            Law::Bbr(_) => "bbr",
            Law::Loaded(law) => law.algorithm().name(),
        }
    }

    /// The connection is established.
    pub fn init(&mut self, window: &mut Window, now_ns: u64) {
        of!(self, init(window, now_ns));
    }

    /// The slow start threshold, in packets, for a reduction that begins.
    pub fn ssthresh(&mut self, window: &Window) -> u32 {
        of!(self, ssthresh(window))
    }

    /// Grows the window on an acknowledgement, if appropriate (`cong_avoid`).
    pub fn avoid(&mut self, window: &mut Window, acked: &Acked) {
        of!(self, avoid(window, acked));
    }

    /// The sender enters another state; `window` still has the old one (`set_state`).
    pub fn on_state(&mut self, window: &mut Window, state: State, now_ns: u64) {
        of!(self, on_state(window, state, now_ns));
    }

    /// An event occurs (`cwnd_event`).
    pub fn on_event(&mut self, window: &mut Window, event: Event, now_ns: u64) {
        of!(self, on_event(window, event, now_ns));
    }

    /// Packets have been taken off the queue, and losses not yet been marked (`pkts_acked` and `in_ack_event`, which
    /// the kernel calls one after the other): `losses` of the sample is not known yet.
    pub fn on_acked(&mut self, window: &mut Window, acked: &Acked) {
        of!(self, on_acked(window, acked));
    }

    /// The window, in packets, to restore after a spurious reduction (`undo_cwnd`).
    pub fn undo(&mut self, window: &Window) -> u32 {
        of!(self, undo(window))
    }

    /// Sets the window and the pacing rate at the end of an acknowledgement (`cong_control`). Returns false if the
    /// algorithm leaves them to [`avoid`](Law::avoid), the sender's reduction, and [`pacing`](super::pacing).
    pub fn control(&mut self, window: &mut Window, acked: &Acked) -> bool {
        of!(self, control(window, acked))
    }

    /// Whether packets must be paced.
    #[must_use]
    pub fn sends_paced(&self) -> bool {
        of!(self, sends_paced())
    }

    /// Minimum packets of a burst, if that many are available (`min_tso_segs`).
    #[must_use]
    pub fn min_tso_segments(&self, window: &Window) -> u32 {
        of!(self, min_tso_segments(window))
    }

    /// Windows that the send buffer has room for (`sndbuf_expand`).
    #[must_use]
    pub fn sndbuf_expand(&self) -> u32 {
        of!(self, sndbuf_expand())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_law_has_the_name_that_finds_it() {
        for name in Law::names() {
            assert_eq!(Law::named(name, Hz::default(), 0).unwrap().name(), name);
        }
        assert!(Law::named("tahoe", Hz::default(), 0).is_none());
    }

    #[test]
    fn only_bbr_paces_and_wants_three_windows_of_buffer() {
        for name in Law::names() {
            let law = Law::named(name, Hz::default(), 0).unwrap();
            assert_eq!(law.sends_paced(), name == "bbr");
            assert_eq!(law.sndbuf_expand(), if name == "bbr" { 3 } else { 2 });
            assert_eq!(law.min_tso_segments(&Window::new(1448)), 2);
        }
    }
}
