//! All tunnels of one router, served by one thread.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::WireGuardError;
use crate::config::Config;
use crate::tunnel::Tunnel;

/// How often the sessions' timers are checked.
const TICK: Duration = Duration::from_millis(250);
/// Maximum size of a config: far more than a router's tunnels need.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// An event of a router, one JSON object per line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// All devices exist (and are down), all sockets are open.
    Ready,
    /// The handshake of a tunnel is complete.
    Up {
        /// The tunnel's device.
        device: String,
    },
}

/// Reads a [`Config`] as JSON from `config` until its end, creates the devices, and serves the tunnels until the
/// process is killed. Writes [`Event`]s to `events`.
///
/// # Errors
/// [`WireGuardError`]; packets from a peer never cause one.
pub fn run(config: impl Read, mut events: impl Write) -> Result<Infallible, WireGuardError> {
    let config: Config = serde_json::from_reader(config.take(MAX_CONFIG_BYTES))
        .map_err(|error| WireGuardError::Control(error.into()))?;
    let mut tunnels = (0..)
        .zip(&config.tunnels)
        .map(|(index, tunnel)| Tunnel::open(tunnel, index))
        .collect::<Result<Vec<Tunnel>, _>>()?;
    drop(config);
    write_event(&mut events, &Event::Ready)?;
    tunnels.iter_mut().for_each(Tunnel::begin);
    let mut next_tick = Instant::now() + TICK;
    loop {
        let ready = wait(&tunnels, next_tick)?;
        for (tunnel, [device, socket]) in tunnels.iter_mut().zip(ready) {
            if device {
                tunnel.seal()?;
            }
            if socket {
                tunnel.open_sealed()?;
            }
            if tunnel.came_up() {
                let device = tunnel.name().to_owned();
                write_event(&mut events, &Event::Up { device })?;
            }
        }
        let now = Instant::now();
        if now >= next_tick {
            tunnels.iter_mut().for_each(Tunnel::tick);
            next_tick = now + TICK;
        }
    }
}

/// Waits until a device or socket is readable, or until `deadline`; returns which ones are, per tunnel.
fn wait(tunnels: &[Tunnel], deadline: Instant) -> Result<Vec<[bool; 2]>, WireGuardError> {
    let mut sides: Vec<PollFd<'_>> = tunnels
        .iter()
        .flat_map(Tunnel::sides)
        .map(|side| PollFd::from_borrowed_fd(side, PollFlags::IN))
        .collect();
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = Timespec::try_from(left).expect("a tick is short");
    match poll(&mut sides, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => {
            return Err(WireGuardError::Refused {
                action: "wait for the sides",
                device: tunnels.first().map_or("", Tunnel::name).to_owned(),
                source: errno.into(),
            });
        }
    }
    let is_ready = |side: &PollFd<'_>| !side.revents().is_empty();
    Ok(sides
        .chunks_exact(2)
        .map(|pair| [is_ready(&pair[0]), is_ready(&pair[1])])
        .collect())
}

fn write_event(events: &mut impl Write, event: &Event) -> Result<(), WireGuardError> {
    let mut line = serde_json::to_vec(event).map_err(io::Error::from);
    if let Ok(line) = &mut line {
        line.push(b'\n');
    }
    line.and_then(|line| events.write_all(&line))
        .and_then(|()| events.flush())
        .map_err(WireGuardError::Control)
}
