//! The model's worlds as captures taken at any point of the path: what is found in a capture must be true, although it
//! shows neither when PDUs were given to TCP nor the congestion windows.

use std::io::Write as _;

use wansan_insight::capture::{Capture, CaptureEnd};
use wansan_insight::stall::view::conversations;
use wansan_insight::stall::{Announced, Conversation, Queued, Segment, Stall, stalls};
use wansan_insight::traffic::{FlowDirection, Traffic};
use wansan_insight::window::Window;

use super::cell::Dice;
use super::world::Script;

const SCSI_COMMAND: u8 = 0x01;
const SCSI_RESPONSE: u8 = 0x21;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
/// First sequence numbers: both wrap in a long cell.
const BASES: [u32; 2] = [u32::MAX - 100, u32::MAX - 5000];
/// The capture's clock at the start of the model's clock.
pub(crate) const EPOCH_NS: u64 = 1_700_000_000_000_000_000;

/// Where and how a capture is taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    /// Distance from the initiator, in per cent of the path.
    percent: u64,
    /// Whether it is before losses, seen from the sender.
    before_losses: bool,
    /// Whether it contains the handshakes.
    pub(crate) has_begin: bool,
}

impl Point {
    pub(crate) fn random(dice: &mut Dice, before_losses: bool) -> Point {
        Point {
            percent: dice.within(0, 4) * 25,
            before_losses,
            has_begin: dice.chance(80),
        }
    }
}

/// The stalls found in a capture of the cell of `script`.
pub(crate) fn found(script: &Script, conversation: &Conversation, point: Point) -> Vec<Stall> {
    let mut file = tempfile::NamedTempFile::new().expect("there is room for a file");
    file.write_all(&pcap(script, conversation, point))
        .expect("there is room for a file");
    let Ok(capture) = Capture::read(file.path()) else {
        return Vec::new();
    };
    assert_eq!(capture.end, CaptureEnd::Whole);
    let all = Window {
        from_ns: 0,
        to_ns: u64::MAX,
    };
    let conversations = conversations(&capture.cell, &Traffic::of(&capture.cell));
    stalls(&capture.cell, &conversations, all)
}

/// A pcap file, with times in ns, of the frames that pass the point.
fn pcap(script: &Script, conversation: &Conversation, point: Point) -> Vec<u8> {
    let mut frames: Vec<(u64, Vec<u8>)> = Vec::new();
    let delay_ns = script.delay_ns;
    let to_target_ns = delay_ns * point.percent / 100;
    let streams = [
        stream(&conversation.requests, script),
        stream(&conversation.answers, script),
    ];
    let shifts = [script.initiator.buffer_bytes, script.target.buffer_bytes].map(shift);
    if point.has_begin {
        let first_ns = conversation
            .segments
            .first()
            .map_or(0, |segment| segment.sent_ns);
        // The handshake begins one and a half round trips before the first segment.
        let begin_ns = EPOCH_NS + first_ns - 3 * delay_ns;
        let syns = [
            (0, SYN, to_target_ns),
            (1, SYN | ACK, 2 * delay_ns - to_target_ns),
        ];
        for (end, flags, after_ns) in syns {
            let header = Header {
                end,
                seq: BASES[end].wrapping_sub(1),
                ack: BASES[1 - end],
                flags,
                window: 65_535,
            };
            let options = [
                2,
                4,
                (script.target.mss >> 8) as u8,
                script.target.mss as u8,
                3,
                3,
                shifts[end] as u8,
                1,
            ];
            frames.push((begin_ns + after_ns, header.frame(&options, &[])));
        }
        let header = Header {
            end: 0,
            seq: BASES[0],
            ack: BASES[1],
            flags: ACK,
            window: 65_535,
        };
        frames.push((
            begin_ns + 2 * delay_ns + to_target_ns,
            header.frame(&[], &[]),
        ));
    }
    let mut last_ns = [0; 2];
    for segment in &conversation.segments {
        let is_seen = segment.arrived_ns.is_some() || point.before_losses;
        if is_seen {
            // The path does not reorder.
            let last_ns = &mut last_ns[usize::from(segment.way == FlowDirection::ToInitiator)];
            *last_ns = passes_ns(segment, script, point).max(*last_ns + 1);
            frames.push((
                EPOCH_NS + *last_ns,
                segment_frame(segment, &streams, &shifts),
            ));
        }
    }
    frames.sort_by_key(|(time_ns, _)| *time_ns);
    // The headers of a file (draft-ietf-opsawg-pcap): ns, Ethernet.
    let mut file = 0xa1b2_3c4d_u32.to_le_bytes().to_vec();
    file.extend([
        2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0,
    ]);
    for (time_ns, frame) in frames {
        let (s, ns) = (
            (time_ns / 1_000_000_000) as u32,
            (time_ns % 1_000_000_000) as u32,
        );
        let length = frame.len() as u32;
        file.extend(
            [s, ns, length, length]
                .iter()
                .flat_map(|word| word.to_le_bytes()),
        );
        file.extend(frame);
    }
    file
}

/// When a segment passes the point: its arrival minus the delay of the path behind the point.
fn passes_ns(segment: &Segment, script: &Script, point: Point) -> u64 {
    let before = match segment.way {
        FlowDirection::ToTarget => point.percent,
        FlowDirection::ToInitiator => 100 - point.percent,
    };
    let behind_ns = script.delay_ns * (100 - before) / 100;
    match segment.arrived_ns {
        Some(arrived_ns) => arrived_ns - behind_ns,
        None => segment.sent_ns + script.delay_ns - behind_ns,
    }
}

/// The minimum window scale shift for a window of that size (RFC 7323 §2.2).
fn shift(buffer_bytes: u64) -> u32 {
    (0..14)
        .find(|shift| buffer_bytes >> shift <= 65_535)
        .unwrap_or(14)
}

fn segment_frame(segment: &Segment, streams: &[Vec<u8>; 2], shifts: &[u32; 2]) -> Vec<u8> {
    let end = usize::from(segment.way == FlowDirection::ToInitiator);
    let Announced::Exactly(window_bytes) = segment.window else {
        panic!("the model knows its windows");
    };
    let window = window_bytes >> shifts[end];
    let header = Header {
        end,
        seq: BASES[end].wrapping_add(segment.place as u32),
        ack: BASES[1 - end].wrapping_add(segment.acked as u32),
        flags: ACK,
        window: u16::try_from(window).unwrap_or(u16::MAX),
    };
    let payload = &streams[end][segment.place as usize..segment.end() as usize];
    header.frame(&[], payload)
}

/// The variable header fields of a frame.
struct Header {
    end: usize,
    seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
}

impl Header {
    fn frame(&self, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let ends = [[10, 0, 0, 1], [10, 0, 0, 2]];
        let ports: [u16; 2] = [50_000, 3260];
        let tcp_bytes = 20 + options.len();
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00, 0x45, 0]);
        frame.extend(((20 + tcp_bytes + payload.len()) as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame.extend(ends[self.end].iter().chain(&ends[1 - self.end]));
        frame.extend(ports[self.end].to_be_bytes());
        frame.extend(ports[1 - self.end].to_be_bytes());
        frame.extend(self.seq.to_be_bytes());
        frame.extend(self.ack.to_be_bytes());
        frame.extend([(tcp_bytes as u8 / 4) << 4, self.flags]);
        frame.extend(self.window.to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(options);
        frame.extend(payload);
        frame
    }
}

/// The bytes that a sender passed to TCP.
fn stream(pdus: &[Queued], script: &Script) -> Vec<u8> {
    let mut bytes = Vec::new();
    for pdu in pdus {
        let mut bhs = [0_u8; 48];
        bhs[0] = pdu.opcode;
        // All PDUs have the F bit.
        bhs[1] = 0x80;
        bhs[16..20].copy_from_slice(&pdu.task.0.to_be_bytes());
        bhs[20..24].fill(0xff);
        bhs[32..36].copy_from_slice(&(pdu.task.0 + 64).to_be_bytes());
        let mut data_bytes = 0;
        match pdu.opcode {
            SCSI_COMMAND => {
                // The R bit and a CmdSN.
                bhs[1] |= 0x40;
                bhs[20..24].copy_from_slice(&(script.block_bytes as u32).to_be_bytes());
                bhs[24..28].copy_from_slice(&pdu.task.0.to_be_bytes());
                bhs[28..32].fill(0);
                bhs[32..36].copy_from_slice(&[0x28, 0, 0, 0]);
            }
            SCSI_RESPONSE => bhs[20..24].fill(0),
            _ => {
                data_bytes = script.block_bytes;
                // The Data-In carries the status.
                bhs[1] |= u8::from(!script.separate_status);
                bhs[5..8].copy_from_slice(&(data_bytes as u32).to_be_bytes()[1..]);
            }
        }
        assert_eq!(bytes.len() as u64, pdu.offset);
        bytes.extend(bhs);
        bytes.resize(bytes.len() + data_bytes as usize, 0x5a);
    }
    bytes
}
