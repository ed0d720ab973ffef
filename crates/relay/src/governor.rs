//! Holds the backlogs of a flow to a time, by the law of its listener.

use std::os::fd::AsFd;
use std::time::Duration;

use wansan_settings::quantity::Size;
use wansan_tcp::ece::Signals;
use wansan_tcp::{TcpInfo, options};
use wansan_trace::Instant;

use crate::direction::Direction;
use crate::drain::Drain;
use crate::echo::{Echo, Fallback, FellBack};
use crate::law::Law;
use crate::route::Route;
use crate::shares::Shares;
use crate::side::{CLIENT, Side, TARGET};
use crate::window::{ReceiveBuffer, Window};

/// How often it is reckoned anew while bytes move.
const INTERVAL: Duration = Duration::from_millis(1);

/// What a flow's law has in force.
#[derive(Debug)]
pub(crate) struct Governor {
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
    /// Of the flow of that number; `None` where nothing is to be held to anything.
    pub(crate) fn new(route: &Route, number: u64) -> Option<Governor> {
        let bound = route.bound.as_ref()?;
        let flow = &route.config.flow;
        Some(Governor {
            law: bound.law,
            latency: bound.latency,
            next: Instant::ZERO,
            shares: [None; 2],
            drains: Default::default(),
            windows: [&flow.r#in, &flow.out]
                .map(|side| Window::new(side.receive_buffer.map(Size::bytes))),
            echo: Echo::new(bound, number),
        })
    }

    /// Takes in that the connection of that side stands.
    pub(crate) fn connected(&self, side: usize, connection: impl AsFd) {
        let echo = self.echo.as_ref().filter(|echo| echo.side() == side);
        if let Some(echo) = echo {
            echo.attach(connection);
        }
    }

    /// The side that is asked by ECE, under a law that asks.
    pub(crate) fn asked_side(&self) -> Option<usize> {
        self.echo.as_ref().map(Echo::side)
    }

    /// By what it holds.
    pub(crate) fn law(&self) -> Law {
        self.law
    }

    /// What the direction from that side may have in each place.
    pub(crate) fn shares(&self, from: usize) -> Option<Shares> {
        self.shares[from]
    }

    /// How often ECE began, as of the last look.
    pub(crate) fn signals(&self) -> u64 {
        self.echo.as_ref().map_or(0, |echo| echo.signals().signals)
    }

    /// What came of signals until now, and why they are of no use, if so; `None` under a law without.
    pub(crate) fn ece(&self, sides: &[Side; 2]) -> Option<(Signals, Option<Fallback>)> {
        let echo = self.echo.as_ref()?;
        Some((echo.signals_of(sides), echo.fallback()))
    }

    /// That signals have been of no use since this was asked last, and why.
    pub(crate) fn take_news(&mut self) -> Option<FellBack> {
        self.echo.as_mut().and_then(Echo::take_news)
    }

    /// The receive buffer of that side, where the law bounds its window.
    pub(crate) fn buffer(&self, side: usize) -> Option<ReceiveBuffer> {
        self.windows[side].buffer()
    }

    /// Takes in how both sides go, and sets what follows from it.
    pub(crate) fn govern(&mut self, sides: &[Side; 2], ways: &[Direction; 2], now: Instant) {
        // P5's laws decide after every read.
        let is_of_p5 = matches!(self.law, Law::EceBound | Law::EceRed);
        if now < self.next && !is_of_p5 {
            return;
        }
        self.next = now + INTERVAL;
        // A connection that is gone needs no bounds.
        let [Ok(client), Ok(target)] = [CLIENT, TARGET].map(|side| TcpInfo::of(&sides[side]))
        else {
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
        let (asked, way, rate) = (&sides[from], &ways[from], rates[from]);
        let [incoming, outgoing] = match from {
            CLIENT => [&client, &target],
            _ => [&target, &client],
        };
        let unsent = u64::from(outgoing.unsent_bytes());
        if is_of_p5 {
            let unread = incoming.received_bytes();
            let read = way.moved_bytes + way.held_bytes() as u64;
            let waiting = way.held_bytes() as u64 + unsent + unread.saturating_sub(read);
            echo.after_read(asked, read, waiting, rate);
        } else {
            echo.arrival(asked, way.moved_bytes, unsent, rate, now);
        }
        echo.look(asked, incoming, outgoing, rate, now);
    }

    fn put_in_force(&mut self, sides: &[Side; 2], from: usize, incoming: &TcpInfo, shares: Shares) {
        let before = self.shares[from].replace(shares);
        self.windows[from].set(&sides[from], incoming, shares.window_bytes);
        if before.is_none_or(|before| before.unsent_bytes != shares.unsent_bytes) {
            // It fails only at a connection that is gone.
            let _ = options::set_most_unsent(&sides[1 - from], shares.unsent_bytes);
        }
    }
}
