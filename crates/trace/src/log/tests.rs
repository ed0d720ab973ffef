//! Checks that a log returns what was put into it.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use proptest::prelude::*;

use super::*;
use crate::event::CongestionState;
use crate::event::{Crossing, Ecn, Packet, Path, Pdu, PduDirection, Seen, Tcp, TcpEvent, Verdict};
use crate::{ConnectionId, Direction, Instant, Layer, NameId, SessionId, TaskTag};

const MUCH: usize = 1 << 30;

/// Numbers as in records: small steps, and occasionally anything.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..3_u64, 0..70_000_u64, any::<u64>(), Just(u64::MAX)]
}

fn pdu() -> impl Strategy<Value = Pdu> {
    prop::array::uniform16(number()).prop_map(|n| Pdu {
        time: Instant::from_ns(n[0]),
        session: SessionId(n[1]),
        connection: ConnectionId(n[2] as u16),
        direction: PduDirection::ALL[n[3] as usize % 2],
        opcode: n[4] as u8,
        flags: n[5] as u8,
        task: TaskTag(n[6] as u32),
        transfer_tag: n[7] as u32,
        cmd_sn: n[8] as u32,
        stat_sn: n[9] as u32,
        exp_cmd_sn: n[10] as u32,
        max_cmd_sn: n[11] as u32,
        data_sn: n[12] as u32,
        buffer_offset: n[13] as u32,
        data_bytes: n[14] as u32,
        stream_offset: n[15],
    })
}

fn tcp() -> impl Strategy<Value = Tcp> {
    prop::array::uniform29(number()).prop_map(|n| Tcp {
        time: Instant::from_ns(n[0]),
        session: SessionId(n[1]),
        connection: ConnectionId(n[2] as u16),
        event: TcpEvent::ALL[n[3] as usize % TcpEvent::ALL.len()],
        congestion_state: CongestionState(n[4] as u8),
        cwnd_packets: n[5] as u32,
        ssthresh_packets: n[6] as u32,
        mss_bytes: n[7] as u32,
        in_flight_packets: n[8] as u32,
        srtt_ns: n[9],
        min_rtt_ns: n[10],
        rwnd_bytes: n[11] as u32,
        unsent_bytes: n[12] as u32,
        acked_bytes: n[13],
        pacing_bytes_per_s: n[14],
        delivery_bytes_per_s: n[15],
        busy_ns: n[16],
        rwnd_limited_ns: n[17],
        sndbuf_limited_ns: n[18],
        retransmits: n[19] as u32,
        delivered_ce: n[20] as u32,
        timeouts: n[21] as u32,
        unread_bytes: n[25] as u32,
        ece_signals: n[26] as u32,
        send_memory_bytes: n[27] as u32,
        send_buffer_bytes: n[28] as u32,
        ecn: Ecn::ALL[n[22] as usize % Ecn::ALL.len()],
        ends: NameId(n[23] as u16),
        seen: Seen::ALL[n[24] as usize % Seen::ALL.len()],
    })
}

fn address(family: u64, number: u64, port: u64) -> SocketAddr {
    let port = port as u16;
    if family.is_multiple_of(2) {
        SocketAddr::from((Ipv4Addr::from_bits(number as u32), port))
    } else {
        let bits = u128::from(number) << 64 | u128::from(!number);
        SocketAddr::from((Ipv6Addr::from_bits(bits), port))
    }
}

fn packet() -> impl Strategy<Value = Packet> {
    prop::array::uniform14(number()).prop_map(|n| Packet {
        time: Instant::from_ns(n[0]),
        departed: Instant::from_ns(n[1]),
        path: NameId(n[2] as u16),
        source: address(n[13], n[3], n[4]),
        destination: address(n[13], n[4], n[3]),
        seq: n[5] as u32,
        ack: n[6] as u32,
        payload_bytes: n[7] as u16,
        ip_bytes: n[8] as u16,
        window: n[9] as u16,
        flags: n[10] as u8,
        ecn: n[11] as u8,
        verdict: Verdict::ALL[n[12] as usize % Verdict::ALL.len()],
    })
}

fn path() -> impl Strategy<Value = Path> {
    prop::array::uniform17(number()).prop_map(|n| Path {
        time: Instant::from_ns(n[0]),
        path: NameId(n[1] as u16),
        queue_packets: n[2] as u32,
        queue_bytes: n[3],
        in_packets: n[4],
        in_bytes: n[5],
        out_packets: n[6],
        out_bytes: n[7],
        queue_drops: n[8],
        loss_drops: n[9],
        marks: n[10],
        busy_ns: n[11],
        delay_ns: n[12],
        lateness_ns: n[13],
        bits_per_s: n[14],
        queue_limit_packets: n[15],
        queue_limit_bytes: n[16],
    })
}

fn crossing() -> impl Strategy<Value = Crossing> {
    let small = (0..3_u64, 0..2_u64, 0..3_u32, 0..2_u16);
    (small, 0..Layer::ALL.len(), any::<bool>()).prop_map(|(small, layer, enters)| Crossing {
        time: Instant::from_ns(small.0),
        session: SessionId(small.1),
        task: TaskTag(small.2),
        connection: ConnectionId(small.3),
        layer: Layer::ALL[layer],
        direction: if enters {
            Direction::Enter
        } else {
            Direction::Leave
        },
    })
}

fn comes_back<T: Words + PartialEq + std::fmt::Debug>(records: &[T]) -> Result<(), TestCaseError> {
    let mut log = Log::new(true);
    let mut supply = Supply::ahead(MUCH);
    for record in records {
        log.push(&mut supply, record);
    }
    prop_assert_eq!(log.len(), records.len());
    let back: Vec<T> = log.iter().collect();
    prop_assert_eq!(back, records);
    Ok(())
}

proptest! {
    #[test]
    fn any_records_come_back(
        pdus in prop::collection::vec(pdu(), 0..40),
        tcps in prop::collection::vec(tcp(), 0..40),
        packets in prop::collection::vec(packet(), 0..40),
        paths in prop::collection::vec(path(), 0..40),
    ) {
        comes_back(&pdus)?;
        comes_back(&tcps)?;
        comes_back(&packets)?;
        comes_back(&paths)?;
    }

    /// Few layers and times, so that many crossings join.
    #[test]
    fn any_crossings_come_back(crossings in prop::collection::vec(crossing(), 0..200)) {
        let mut log = Log::new(true);
        let mut supply = Supply::ahead(MUCH);
        for crossing in &crossings {
            log.cross(&mut supply, *crossing);
        }
        let back: Vec<Crossing> = log.crossings().collect();
        prop_assert_eq!(back, crossings);
    }
}

fn pdu_at(ns: u64, tag: u32) -> Pdu {
    Pdu {
        time: Instant::from_ns(ns),
        session: SessionId(1),
        connection: ConnectionId(0),
        direction: PduDirection::Sent,
        opcode: 1,
        task: TaskTag(tag),
        ..Pdu::BLANK
    }
}

/// Several blocks in each of two logs, times out of order by more than a block, many of them equal.
#[test]
fn by_time_is_a_stable_sort_of_all_logs() {
    let mut state = 1_u32;
    let mut supply = Supply::ahead(MUCH);
    let mut logs = [Log::new(true), Log::new(true)];
    let mut all = Vec::new();
    for (place, log) in logs.iter_mut().enumerate() {
        for tag in 0..100_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Mostly increasing; every thousandth far in the past.
            let ago = if tag % 1000 == 0 {
                200_000
            } else {
                state >> 29
            };
            let record = pdu_at(u64::from((tag + 8_u32).saturating_sub(ago) / 4), tag);
            log.push(&mut supply, &record);
            all.push((place, record));
        }
        assert!(log.blocks().count() > 2);
    }
    all.sort_by_key(|(_, record)| record.time);
    let [one, other] = &logs;
    assert!(by_time(&[one, other]).eq(all));
}

#[test]
fn the_passage_that_may_still_grow_is_in_order_too() {
    let crossing = |ns, layer| Crossing {
        time: Instant::from_ns(ns),
        session: SessionId(1),
        task: TaskTag(1),
        connection: ConnectionId(0),
        layer,
        direction: Direction::Enter,
    };
    let mut supply = Supply::ahead(MUCH);
    let mut log = Log::new(true);
    for (ns, layer) in [(5, Layer::App), (9, Layer::Window), (2, Layer::Store)] {
        log.cross(&mut supply, crossing(ns, layer));
    }
    let times: Vec<u64> = by_time(&[&log]).map(|(_, p)| p.time.ns()).collect();
    assert_eq!(times, [2, 5, 9]);
}
