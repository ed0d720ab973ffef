//! A sender, and a receiver that signals to it, over a path that has no other limit than its time.

use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use wansan_path::{Effects, Limit};
use wansan_tcp::congestion;
use wansan_tcp::ece::EceSignal;

use crate::linear_topology::{LinearTopology, text};
use crate::machine::{Machine, lateness};
use crate::program::LIMIT;

const PORT: u16 = 3260;

/// Both, and what is between them.
pub(crate) struct Pair {
    /// The sender's congestion control.
    control: String,
    /// One way.
    delay: Duration,
    line: LinearTopology,
    machine: Machine,
    pub(crate) signal: EceSignal,
}

/// A connection of the two.
pub(crate) struct Ends {
    pub(crate) from: TcpStream,
    pub(crate) to: TcpStream,
    sender: JoinHandle<std::io::Result<()>>,
}

impl Pair {
    /// With that congestion control of the sender.
    pub(crate) fn build(control: &str, round_trip: Duration) -> Result<Pair, String> {
        let delay = round_trip / 2;
        let effects = Effects {
            delay,
            queue_limit: Limit::bytes(16 << 20),
            ..Effects::default()
        };
        Ok(Pair {
            control: control.to_owned(),
            delay,
            line: LinearTopology::build(&["receiver", "sender"], &[Some(effects)], true)?,
            machine: Machine::watch(),
            signal: EceSignal::load().map_err(text)?,
        })
    }

    /// The ends of a connection on which `send` sends, until it cannot any more.
    pub(crate) fn connect(
        &self,
        send: impl FnOnce(TcpStream) -> std::io::Result<()> + Send + 'static,
    ) -> Result<Ends, String> {
        let address = (LinearTopology::address(0, 0), PORT);
        let listener = self.line.node(0).run(move || {
            let listener = TcpListener::bind(address).map_err(text)?;
            set_socket_recv_buffer_size_force(&listener, 8 << 20).map_err(text)?;
            Ok::<_, String>(listener)
        })?;
        let connected = self.line.node(1).run(move || TcpStream::connect(address));
        let from = connected.map_err(text)?;
        // Of its namespace it cannot be the usual one where the kernel restricts it.
        congestion::choose(&from, &self.control).map_err(text)?;
        let (to, _) = listener.accept().map_err(text)?;
        to.set_read_timeout(Some(LIMIT)).map_err(text)?;
        if !self.signal.attach(&to).map_err(text)? {
            return Err("the connection has no ECN".to_owned());
        }
        let stream = from.try_clone().map_err(text)?;
        let sender = thread::spawn(move || send(stream));
        Ok(Ends { from, to, sender })
    }

    /// Ends it all, and says what the machine did to it, where that was much.
    pub(crate) fn end(self, ends: Ends) -> Result<Option<String>, String> {
        let waiting = self.machine.waiting();
        drop(ends.to);
        let sender = ends.sender.join().map_err(|_| "the sender panicked")?;
        sender.map_err(text)?;
        let statistics = self.line.end()?;
        Ok(waiting.or_else(|| lateness(&statistics, self.delay)))
    }
}
