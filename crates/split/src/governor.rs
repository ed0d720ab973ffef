//! Holds the backlogs of a flow to a time, by the law of its listener.

use std::time::Duration;

use wansan_trace::Instant;

use super::drain::Drain;
use super::echo::Echo;
use super::window::Window;
use super::{
    CLIENT, Direction, Fallback, FellBack, Law, Memory, Order, Reading, ReceiveBuffer, Shares,
    SignalSettings, Signals, TARGET,
};

/// How often it is reckoned anew while bytes move.
const INTERVAL: Duration = Duration::from_millis(1);

/// A law with all that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// The law.
    pub law: Law,
    /// What a byte may wait.
    pub latency: Duration,
    /// Parameters of P5's laws.
    pub signals: SignalSettings,
    /// Who is asked by ECE, [`CLIENT`] or [`TARGET`], under the laws that ask.
    pub asked: Option<usize>,
}

/// Both sides of a flow as a driver has them. What is set of a connection that is gone has no effect.
pub trait Sides {
    /// What TCP says of a side; `None` of one that is gone.
    fn reading(&self, side: usize) -> Option<Reading>;
    /// What is taken of its receive buffer; `None` of one that is gone.
    fn memory(&self, side: usize) -> Option<Memory>;
    /// Gives it a receive buffer of so many bytes (SO_RCVBUF); how many it got.
    fn set_receive_buffer(&mut self, side: usize, bytes: u64) -> u64;
    /// Offers its peer so many bytes at most beyond what has come (TCP_WINDOW_CLAMP).
    fn set_window_clamp(&mut self, side: usize, bytes: u32);
    /// Lets so many bytes wait unsent at most (TCP_NOTSENT_LOWAT).
    fn set_most_unsent(&mut self, side: usize, bytes: u32);
    /// Gives its [`Receiver`](super::Receiver) orders, in place of those that it had.
    fn order(&mut self, side: usize, order: &Order);
    /// What came of its orders.
    fn signals(&self, side: usize) -> Signals;
}

/// What a flow's law has in force.
#[derive(Debug)]
pub struct Governor {
    law: Law,
    latency: Duration,
    next: Instant,
    /// From the client to the target, and back; `None` until both sides have been measured.
    shares: [Option<Shares>; 2],
    /// What goes to the target, and to the client.
    drains: [Drain; 2],
    /// Of the client, and of the target.
    windows: [Window; 2],
    echo: Option<Echo>,
}

impl Governor {
    /// Of the flow of that number, whose sides' receive buffers are set to so many bytes, if they are.
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

    /// The side that is asked by ECE, under a law that asks.
    #[must_use]
    pub fn asked_side(&self) -> Option<usize> {
        self.echo.as_ref().map(Echo::side)
    }

    /// By what it holds.
    #[must_use]
    pub fn law(&self) -> Law {
        self.law
    }

    /// What the direction from that side may have in each place.
    #[must_use]
    pub fn shares(&self, from: usize) -> Option<Shares> {
        self.shares[from]
    }

    /// What the direction from that side may hold, in bytes, where its settings have `limit_bytes`.
    #[must_use]
    pub fn limit_bytes(&self, from: usize, limit_bytes: usize) -> usize {
        let share = self.shares[from];
        share.map_or(limit_bytes, |share| {
            limit_bytes.min(share.held_bytes as usize)
        })
    }

    /// How often ECE began, as of the last look.
    #[must_use]
    pub fn signals(&self) -> u64 {
        self.echo.as_ref().map_or(0, |echo| echo.signals().signals)
    }

    /// Why signals are of no use now, if they are not.
    #[must_use]
    pub fn fallback(&self) -> Option<Fallback> {
        self.echo.as_ref().and_then(Echo::fallback)
    }

    /// That signals have been of no use since this was asked last, and why.
    pub fn take_news(&mut self) -> Option<FellBack> {
        self.echo.as_mut().and_then(Echo::take_news)
    }

    /// The receive buffer of that side, where the law bounds its window.
    #[must_use]
    pub fn buffer(&self, side: usize) -> Option<ReceiveBuffer> {
        self.windows[side].buffer()
    }

    /// Takes in how both sides go, and sets what follows from it. It is called after each turn of the flow.
    pub fn govern(&mut self, sides: &mut impl Sides, ways: [&Direction; 2], now: Instant) {
        // P5's laws decide after every read.
        let is_of_p5 = matches!(self.law, Law::EceBound | Law::EceRed);
        if now < self.next && !is_of_p5 {
            return;
        }
        self.next = now + INTERVAL;
        // A connection that is gone needs no bounds.
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
