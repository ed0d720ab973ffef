//! Records of packets and links, in the same form as those of the emulator of real packets.

use wansan_path::packet::Departure;
use wansan_trace::Instant;
use wansan_trace::event;

use crate::network::{IP_BYTES, Network, Wire};
use crate::tcp::segment::Segment;

/// Bytes of a tunnel's outer IPv4 and UDP headers.
const OUTER_BYTES: u16 = IP_BYTES as u16 + 8;

impl Network {
    /// Records a packet that has left a link or was dropped there.
    pub(crate) fn record_packet(&mut self, link: u32, departure: &Departure<Box<Wire>>) {
        if !self.trace.packet.is_kept() {
            return;
        }
        let Some(sampler) = &self.links[link as usize].sampler else {
            return;
        };
        let wire = &*departure.packet.payload;
        let ip_bytes = self.ip_bytes(wire) as u16;
        if let Some((tunnel, _)) = wire.sealed {
            let [source, destination] = self.tunnels[tunnel as usize].ends;
            let packet = event::Packet {
                time: departure.entered,
                departed: departure.departed,
                path: sampler.id(),
                source,
                destination,
                seq: 0,
                ack: 0,
                payload_bytes: ip_bytes - OUTER_BYTES,
                ip_bytes,
                window: 0,
                flags: 0,
                ecn: departure.packet.ecn as u8,
                verdict: departure.fate.into(),
            };
            self.trace.packet(packet);
            return;
        }
        let Wire { to, segment, .. } = *wire;
        let receiver = &self.ends[to as usize];
        let Some([destination, source]) = receiver.addresses else {
            return;
        };
        let sender = &self.ends[receiver.peer as usize].connection;
        let scale = match segment.syn {
            true => 0,
            false => sender.receiver().window_scale(),
        };
        let packet = event::Packet {
            time: departure.entered,
            departed: departure.departed,
            path: sampler.id(),
            source,
            destination,
            seq: segment.seq as u32,
            ack: segment.ack as u32,
            payload_bytes: segment.bytes as u16,
            ip_bytes,
            window: (segment.window_bytes >> scale).min(u64::from(u16::MAX)) as u16,
            flags: flags(&segment),
            ecn: departure.packet.ecn as u8,
            verdict: departure.fate.into(),
        };
        self.trace.packet(packet);
    }

    /// Records the state of each named link, and the usage of each VPN thread so far.
    pub fn record_links(&mut self) {
        let now = Instant::from_ns(self.now_ns());
        self.record_vpn(now);
        if !self.trace.path.is_kept() {
            return;
        }
        for link in &mut self.links {
            if let Some(sampler) = &mut link.sampler {
                link.chain.advance(now);
                sampler.sample(now, &link.chain, 0, &mut self.trace);
            }
        }
    }
}

/// The flag byte of the header (RFC 9293 §3.1).
fn flags(segment: &Segment) -> u8 {
    let flag = |is_set: bool, bit: u8| u8::from(is_set) << bit;
    let begins = segment.syn && segment.ack == 0;
    flag(segment.cwr, 7)
        | flag(segment.ece, 6)
        | flag(!begins, 4)
        | flag(segment.push, 3)
        | flag(segment.rst, 2)
        | flag(segment.syn, 1)
        | flag(segment.fin, 0)
}
