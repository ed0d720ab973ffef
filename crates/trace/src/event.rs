//! The record kinds.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

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

impl Pdu {
    /// A record of which nothing is known yet.
    pub const BLANK: Pdu = Pdu {
        time: Instant::ZERO,
        session: SessionId(0),
        connection: ConnectionId(0),
        direction: PduDirection::Sent,
        opcode: 0,
        flags: 0,
        task: TaskTag(0),
        transfer_tag: 0,
        cmd_sn: 0,
        stat_sn: 0,
        exp_cmd_sn: 0,
        max_cmd_sn: 0,
        data_sn: 0,
        buffer_offset: 0,
        data_bytes: 0,
        stream_offset: 0,
    };
}

/// `stamp`: one call that gave bytes to a TCP socket or took bytes from it, with the times at which
/// the kernel passed the last of them on (SO_TIMESTAMPING of Linux). A time that is not known is
/// [`Instant::ZERO`].
///
/// A call that gives bytes has no times of its own where the kernel put its bytes and those of the
/// next call into one segment: then the next call's are its own too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// When the call had returned.
    pub time: Instant,
    /// The session.
    pub session: SessionId,
    /// The connection.
    pub connection: ConnectionId,
    /// Whether the call gave bytes or took them.
    pub direction: PduDirection,
    /// Whether Nagle's algorithm may hold them back (RFC 1122 §4.2.3.4).
    pub nagle: bool,
    /// Where the call's bytes end in their direction's TCP stream, which begins at 0.
    pub stream_end: u64,
    /// How many they are.
    pub bytes: u32,
    /// When TCP gave the last byte to the queueing discipline for the first time.
    pub scheduled: Instant,
    /// When the device got it for the first time.
    pub departed: Instant,
    /// When the peer's kernel had acknowledged all of them.
    pub acknowledged: Instant,
    /// Of bytes that were taken: when the kernel received the last segment of those in which they
    /// came. The last byte came no later.
    pub arrived: Instant,
}

impl Stamp {
    /// A record of which nothing is known yet.
    pub const BLANK: Stamp = Stamp {
        time: Instant::ZERO,
        session: SessionId(0),
        connection: ConnectionId(0),
        direction: PduDirection::Sent,
        nagle: false,
        stream_end: 0,
        bytes: 0,
        scheduled: Instant::ZERO,
        departed: Instant::ZERO,
        acknowledged: Instant::ZERO,
        arrived: Instant::ZERO,
    };
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
    /// As [`TcpEvent::Cwr`], and known to be because the peer echoed a mark (ECE, RFC 3168 §6.1.2).
    CwrByEce,
    /// As [`TcpEvent::Cwr`], and known to be because a queue of the sending host was full.
    CwrByDevice,
    /// A cut was taken back, as what looked lost had only been late (RFC 4015 §3).
    Undo,
    /// The congestion window or the slow-start threshold became another.
    Change,
    /// The connection was there for the first time.
    Begin,
    /// The connection was there for the last time.
    End,
}

impl TcpEvent {
    /// Every event by its place, which is its code in memory.
    pub const ALL: [TcpEvent; 11] = [
        TcpEvent::Sample,
        TcpEvent::Cwr,
        TcpEvent::Recovery,
        TcpEvent::Loss,
        TcpEvent::Retransmit,
        TcpEvent::CwrByEce,
        TcpEvent::CwrByDevice,
        TcpEvent::Undo,
        TcpEvent::Change,
        TcpEvent::Begin,
        TcpEvent::End,
    ];

    /// Its name in files and on screens.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            TcpEvent::Sample => "sample",
            TcpEvent::Cwr => "cwr",
            TcpEvent::Recovery => "recovery",
            TcpEvent::Loss => "loss",
            TcpEvent::Retransmit => "retransmit",
            TcpEvent::CwrByEce => "cwr_by_ece",
            TcpEvent::CwrByDevice => "cwr_by_device",
            TcpEvent::Undo => "undo",
            TcpEvent::Change => "change",
            TcpEvent::Begin => "begin",
            TcpEvent::End => "end",
        }
    }
}

/// How a `tcp` record came to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Seen {
    /// The kernel was asked: an event is told from what two samples differ in, and its time is that
    /// of the latter.
    Sampled,
    /// The kernel told it in the moment when it happened.
    Traced,
}

impl Seen {
    /// Every one by its place, which is its code in memory.
    pub const ALL: [Seen; 2] = [Seen::Sampled, Seen::Traced];

    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Seen::Sampled => "sampled",
            Seen::Traced => "traced",
        }
    }
}

/// What a connection makes of ECN (RFC 3168).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// It was not negotiated, or not recorded.
    Off,
    /// It was negotiated, and nothing that came was marked as capable of it yet.
    Negotiated,
    /// Packets that are capable of it have come.
    Seen,
}

impl Ecn {
    /// Every one by its place, which is its code in memory.
    pub const ALL: [Ecn; 3] = [Ecn::Off, Ecn::Negotiated, Ecn::Seen];

    /// Its name in files and on screens.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Ecn::Off => "off",
            Ecn::Negotiated => "negotiated",
            Ecn::Seen => "seen",
        }
    }
}

/// `tcp`: the kernel's view of one connection (TCP_INFO of Linux).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tcp {
    /// When.
    pub time: Instant,
    /// The session; of a connection that was watched from outside, the socket's cookie.
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
    /// Segments that the peer acknowledged with ECE since the connection began.
    pub delivered_ce: u32,
    /// Times that a retransmission time-out began a recovery; 0 on kernels before 6.7.
    pub timeouts: u32,
    /// Of a relay's: bytes that have arrived and were not passed on, in the receive queue and in the
    /// relay's own memory; 0 of others.
    pub unread_bytes: u32,
    /// Of a relay's: times that ECE to the peer began because more waited than may; 0 of others.
    pub ece_signals: u32,
    /// ECN.
    pub ecn: Ecn,
    /// Both ends as [`Tcp::ends_name`] writes them, or [`NameId::NONE`] where they were not recorded.
    pub ends: NameId,
    /// How it came to be known.
    pub seen: Seen,
}

impl Tcp {
    /// A record of which nothing is known yet.
    pub const BLANK: Tcp = Tcp {
        time: Instant::ZERO,
        session: SessionId(0),
        connection: ConnectionId(0),
        event: TcpEvent::Sample,
        congestion_state: 0,
        cwnd_packets: 0,
        ssthresh_packets: 0,
        mss_bytes: 0,
        in_flight_packets: 0,
        srtt_ns: 0,
        min_rtt_ns: 0,
        rwnd_bytes: 0,
        unsent_bytes: 0,
        acked_bytes: 0,
        pacing_bytes_per_s: 0,
        delivery_bytes_per_s: 0,
        busy_ns: 0,
        rwnd_limited_ns: 0,
        sndbuf_limited_ns: 0,
        retransmits: 0,
        delivered_ce: 0,
        timeouts: 0,
        unread_bytes: 0,
        ece_signals: 0,
        ecn: Ecn::Off,
        ends: NameId::NONE,
        seen: Seen::Sampled,
    };

    /// How records name the two ends of a connection: the recording end first.
    #[must_use]
    pub fn ends_name(local: SocketAddr, remote: SocketAddr) -> String {
        format!("{local} > {remote}")
    }
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
    /// Length of the IP packet, in bytes; 0 of one that passed unseen, as later ones have told.
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

impl Packet {
    /// A record of which nothing is known yet.
    pub const BLANK: Packet = Packet {
        time: Instant::ZERO,
        departed: Instant::ZERO,
        path: NameId(0),
        source: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        destination: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        seq: 0,
        ack: 0,
        payload_bytes: 0,
        ip_bytes: 0,
        window: 0,
        flags: 0,
        ecn: 0,
        verdict: Verdict::Delivered,
    };
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
    /// A record of which nothing is known yet.
    pub const BLANK: Path = Path {
        time: Instant::ZERO,
        path: NameId(0),
        queue_packets: 0,
        queue_bytes: 0,
        in_packets: 0,
        in_bytes: 0,
        out_packets: 0,
        out_bytes: 0,
        queue_drops: 0,
        loss_drops: 0,
        marks: 0,
        busy_ns: 0,
        delay_ns: 0,
        lateness_ns: 0,
        bits_per_s: 0,
    };

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

/// What a program of a run is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Role {
    /// It asks for I/Os.
    Initiator,
    /// It serves them.
    Target,
    /// It encrypts and decrypts what a router forwards.
    Vpn,
}

impl Role {
    /// All of them, in the order of their codes.
    pub const ALL: [Role; 3] = [Role::Initiator, Role::Target, Role::Vpn];
}

/// `thread`: what one thread of a program has had of the processors since it began, sampled while it
/// is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    /// When.
    pub time: Instant,
    /// The program, such as `far wireguard`, by its name in the recorder.
    pub program: NameId,
    /// What the program is there for.
    pub role: Role,
    /// The kernel's id of the thread.
    pub thread: u32,
    /// How long it ran.
    pub ran_ns: u64,
    /// How long it was ready to run and had no processor, as others had them.
    pub waited_ns: u64,
}
