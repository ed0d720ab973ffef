//! Decodes the records of `src/bpf/watch.bpf.c`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use wansan_trace::Instant;
use wansan_trace::event::CongestionState;
use wansan_trace::event::{Tcp, TcpEvent};

use super::super::traced::{Traced, What};
use super::callers::Callers;

/// `struct record`.
const RECORD_BYTES: usize = 80;

const CHANGE: u32 = 0;
const STATE: u32 = 1;
const RETRANSMIT: u32 = 2;
const BEGIN: u32 = 3;
const END: u32 = 4;
const UNDO: u32 = 5;

/// Fields one after another.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_ne_bytes)
    }
}

/// Decodes one record; `None` when it is invalid.
pub(super) fn decode(bytes: &[u8], callers: &Callers) -> Option<Traced> {
    let mut fields = Fields(bytes.get(..RECORD_BYTES)?);
    let more = &mut Fields(&bytes[RECORD_BYTES..]);
    let time = Instant::from_ns(fields.u64()?);
    let cookie = fields.u64()?;
    let acked_bytes = fields.u64()?;
    let pacing_bytes_per_s = fields.u64()?;
    let kind = fields.u32()?;
    let congestion_state = CongestionState(u8::try_from(fields.u32()?).ok()?);
    let state = Tcp {
        congestion_state,
        acked_bytes,
        pacing_bytes_per_s,
        cwnd_packets: fields.u32()?,
        ssthresh_packets: fields.u32()?,
        mss_bytes: fields.u32()?,
        in_flight_packets: fields.u32()?,
        // Whole microseconds, as in TCP_INFO.
        srtt_ns: u64::from(fields.u32()? >> 3) * 1000,
        rwnd_bytes: fields.u32()?,
        unsent_bytes: fields.u32()?,
        retransmits: fields.u32()?,
        delivered_ce: fields.u32()?,
        timeouts: fields.u32()?,
        ..Tcp::BLANK
    };
    let what = match kind {
        CHANGE => What::Event(TcpEvent::Change),
        RETRANSMIT => What::Event(TcpEvent::Retransmit),
        UNDO => What::Event(TcpEvent::Undo),
        END => What::End,
        STATE => What::Event(entered(congestion_state, more, callers)?),
        BEGIN => begun(more)?,
        _ => return None,
    };
    Some(Traced {
        time,
        cookie,
        what,
        state,
    })
}

fn entered(state: CongestionState, more: &mut Fields<'_>, callers: &Callers) -> Option<TcpEvent> {
    let ece = more.u64()? != 0;
    let frames = std::iter::from_fn(|| more.u64());
    Some(match state {
        CongestionState::CWR => callers.cause(frames, ece),
        CongestionState::RECOVERY => TcpEvent::Recovery,
        CongestionState::LOSS => TcpEvent::Loss,
        _ => TcpEvent::Change,
    })
}

fn begun(more: &mut Fields<'_>) -> Option<What> {
    let (local_port, remote_port) = (more.u16()?, more.u16()?);
    let interface = more.u32()?;
    let family = more.u64()?;
    let (local, remote) = (more.array::<16>()?, more.array::<16>()?);
    let name: [u8; 16] = more.array()?;
    let address = |bytes: [u8; 16]| match i32::try_from(family).ok()? {
        libc::AF_INET => {
            let [a, b, c, d, ..] = bytes;
            Some(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
        }
        libc::AF_INET6 => Some(IpAddr::V6(Ipv6Addr::from(bytes))),
        _ => None,
    };
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(What::Begin {
        local: SocketAddr::new(address(local)?, local_port),
        remote: SocketAddr::new(address(remote)?, remote_port),
        interface,
        congestion_control: String::from_utf8_lossy(name).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_stands_in_the_ring_never_panics(
            bytes in prop::collection::vec(any::<u8>(), 0..256),
            kind in 0_u32..8,
        ) {
            let mut bytes = bytes;
            if let Some(place) = bytes.get_mut(32..36) {
                place.copy_from_slice(&kind.to_ne_bytes());
            }
            let _ = decode(&bytes, &Callers::default());
        }
    }
}
