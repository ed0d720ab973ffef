//! The positions of PDUs in a connection's two byte streams.

use foldhash::HashMap;

use wansan_trace::event::{Pdu, PduDirection};
use wansan_trace::file::Row;
use wansan_trace::{ConnectionId, SessionId, TaskTag};

use crate::opcode::{self, BHS_BYTES};
use crate::traffic::FlowDirection;

/// Maximum length of a PDU beyond its Basic Header Segment and data: the Additional Header Segments of a bidirectional
/// or long command, two digests and padding (RFC 7143 §11.1).
pub(crate) const BEYOND_BYTES: u64 = 64;

/// One PDU in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Stream offset of its first byte.
    pub offset: u64,
    /// Upper bound of its end offset.
    end: u64,
    /// Its opcode.
    pub opcode: u8,
    /// Its Initiator Task Tag.
    pub task: TaskTag,
}

/// What an interval of a stream carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carried {
    /// The PDU with the most bytes in it.
    pub most: Placed,
    /// Number of PDUs that are in it, wholly or in part.
    pub pdus: usize,
}

type Stream = (SessionId, ConnectionId, FlowDirection);

/// The PDUs of all connections.
#[derive(Debug, Default)]
pub struct PduStreams {
    streams: HashMap<Stream, Vec<Placed>>,
}

impl PduStreams {
    /// The PDUs in stream order; if both ends recorded a connection, only one end's records are used.
    #[must_use]
    pub fn of(pdus: &[Row<Pdu>]) -> PduStreams {
        let mut recorder_of: HashMap<Stream, _> = HashMap::default();
        let mut streams: HashMap<Stream, Vec<Placed>> = HashMap::default();
        for row in pdus {
            let pdu = &row.record;
            let sent = pdu.direction == PduDirection::Sent;
            let way = if opcode::is_request(pdu.opcode) {
                FlowDirection::ToTarget
            } else {
                FlowDirection::ToInitiator
            };
            let stream = (pdu.session, pdu.connection, way);
            // The sender's records are preferred: they show a PDU before it passes.
            let recorder = recorder_of.entry(stream).or_insert((row.host, sent));
            if sent && !recorder.1 {
                *recorder = (row.host, sent);
                streams.remove(&stream);
            }
            if recorder.0 == row.host {
                let length = BHS_BYTES + u64::from(pdu.data_bytes) + BEYOND_BYTES;
                streams.entry(stream).or_default().push(Placed {
                    offset: pdu.stream_offset,
                    end: pdu.stream_offset + length,
                    opcode: pdu.opcode,
                    task: pdu.task,
                });
            }
        }
        for placed in streams.values_mut() {
            placed.sort_by_key(|pdu| pdu.offset);
        }
        PduStreams { streams }
    }

    /// The PDUs of a connection that begin in `start..end` of its stream.
    #[must_use]
    pub fn beginning(
        &self,
        session: SessionId,
        connection: ConnectionId,
        way: FlowDirection,
        (start, end): (u64, u64),
    ) -> &[Placed] {
        let Some(pdus) = self.streams.get(&(session, connection, way)) else {
            return &[];
        };
        let place = |offset: u64| pdus.partition_point(|pdu| pdu.offset < offset);
        &pdus[place(start)..place(end)]
    }

    /// What `start..end` of a connection's stream carries; `None` if no PDU is known there.
    #[must_use]
    pub fn carried(
        &self,
        session: SessionId,
        connection: ConnectionId,
        way: FlowDirection,
        (start, end): (u64, u64),
    ) -> Option<Carried> {
        let pdus = self.streams.get(&(session, connection, way))?;
        let first = pdus
            .partition_point(|pdu| pdu.offset <= start)
            .checked_sub(1)?;
        let mut most: Option<(u64, Placed)> = None;
        let mut count = 0;
        for (i, pdu) in pdus[first..].iter().enumerate() {
            if pdu.offset >= end {
                break;
            }
            let next = pdus.get(first + i + 1).map_or(u64::MAX, |next| next.offset);
            let until = next.min(pdu.end).min(end);
            let bytes = until.saturating_sub(pdu.offset.max(start));
            if bytes == 0 {
                continue;
            }
            count += 1;
            if most.is_none_or(|(before, _)| bytes > before) {
                most = Some((bytes, *pdu));
            }
        }
        most.map(|(_, most)| Carried { most, pdus: count })
    }
}
