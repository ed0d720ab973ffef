//! Minimal ways to forward bytes between two sockets: one thread, no limits, no error handling except end of file.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use wansan_server::poller::{Poller, Ready};
use wansan_trace::clock;

use crate::sockmap::Sockmap;

const BUFFER_BYTES: usize = 64 << 10;
const PIPE_BYTES: usize = 256 << 10;
const LISTENER: u64 = u64::MAX;

/// One direction.
enum Forwarder {
    /// Bytes read and not written yet.
    Copy {
        buffer: Vec<u8>,
        from: usize,
        to: usize,
    },
    /// A pipe, and the number of bytes in it.
    Splice {
        reader: OwnedFd,
        writer: OwnedFd,
        bytes: usize,
    },
}

impl Forwarder {
    fn new(is_splice: bool) -> io::Result<Forwarder> {
        if !is_splice {
            let buffer = vec![0; BUFFER_BYTES];
            return Ok(Forwarder::Copy {
                buffer,
                from: 0,
                to: 0,
            });
        }
        let (reader, writer) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
        fcntl_setpipe_size(&writer, PIPE_BYTES)?;
        Ok(Forwarder::Splice {
            reader,
            writer,
            bytes: 0,
        })
    }

    /// Forwards as much as possible; false at the end.
    fn carry(&mut self, source: &TcpStream, sink: &TcpStream) -> bool {
        loop {
            let moved = match self {
                Forwarder::Copy { buffer, from, to } if *from < *to => {
                    let sent = send(
                        sink,
                        &buffer[*from..*to],
                        SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
                    );
                    sent.inspect(|bytes| *from += bytes)
                }
                Forwarder::Copy { buffer, from, to } => {
                    let read = recv(source, &mut buffer[..], RecvFlags::DONTWAIT);
                    read.map(|(_, bytes)| {
                        (*from, *to) = (0, bytes);
                        bytes
                    })
                }
                Forwarder::Splice { reader, bytes, .. } if *bytes > 0 => {
                    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
                    splice(reader, None, sink, None, *bytes, flags).inspect(|sent| *bytes -= sent)
                }
                Forwarder::Splice { writer, bytes, .. } => {
                    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
                    let read = splice(source, None, writer, None, PIPE_BYTES, flags);
                    read.inspect(|read| *bytes = *read)
                }
            };
            match moved {
                Ok(1..) => {}
                Err(Errno::AGAIN) => return true,
                Ok(0) | Err(_) => return false,
            }
        }
    }
}

struct Flow {
    sides: [TcpStream; 2],
    forwarders: [Forwarder; 2],
}

/// Forwards flows to `to` forever; passes its address to `told` first.
pub(crate) fn serve(
    way: &str,
    to: SocketAddr,
    told: impl Fn(SocketAddr) -> io::Result<()>,
) -> io::Result<()> {
    let sockmap = match way {
        "sockmap" => Some(Sockmap::new()?),
        _ => None,
    };
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let poller = Poller::new()?;
    poller.add(&listener, LISTENER)?;
    told(listener.local_addr()?)?;
    let mut flows: Vec<Option<Flow>> = Vec::new();
    let mut ready: Vec<Ready> = Vec::new();
    loop {
        let now = clock::now();
        poller.wait(now, None, &mut ready)?;
        for event in &ready {
            if event.source == LISTENER {
                let (client, _) = listener.accept()?;
                let target = TcpStream::connect(to)?;
                let sides = [client, target];
                for side in &sides {
                    side.set_nodelay(true)?;
                    // splice(2) honours this for sockets, and not its own flag.
                    side.set_nonblocking(true)?;
                }
                if let Some(sockmap) = &sockmap {
                    sockmap.join(&sides)?;
                    // The program sees data that arrives from now on. Data already queued would stay there with the
                    // window closed; it may be overtaken here, which a real proxy would have to prevent.
                    Forwarder::new(false)?.carry(&sides[0], &sides[1]);
                }
                for (side, place) in sides.iter().zip(0..) {
                    poller.add_edges(side, (flows.len() as u64) << 1 | place)?;
                }
                let forwarders = [
                    Forwarder::new(way == "splice")?,
                    Forwarder::new(way == "splice")?,
                ];
                flows.push(Some(Flow { sides, forwarders }));
                continue;
            }
            let place = (event.source >> 1) as usize;
            let Some(flow) = &mut flows[place] else {
                continue;
            };
            let goes_on = match &sockmap {
                Some(_) => !event.ending,
                None => {
                    let [client, target] = &flow.sides;
                    let [onward, back] = &mut flow.forwarders;
                    onward.carry(client, target) && back.carry(target, client)
                }
            };
            if !goes_on {
                flows[place] = None;
            }
        }
    }
}
