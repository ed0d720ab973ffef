//! Which packets towards the side that is asked say that they are ECN-capable, under a law that signals ECE:
//! none of a connection that has no ECN, where a mark would be without effect, and no SYN (RFC 3168 §6.1.1).

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SocketType, ipproto, recv, socket};
use wansan_path::{Effects, Limit};
use wansan_relay::Fallback;

use crate::linear_topology::{LinearTopology, PORT, text};
use crate::machine::Trouble;
use crate::program::LIMIT;

const CLIENT: usize = 0;
const RELAY: usize = 1;
const TARGET: usize = 2;

/// What goes each way: several segments, so that there are acknowledgements without data.
const BYTES: usize = 20_000;

/// Flags of TCP (RFC 9293 §3.1, RFC 3168 §6.1).
const FIN: u8 = 1;
const SYN: u8 = 2;
const ECE: u8 = 64;

/// Codepoints of the ECN field (RFC 3168 §5).
const NOT_ECT: u8 = 0;
const ECT_0: u8 = 2;

/// A packet that came from the relay.
#[derive(Debug, Clone, Copy)]
struct Packet {
    ecn: u8,
    flags: u8,
    has_data: bool,
}

impl Packet {
    /// From or to that port; `None` for those of another one.
    fn parse(bytes: &[u8], port: u16) -> Option<Packet> {
        let tcp = bytes.get(usize::from(bytes.first()? & 15) * 4..)?;
        let [from, to]: &[[u8; 2]; 2] = tcp.as_chunks().0.first_chunk()?;
        let is_of = |bytes: &[u8; 2]| u16::from_be_bytes(*bytes) == port;
        (is_of(from) || is_of(to)).then_some(())?;
        Some(Packet {
            ecn: bytes[1] & 3,
            flags: *tcp.get(13)?,
            has_data: tcp.len() > usize::from(tcp[12] >> 4) * 4,
        })
    }

    fn is_syn(&self) -> bool {
        self.flags & SYN != 0
    }
}

/// What came from the relay to the side of a flow that is asked, from its handshake to its end, and why signals
/// are of no use, if so; `ecn` are the settings of the host that connects and of the one that it connects to.
fn seen(asks_target: bool, ecn: [u8; 2]) -> Result<(Vec<Packet>, Option<Fallback>), String> {
    let far = Effects {
        queue_limit: Limit::bytes(16 << 20),
        ..Effects::default()
    };
    let line = LinearTopology::build(&["client", "relay", "target"], &[None, Some(far)], true)?;
    let (nodes, asked) = match asks_target {
        true => ([RELAY, TARGET], TARGET),
        false => ([CLIENT, RELAY], CLIENT),
    };
    for (node, setting) in nodes.into_iter().zip(ecn) {
        let set = move || std::fs::write("/proc/sys/net/ipv4/tcp_ecn", setting.to_string());
        line.node(node).run(set).map_err(text)?;
    }
    let (relay, target) = line.arrival(Duration::from_millis(20), asks_target)?;
    let at = relay.addresses()[0];
    let port = if asks_target { PORT } else { at.port() };
    // It gets a copy of every segment that comes to its host, with the IP header (raw(7)).
    let capture = line.node(asked).run(|| {
        let all = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::TCP))?;
        set_socket_timeout(&all, Timeout::Recv, Some(LIMIT)).map(|()| all)
    });
    let capture = capture.map_err(text)?;

    let client = line.node(CLIENT).run(move || TcpStream::connect(at));
    let client = client.map_err(text)?;
    let (server, _) = target.accept().map_err(text)?;
    let mut piece = vec![7; BYTES];
    for (mut from, mut to) in [(&client, &server), (&server, &client)] {
        from.write_all(&piece).map_err(text)?;
        to.set_read_timeout(Some(LIMIT)).map_err(text)?;
        to.read_exact(&mut piece).map_err(text)?;
    }
    let flow = relay.observer().snapshot().flows.into_iter().next();
    let ece = flow.and_then(|flow| flow.ece);
    let ece = ece.ok_or("no flow under a law that signals")?;
    for end in [&client, &server] {
        end.shutdown(Shutdown::Write).map_err(text)?;
    }
    let mut packets: Vec<Packet> = Vec::new();
    let mut bytes = vec![0; 1 << 16];
    while packets.last().is_none_or(|last| last.flags & FIN == 0) {
        let (_, length) = recv(&capture, &mut bytes, RecvFlags::empty()).map_err(text)?;
        packets.extend(Packet::parse(&bytes[..length], port));
    }
    drop(relay);
    line.end()?;
    Ok((packets, ece.fallback))
}

pub(crate) fn packets() -> Result<(), Trouble> {
    for (asks_target, ecn, is_negotiated) in [
        // A client that offers nothing, as the kernel's usual setting has it.
        (false, [2, 2], false),
        // A host of the relay that takes nothing up.
        (false, [1, 0], false),
        (false, [1, 2], true),
        // A relay whose host offers nothing, and a target that takes nothing up.
        (true, [2, 2], false),
        (true, [1, 0], false),
        (true, [1, 2], true),
    ] {
        let (packets, fallback) = seen(asks_target, ecn)?;
        let asked = if asks_target { "target" } else { "client" };
        eprintln!("{asked} {ecn:?}: {fallback:?} {packets:?}");
        let require = |holds: bool, what: &str| match holds {
            true => Ok(()),
            false => Err(format!("{asked} {ecn:?}: {what}: {fallback:?} {packets:?}")),
        };
        let (syns, others): (Vec<&Packet>, Vec<_>) = packets.iter().partition(|it| it.is_syn());
        let (data, bare): (Vec<&Packet>, Vec<_>) = others.iter().partition(|it| it.has_data);
        let all_are = |of: &[&Packet], ecn: u8| !of.is_empty() && of.iter().all(|it| it.ecn == ecn);
        require(all_are(&syns, NOT_ECT), "a SYN is ECN-capable")?;
        let has_ecn = syns.iter().all(|it| it.flags & ECE != 0);
        let is_right = has_ecn == (is_negotiated || asks_target && ecn[0] == 1);
        require(is_right, "ECN is offered, or taken up")?;
        if is_negotiated {
            require(all_are(&data, ECT_0), "data are not ECN-capable")?;
            require(fallback.is_none(), "signals are of no use")?;
        } else {
            require(all_are(&data, NOT_ECT), "data are ECN-capable")?;
            require(all_are(&bare, NOT_ECT), "an ACK is ECN-capable")?;
            let is_told = fallback == Some(Fallback::NoEcn);
            require(is_told, "nothing is told of ECN")?;
        }
    }
    Ok(())
}
