//! INET_DIAG: the kernel's view of TCP sockets of other processes, by netlink (sock_diag(7)).
//!
//! [`Diag::dump`] finds the sockets that match a filter, for which the kernel walks its whole table of connections;
//! [`Diag::ask`] queries known sockets again, at a cost per socket. Neither needs privileges.

mod bytecode;
mod message;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use crate::TcpInfo;
use crate::expression::Expression;
use crate::queues::Memory;
use message::{Answer, answers, dump_request, exact_request};

/// Bytes of the kernel's largest response datagram.
const DATAGRAM_BYTES: usize = 64 << 10;

/// Sockets queried at once: the responses must fit in the receive buffer of the netlink socket, which counts up to 2304
/// bytes for each.
const ASKED_AT_ONCE: usize = 64;

/// The kernel responds at once; this timeout is an error.
const PATIENCE: Duration = Duration::from_secs(5);

/// One end of a TCP connection, as the kernel identifies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Connection {
    /// The socket's cookie, unique among all sockets of a running kernel.
    pub cookie: u64,
    /// The socket's own address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// The interface that the socket is bound to, or 0.
    pub interface: u32,
    /// Its inode in /proc/PID/fd; 0 once its program has closed it.
    pub inode: u32,
}

/// A socket and its state at one moment.
#[derive(Debug, Clone)]
pub struct SocketInfo {
    /// The connection.
    pub connection: Connection,
    /// Its TCP_INFO.
    pub info: TcpInfo,
    /// The name of its congestion control.
    pub congestion_control: String,
    /// Memory of its buffers, if the kernel reports it.
    pub memory: Option<Memory>,
}

/// INET_DIAG cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DiagError {
    /// The kernel has no INET_DIAG for TCP.
    #[error(
        "this kernel has no INET_DIAG for TCP sockets: load it with `modprobe tcp_diag`, or use \
         a kernel with CONFIG_INET_TCP_DIAG"
    )]
    Missing,
    /// Any other error.
    #[error("cannot {action} the kernel's table of TCP sockets: {source}")]
    System {
        /// "open", "ask" or "read".
        action: &'static str,
        /// The error.
        source: io::Error,
    },
}

impl DiagError {
    fn system(action: &'static str, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::EPROTONOSUPPORT) => DiagError::Missing,
            _ => DiagError::System { action, source },
        }
    }
}

/// A netlink socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Diag {
    socket: OwnedFd,
    buffer: Vec<u8>,
    sequence: u32,
}

impl Diag {
    /// Opens one in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`DiagError`] when the kernel lacks this netlink family.
    pub fn open() -> Result<Diag, DiagError> {
        let open = || -> rustix::io::Result<OwnedFd> {
            let socket = rustix::net::socket_with(
                AddressFamily::NETLINK,
                SocketType::DGRAM,
                SocketFlags::CLOEXEC,
                Some(rustix::net::netlink::SOCK_DIAG),
            )?;
            sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
            Ok(socket)
        };
        Ok(Diag {
            socket: open().map_err(|errno| DiagError::system("open", errno))?,
            buffer: vec![0; DATAGRAM_BYTES],
            sequence: 0,
        })
    }

    /// Every socket with a connection that matches `filter`, or all. The kernel does the filtering.
    ///
    /// # Errors
    /// [`DiagError`] when the kernel does not respond.
    pub fn dump(&mut self, filter: Option<&Expression>) -> Result<Vec<SocketInfo>, DiagError> {
        let program = filter.map(bytecode::program);
        let mut found = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            self.sequence = self.sequence.wrapping_add(1);
            let request = dump_request(family, self.sequence, program.as_deref());
            self.send(&request)?;
            let mut done = false;
            while !done {
                let datagram = self.receive()?;
                for answer in answers(datagram) {
                    match answer {
                        Answer::Socket { socket, .. } => found.extend(socket.map(|s| *s)),
                        Answer::Refused(error) => {
                            // A kernel without IPv6 has no IPv6 sockets.
                            if family == libc::AF_INET6 {
                                return Ok(found);
                            }
                            return Err(DiagError::system("read", error));
                        }
                        Answer::Done => done = true,
                    }
                }
            }
        }
        Ok(found)
    }

    /// Queries each of `connections`; returns the answers in that order, `None` for connections that no longer exist.
    ///
    /// # Errors
    /// [`DiagError`] when the kernel does not respond.
    pub fn ask(
        &mut self,
        connections: &[Connection],
    ) -> Result<Vec<Option<SocketInfo>>, DiagError> {
        let mut found = Vec::with_capacity(connections.len());
        for some in connections.chunks(ASKED_AT_ONCE) {
            let first = self.sequence.wrapping_add(1);
            self.sequence = first.wrapping_add(some.len() as u32);
            let request: Vec<u8> = some
                .iter()
                .zip(0..)
                .flat_map(|(connection, place)| {
                    exact_request(connection, first.wrapping_add(place))
                })
                .collect();
            self.send(&request)?;
            let mut of_some: Vec<Option<SocketInfo>> = vec![None; some.len()];
            let mut left = some.len();
            while left > 0 {
                let datagram = self.receive()?;
                for answer in answers(datagram) {
                    left = left.saturating_sub(1);
                    if let Answer::Socket { sequence, socket } = answer {
                        let place = sequence.wrapping_sub(first) as usize;
                        if let Some(slot) = of_some.get_mut(place) {
                            *slot = socket.map(|s| *s);
                        }
                    }
                }
            }
            found.extend(of_some);
        }
        Ok(found)
    }

    fn send(&self, bytes: &[u8]) -> Result<(), DiagError> {
        rustix::net::send(&self.socket, bytes, SendFlags::empty())
            .map(|_| ())
            .map_err(|errno| DiagError::system("ask", errno))
    }

    fn receive(&mut self) -> Result<&[u8], DiagError> {
        loop {
            match rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((_, 0)) => {
                    let error = io::Error::from(io::ErrorKind::UnexpectedEof);
                    return Err(DiagError::system("read", error));
                }
                Ok((_, bytes)) => return Ok(&self.buffer[..bytes.min(DATAGRAM_BYTES)]),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(DiagError::system("read", errno)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{TcpListener, TcpStream};

    fn pair(at: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(at).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn seen(diag: &mut Diag, expression: &str) -> Vec<SocketInfo> {
        let expression: Expression = expression.parse().unwrap();
        diag.dump(Some(&expression)).unwrap()
    }

    #[test]
    fn both_ends_are_found_and_asked_again_until_they_are_gone() {
        let (client, server) = pair("127.0.0.1:0");
        let mut diag = Diag::open().unwrap();
        let port = server.local_addr().unwrap().port();
        let found = seen(&mut diag, &format!("sport = {port} or dport = {port}"));
        assert_eq!(found.len(), 2, "{found:?}");
        let own = found
            .iter()
            .find(|s| s.connection.local == client.local_addr().unwrap())
            .unwrap();
        assert_eq!(own.connection.remote, client.peer_addr().unwrap());
        let cc = crate::congestion::of(&client).unwrap();
        assert_eq!(own.congestion_control, cc);
        // TCP_INFO by getsockopt(2) on the socket itself.
        let direct = TcpInfo::of(&client).unwrap();
        assert_eq!(own.info.cwnd_packets(), direct.cwnd_packets());

        let both: Vec<Connection> = found.iter().map(|s| s.connection).collect();
        let again = diag.ask(&both).unwrap();
        assert_eq!(again.iter().flatten().count(), 2, "{again:?}");
        // RST instead of FIN: no state of either end remains.
        let now = Some(Duration::ZERO);
        sockopt::set_socket_linger(&client, now).unwrap();
        drop(client);
        drop(server);
        let gone = diag.ask(&both).unwrap();
        assert!(matches!(gone[..], [None, None]), "{gone:?}");
    }

    #[test]
    fn more_sockets_than_fit_in_one_question() {
        let pairs: Vec<_> = (0..150).map(|_| pair("127.0.0.1:0")).collect();
        let mut diag = Diag::open().unwrap();
        let all: Vec<Connection> = diag
            .dump(None)
            .unwrap()
            .iter()
            .map(|socket| socket.connection)
            .filter(|c| {
                let is = |s: &TcpStream| s.local_addr().unwrap() == c.local;
                pairs
                    .iter()
                    .any(|(a, b)| (is(a) || is(b)) && (a.peer_addr().unwrap() == c.remote || is(b)))
            })
            .collect();
        assert!(all.len() >= 300, "{}", all.len());
        let again = diag.ask(&all).unwrap();
        let found: Vec<Connection> = again.iter().flatten().map(|s| s.connection).collect();
        assert_eq!(found, all);
    }

    /// Expressions over the addresses and ports that the test's sockets have.
    fn expressions(ports: Vec<u16>) -> impl Strategy<Value = String> {
        let ends = prop::sample::select(vec!["s", "d"]);
        let compare = prop::sample::select(vec!["=", "!=", "<", "<=", ">", ">="]);
        let port = (ends.clone(), compare, prop::sample::select(ports))
            .prop_map(|(end, compare, port)| format!("{end}port {compare} {port}"));
        let addresses = vec![
            "127.0.0.0/8",
            "127.0.0.1",
            "127.0.0.2",
            "10.0.0.0/8",
            "0.0.0.0/0",
            "::1",
            "::/0",
            "::/65",
            "*",
        ];
        let address = (ends, prop::sample::select(addresses)).prop_map(|(end, address)| {
            let end = if end == "s" { "src" } else { "dst" };
            format!("{end} {address}")
        });
        let leaf = prop_oneof![port, address];
        leaf.prop_recursive(5, 40, 3, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("( {a} and {b} )")),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("( {a} or {b} )")),
                inner.prop_map(|a| format!("not ( {a} )")),
            ]
        })
    }

    #[test]
    fn the_kernel_takes_the_sockets_that_an_expression_means() {
        let mut pairs = vec![pair("127.0.0.1:0"), pair("127.0.0.2:0")];
        let v6 = TcpListener::bind("[::]:0").ok().and_then(|listener| {
            let port = listener.local_addr().unwrap().port();
            let mapped = TcpStream::connect(("127.0.0.1", port)).ok()?;
            Some((mapped, listener.accept().unwrap().0))
        });
        pairs.extend(v6);
        if TcpListener::bind("[::1]:0").is_ok() {
            pairs.push(pair("[::1]:0"));
        }
        let ends: Vec<(SocketAddr, SocketAddr)> = pairs
            .iter()
            .flat_map(|(a, b)| [a, b])
            .map(|s| (s.local_addr().unwrap(), s.peer_addr().unwrap()))
            .collect();
        let ports = ends.iter().map(|(local, _)| local.port()).collect();
        let diag = std::cell::RefCell::new(Diag::open().unwrap());
        proptest!(ProptestConfig::with_cases(64), |(text in expressions(ports))| {
            let expression: Expression = text.parse().unwrap();
            let taken = diag.borrow_mut().dump(Some(&expression)).unwrap();
            for (local, remote) in &ends {
                let kernel = taken
                    .iter()
                    .any(|s| s.connection.local == *local && s.connection.remote == *remote);
                prop_assert_eq!(
                    kernel, expression.matches(*local, *remote), "{} {} {}", text, local, remote
                );
            }
        });
    }
}
