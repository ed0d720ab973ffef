//! Bounds the queueing delay of a flow according to the law of its listener.

use std::time::Duration;

use wansan_trace::Instant;

use super::drain::Drain;
use super::echo::Echo;
use super::window::Window;
use super::{
    CLIENT, Direction, Fallback, FellBack, Law, Memory, Order, Reading, ReceiveBuffer, Shares,
    SignalSettings, Signals, TARGET,
};

/// Interval between recalculations while bytes move.
const INTERVAL: Duration = Duration::from_millis(1);

/// A law with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// The law.
    pub law: Law,
    /// The queueing delay permitted to a byte.
    pub latency: Duration,
    /// Parameters of P5's laws.
    pub signals: SignalSettings,
    /// The side signalled with ECE, [`CLIENT`] or [`TARGET`], under a signalling law.
    pub asked: Option<usize>,
}

/// A driver's access to both sides of a flow. Setters have no effect on a connection that is gone.
pub trait Sides {
    /// TCP state of a side; `None` if it is gone.
    fn reading(&self, side: usize) -> Option<Reading>;
    /// Use of its receive buffer; `None` if it is gone.
    fn memory(&self, side: usize) -> Option<Memory>;
    /// Sets its receive buffer (SO_RCVBUF); returns the bytes granted.
    fn set_receive_buffer(&mut self, side: usize, bytes: u64) -> u64;
    /// Limits the window offered to its peer beyond what has arrived (TCP_WINDOW_CLAMP).
    fn set_window_clamp(&mut self, side: usize, bytes: u32);
    /// Limits its unsent bytes (TCP_NOTSENT_LOWAT).
    fn set_most_unsent(&mut self, side: usize, bytes: u32);
    /// Replaces the orders of its [`Receiver`](super::Receiver).
    fn order(&mut self, side: usize, order: &Order);
    /// Effect of its orders.
    fn signals(&self, side: usize) -> Signals;
}

/// Applies the law of one flow.
#[derive(Debug)]
pub struct Governor {
    law: Law,
    latency: Duration,
    next: Instant,
    /// For the directions from the client and from the target; `None` until both sides have been measured.
    shares: [Option<Shares>; 2],
    /// Drain rates of the directions from the client and from the target.
    drains: [Drain; 2],
    /// Windows of the client's side and of the target's.
    windows: [Window; 2],
    echo: Option<Echo>,
}

impl Governor {
    /// Governor of flow `number`; `receive_buffers` are the sizes set for its sides' receive buffers, if any.
    #[must_use]
    pub fn new(bound: &Bound, receive_buffers: [Option<usize>; 2], number: u64) -> Governor {
        let Bound {
            law,
            latency,
            signals,
            asked,
        } = *bound;
        Governor {
            law,
            latency,
            next: Instant::ZERO,
            shares: [None; 2],
            drains: Default::default(),
            windows: receive_buffers.map(Window::new),
            echo: asked.map(|side| Echo::new(law, latency, signals, side, number)),
        }
    }

    /// The side signalled with ECE, under a signalling law.
    #[must_use]
    pub fn asked_side(&self) -> Option<usize> {
        self.echo.as_ref().map(Echo::side)
    }

    /// The law in force.
    #[must_use]
    pub fn law(&self) -> Law {
        self.law
    }

    /// Limits for each place of the direction from that side.
    #[must_use]
    pub fn shares(&self, from: usize) -> Option<Shares> {
        self.shares[from]
    }

    /// The bytes that the relay may hold of the direction from that side, at most its configured `limit_bytes`.
    #[must_use]
    pub fn limit_bytes(&self, from: usize, limit_bytes: usize) -> usize {
        let share = self.shares[from];
        share.map_or(limit_bytes, |share| {
            limit_bytes.min(share.held_bytes as usize)
        })
    }

    /// Number of ECE signals started, as of the last check.
    #[must_use]
    pub fn signals(&self) -> u64 {
        self.echo.as_ref().map_or(0, |echo| echo.signals().signals)
    }

    /// Why signals have no effect at present, if they have none.
    #[must_use]
    pub fn fallback(&self) -> Option<Fallback> {
        self.echo.as_ref().and_then(Echo::fallback)
    }

    /// A fallback that was not reported before.
    pub fn take_news(&mut self) -> Option<FellBack> {
        self.echo.as_mut().and_then(Echo::take_news)
    }

    /// The receive buffer of that side, if the law bounds its window.
    #[must_use]
    pub fn buffer(&self, side: usize) -> Option<ReceiveBuffer> {
        self.windows[side].buffer()
    }

    /// Reads the state of both sides and sets their limits from it. It is called after each turn of the flow.
    pub fn govern(&mut self, sides: &mut impl Sides, ways: [&Direction; 2], now: Instant) {
        // P5's laws decide after every read.
        let is_of_p5 = matches!(self.law, Law::EceBound | Law::EceRed);
        if now < self.next && !is_of_p5 {
            return;
        }
        self.next = now + INTERVAL;
        // A connection that is gone needs no limits.
        let [Some(client), Some(target)] = [CLIENT, TARGET].map(|side| sides.reading(side)) else {
            return;
        };
        let rates = [
            self.drains[CLIENT].bytes_per_s(&target, now),
            self.drains[TARGET].bytes_per_s(&client, now),
        ];
        if !is_of_p5 {
            let latency = self.latency;
            let onward = Shares::of(latency, rates[CLIENT], &client, &target);
            let back = Shares::of(latency, rates[TARGET], &target, &client);
            self.put_in_force(sides, CLIENT, &client, onward);
            self.put_in_force(sides, TARGET, &target, back);
        }
        let Some(echo) = &mut self.echo else {
            return;
        };
        let from = echo.side();
        let (way, rate) = (ways[from], rates[from]);
        let [incoming, outgoing] = match from {
            CLIENT => [&client, &target],
            _ => [&target, &client],
        };
        let (moved, held) = (way.moved_bytes(), way.held_bytes() as u64);
        let unsent = u64::from(outgoing.unsent_bytes);
        let order = if is_of_p5 {
            let read = moved + held;
            let waiting = held + unsent + incoming.received_bytes.saturating_sub(read);
            echo.after_read(read, waiting, rate)
        } else {
            Some(echo.arrival(moved, unsent, rate, now))
        };
        if let Some(order) = order {
            sides.order(from, &order);
        }
        if echo.is_due(now) {
            echo.look(sides.signals(from), incoming, outgoing, rate, now);
        }
    }

    fn put_in_force(
        &mut self,
        sides: &mut impl Sides,
        from: usize,
        incoming: &Reading,
        shares: Shares,
    ) {
        let before = self.shares[from].replace(shares);
        self.windows[from].set(sides, from, incoming, shares.window_bytes);
        if before.is_none_or(|before| before.unsent_bytes != shares.unsent_bytes) {
            sides.set_most_unsent(1 - from, shares.unsent_bytes);
        }
    }
}
