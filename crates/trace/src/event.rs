//! The record kinds.

use core::net::SocketAddr;

use crate::{ConnectionId, Direction, Instant, Layer, NameId, SessionId, TaskTag};

/// `io`: one I/O crossed one layer's boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crossing {
    /// When.
    pub time: Instant,
    /// The session that carries the I/O.
    pub session: SessionId,
    /// The I/O's task in that session.
    pub task: TaskTag,
    /// The connection that carries the task; above [`Layer::Window`] the connection may not be
    /// chosen yet, and this is 0 then.
    pub connection: ConnectionId,
    /// The layer.
    pub layer: Layer,
    /// Into it or out of it.
    pub direction: Direction,
}

/// Whether the recording end sent or received the PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PduDirection {
    /// It was queued for sending.
    Sent,
    /// It was parsed after reading.
    Received,
}

/// `pdu`: one PDU's sequence numbers and lengths (RFC 7143 §11). A field that the PDU's kind does
/// not have is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pdu {
    /// When.
    pub time: Instant,
    /// The session; its TSIH is 0 before login has ended.
    pub session: SessionId,
    /// The connection.
    pub connection: ConnectionId,
    /// Sent or received by the end that recorded it.
    pub direction: PduDirection,
    /// Opcode with the immediate bit cleared.
    pub opcode: u8,
    /// The second byte of the header (F, R, W, status bits and so on).
    pub flags: u8,
    /// Initiator Task Tag.
    pub task: TaskTag,
    /// Target Transfer Tag.
    pub transfer_tag: u32,
    /// CmdSN of a request.
    pub cmd_sn: u32,
    /// ExpStatSN of a request, StatSN of an answer.
    pub stat_sn: u32,
    /// ExpCmdSN of an answer.
    pub exp_cmd_sn: u32,
    /// MaxCmdSN of an answer.
    pub max_cmd_sn: u32,
    /// DataSN or R2TSN.
    pub data_sn: u32,
    /// Buffer Offset.
    pub buffer_offset: u32,
    /// Length of the data segment without padding.
    pub data_bytes: u32,
    /// Where the PDU's first byte stands in its direction's TCP stream, from 0.
    pub stream_offset: u64,
}

/// What made a `tcp` record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TcpEvent {
    /// Taken because it was time for it.
    Sample,
    /// The congestion window was reduced without a loss (ECE or a full local queue).
    Cwr,
    /// Fast recovery began.
    Recovery,
    /// A retransmission time-out.
    Loss,
    /// A segment was sent again.
    Retransmit,
}

/// `tcp`: the kernel's view of one connection (TCP_INFO of Linux).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tcp {
    /// When.
    pub time: Instant,
    /// The session.
    pub session: SessionId,
    /// The connection.
    pub connection: ConnectionId,
    /// Why it was recorded.
    pub event: TcpEvent,
    /// Congestion state: 0 Open, 1 Disorder, 2 CWR, 3 Recovery, 4 Loss.
    pub congestion_state: u8,
    /// Congestion window, in segments.
    pub cwnd_packets: u32,
    /// Slow-start threshold, in segments (2^31 − 1 while none is set).
    pub ssthresh_packets: u32,
    /// Sending maximum segment size, in bytes.
    pub mss_bytes: u32,
    /// Segments sent and not acknowledged.
    pub in_flight_packets: u32,
    /// Smoothed round-trip time.
    pub srtt_ns: u64,
    /// Least round-trip time seen.
    pub min_rtt_ns: u64,
    /// Window that the peer advertises for what this end sends.
    pub rwnd_bytes: u32,
    /// Bytes in the send buffer that were not sent yet.
    pub unsent_bytes: u32,
    /// Bytes that the peer has acknowledged since the connection began.
    pub acked_bytes: u64,
    /// Pacing rate, bytes per second (`u64::MAX`: unlimited).
    pub pacing_bytes_per_s: u64,
    /// Delivery rate last measured, bytes per second.
    pub delivery_bytes_per_s: u64,
    /// Cumulative time with data to send.
    pub busy_ns: u64,
    /// Part of it stopped by the peer's window.
    pub rwnd_limited_ns: u64,
    /// Part of it stopped by a full send buffer of ours.
    pub sndbuf_limited_ns: u64,
    /// Segments sent again since the connection began.
    pub retransmits: u32,
}

/// What became of a packet at an observation point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Verdict {
    /// It went on.
    Delivered,
    /// The queue was full (or its discipline said so).
    DroppedByQueue,
    /// The loss element took it.
    DroppedByLoss,
    /// The path was down.
    DroppedByOutage,
}

/// `packet`: one TCP segment at an observation point, or one packet that may be a tunnel's (UDP or
/// ESP): of that only its ends, lengths and ECN bits are known, and the flags are 0, which those of a
/// TCP segment never are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// When it came to the point.
    pub time: Instant,
    /// When it left the path that begins there; equal to `time` when it was dropped.
    pub departed: Instant,
    /// The path, by its name in the recorder.
    pub path: NameId,
    /// Where it came from.
    pub source: SocketAddr,
    /// Where it goes.
    pub destination: SocketAddr,
    /// Sequence number of the first payload byte; of ESP that of the packet.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// TCP payload, in bytes; of a tunnel's packet what follows the headers that can be seen.
    pub payload_bytes: u16,
    /// Length of the IP packet, in bytes.
    pub ip_bytes: u16,
    /// The window field as sent (not scaled).
    pub window: u16,
    /// The TCP flag byte: CWR, ECE, URG, ACK, PSH, RST, SYN, FIN from the top bit.
    pub flags: u8,
    /// The two ECN bits of the IP header.
    pub ecn: u8,
    /// What became of it.
    pub verdict: Verdict,
}

/// `path`: one direction of one emulated path, or one element of a direction, sampled; the counters
/// run from the path's start. An element has no record before it has done anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// When.
    pub time: Instant,
    /// The path and direction, such as `upper:forward`, by its name in the recorder; an element's
    /// name stands behind it, such as `upper:forward:link` (see [`Path::element`]).
    pub path: NameId,
    /// Packets waiting for the link at this moment; of an element that is no link, packets in it.
    pub queue_packets: u32,
    /// Their bytes.
    pub queue_bytes: u64,
    /// Packets that came in.
    pub in_packets: u64,
    /// Bytes that came in (layer 2, see the manifest for the overhead that counts).
    pub in_bytes: u64,
    /// Packets that came out.
    pub out_packets: u64,
    /// Bytes that came out.
    pub out_bytes: u64,
    /// Packets dropped by the queue.
    pub queue_drops: u64,
    /// Packets dropped by the loss element.
    pub loss_drops: u64,
    /// Packets marked with ECN CE.
    pub marks: u64,
    /// Time for which the link was sending; its share of the time passed is the utilisation.
    pub busy_ns: u64,
    /// The delay that was asked for at this moment, jitter left out; 0 for an element that is no
    /// delay.
    pub delay_ns: u64,
    /// How much later than that the packets left that did since the last sample, their mean; 0 for
    /// an element.
    pub lateness_ns: u64,
    /// The rate that was asked for at this moment; 0 when it is unlimited, and for an element that
    /// is no link. What was achieved is in the bytes that came out.
    pub bits_per_s: u64,
}

impl Path {
    /// The direction and the element that a name of records means; the element is `None` when the
    /// whole direction is meant.
    #[must_use]
    pub fn element(name: &str) -> (&str, Option<&str>) {
        let second = name.match_indices(':').nth(1);
        match second {
            Some((place, _)) => (&name[..place], Some(&name[place + 1..])),
            None => (name, None),
        }
    }
}
