//! Records of packets and links, as the emulator of real packets makes them.

use wansan_path::packet::Departure;
use wansan_trace::Instant;
use wansan_trace::event;

use crate::network::{IP_BYTES, Network, Wire};
use crate::tcp::segment::Segment;

impl Network {
    /// Records a packet that has left a link or was dropped there.
    pub(crate) fn record_packet(&mut self, link: u32, departure: &Departure<Box<Wire>>) {
        if !self.trace.packet.is_kept() {
            return;
        }
        let Some(sampler) = &self.links[link as usize].sampler else {
            return;
        };
        let Wire { to, segment, .. } = *departure.packet.payload;
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
            ip_bytes: (IP_BYTES + segment.header_bytes() + segment.bytes) as u16,
            window: (segment.window_bytes >> scale).min(u64::from(u16::MAX)) as u16,
            flags: flags(&segment),
            ecn: departure.packet.ecn as u8,
            verdict: departure.fate.into(),
        };
        self.trace.packet(packet);
    }

    /// Records what each link that has a name has done until now.
    pub fn record_links(&mut self) {
        let now = Instant::from_ns(self.now_ns());
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
