//! Parses a connection's byte streams, independently of the product's parsers at either end.

use wansan_iscsi::scsi::Sense;
use wansan_iscsi::sequence::Sn;
use wansan_iscsi::wire::{RESERVED_TAG, ScsiStatus};

/// Status and sense data of a response.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    pub(crate) status: ScsiStatus,
    pub(crate) sense: Option<Sense>,
}

/// The event that a PDU signals.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// SCSI Command.
    Command { tag: u32, cmd_sn: u32 },
    /// Task Management Function Request.
    Manage {
        tag: u32,
        referenced: u32,
        cmd_sn: u32,
    },
    /// Logout Request for one connection.
    Remove { cid: u16 },
    /// SCSI Response, or Data-In with status.
    Answer { tag: u32, answered: Answered },
    /// Task Management Function Response.
    Managed { tag: u32, result: u8 },
    /// Logout Response; 0 is success.
    LoggedOut { tag: u32, result: u8 },
    /// Reject, with its reason.
    Reject { reason: u8 },
    /// A sequence number is wrong.
    Wrong(String),
}

/// Splits one direction of a connection into PDUs (RFC 7143 §11.2).
#[derive(Debug, Default)]
struct Framer {
    header: Vec<u8>,
    /// The part of the data segment to keep.
    data: Vec<u8>,
    /// Bytes that follow the header: data, padding and digests.
    rest: usize,
    keep: usize,
}

impl Framer {
    /// Calls `pdu` with each header, and with the data of SCSI Responses, until it returns true. Returns the number of
    /// bytes left.
    fn feed(
        &mut self,
        mut bytes: &[u8],
        digests: (bool, bool),
        mut pdu: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> usize {
        while !bytes.is_empty() {
            if self.header.len() < 48 {
                let take = (48 - self.header.len()).min(bytes.len());
                self.header.extend_from_slice(&bytes[..take]);
                bytes = &bytes[take..];
                if self.header.len() < 48 {
                    return 0;
                }
                let head = &self.header;
                let ahs = usize::from(head[4]) * 4;
                let data =
                    usize::from(head[5]) << 16 | usize::from(head[6]) << 8 | usize::from(head[7]);
                let code = head[0] & 0x3f;
                let (header_digest, data_digest) = match code {
                    0x03 | 0x23 => (false, false),
                    _ => digests,
                };
                self.rest = ahs + 4 * usize::from(header_digest) + data.next_multiple_of(4);
                self.rest += 4 * usize::from(data_digest && data > 0);
                // A header digest precedes the data.
                self.keep = match code {
                    0x21 => 4 * usize::from(header_digest) + data,
                    _ => 0,
                };
                self.data.clear();
            }
            let take = self.rest.min(bytes.len());
            let kept = (self.keep - self.data.len()).min(take);
            self.data.extend_from_slice(&bytes[..kept]);
            bytes = &bytes[take..];
            self.rest -= take;
            if self.rest == 0 {
                let skip = self.keep.min(4 * usize::from(digests.0 && self.keep > 0));
                let stop = pdu(&self.header, &self.data[skip..]);
                self.header.clear();
                if stop {
                    return bytes.len();
                }
            }
        }
        0
    }
}

/// A connection's streams.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    forth: Framer,
    back: Framer,
    /// Header and data digests, in full feature phase.
    pub(crate) digests: (bool, bool),
    /// StatSN of the next status.
    stat_sn: Option<Sn>,
    /// Last ExpCmdSN and MaxCmdSN.
    window: Option<(Sn, Sn)>,
    pub(crate) recovery: u8,
    /// Next DataSN or R2TSN of each task.
    data_sns: Vec<(u32, u32)>,
}

fn be32(header: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

impl Observer {
    /// The last ExpCmdSN that the target has sent.
    pub(crate) fn exp_cmd_sn(&self) -> Option<u32> {
        self.window.map(|(exp_cmd_sn, _)| exp_cmd_sn.0)
    }

    /// Processes bytes that the initiator has sent.
    pub(crate) fn forth(&mut self, bytes: &[u8], events: &mut Vec<Event>) {
        let data_sns = &mut self.data_sns;
        self.forth.feed(bytes, self.digests, |header, _| {
            let tag = be32(header, 16);
            match header[0] & 0x3f {
                0x01 => {
                    data_sns.retain(|(one, _)| *one != tag);
                    let cmd_sn = be32(header, 24);
                    events.push(Event::Command { tag, cmd_sn });
                }
                0x02 => {
                    let referenced = be32(header, 20);
                    if header[1] & 0x7f == 8 {
                        // TASK REASSIGN: DataSN continues at ExpDataSN (§11.5.6).
                        data_sns.retain(|(one, _)| *one != referenced);
                        data_sns.push((referenced, be32(header, 36)));
                    } else {
                        events.push(Event::Manage {
                            tag,
                            referenced,
                            cmd_sn: be32(header, 24),
                        });
                    }
                }
                // §11.14.1: 0 closes the session.
                0x06 if header[1] & 0x7f != 0 => {
                    let cid = u16::from_be_bytes([header[20], header[21]]);
                    events.push(Event::Remove { cid });
                }
                _ => {}
            }
            false
        });
    }

    /// Processes bytes that the initiator has received, up to the end of the first PDU that signals an event. Returns
    /// the number of bytes left.
    pub(crate) fn back(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> usize {
        let Observer {
            back,
            digests,
            stat_sn,
            window,
            recovery,
            data_sns,
            ..
        } = self;
        back.feed(bytes, *digests, |header, data| {
            let code = header[0] & 0x3f;
            let tag = be32(header, 16);
            let found = Sn(be32(header, 24));
            let has_status = match code {
                0x25 => header[1] & 0x01 != 0,
                0x20 => tag != RESERVED_TAG,
                0x31 => false,
                _ => true,
            };
            let mut is_new = true;
            if code == 0x23 {
                *stat_sn = Some(found.next());
            } else if has_status && let Some(expected) = *stat_sn {
                // §4.2.2.2: StatSN counts by one; a retransmitted status has its own.
                is_new = found == expected;
                if is_new {
                    *stat_sn = Some(expected.next());
                } else if *recovery == 0 || !found.lt(expected) {
                    let what = format!("StatSN {} where {} was next", found.0, expected.0);
                    events.push(Event::Wrong(what));
                }
            }
            let now = (Sn(be32(header, 28)), Sn(be32(header, 32)));
            // §11.13.5: the sequence numbers of a Login Response are valid only if its Status-Class is 0.
            let is_refusal = code == 0x23 && header[36] != 0;
            if is_new && !is_refusal {
                // §4.2.2.1: the window never shrinks and never goes back.
                let before = window.replace(now).unwrap_or(now);
                if now.0.lt(before.0) || now.1.lt(before.1) || now.1.lt(now.0.sub(1)) {
                    let what = format!("ExpCmdSN and MaxCmdSN went from {before:?} to {now:?}");
                    events.push(Event::Wrong(what));
                }
            }
            if matches!(code, 0x25 | 0x31) {
                // §4.2.2.3: DataSN and R2TSN count by one from 0 for each task.
                let data_sn = be32(header, 36);
                let known = data_sns.iter_mut().find(|(one, _)| *one == tag);
                let next = match known {
                    Some((_, next)) => next,
                    None => {
                        data_sns.push((tag, 0));
                        let last = data_sns.len() - 1;
                        &mut data_sns[last].1
                    }
                };
                if data_sn == *next {
                    *next += 1;
                } else if *recovery == 0 || data_sn > *next {
                    let what = format!("DataSN or R2TSN {data_sn} where {next} was next");
                    events.push(Event::Wrong(what));
                }
            }
            if !is_new {
                return !events.is_empty();
            }
            match code {
                0x21 => {
                    data_sns.retain(|(one, _)| *one != tag);
                    let answered = Answered {
                        status: ScsiStatus::from_wire(header[3]),
                        sense: data.get(2..).and_then(|sense| Sense::parse(sense).ok()),
                    };
                    events.push(Event::Answer { tag, answered });
                }
                0x25 if has_status => {
                    data_sns.retain(|(one, _)| *one != tag);
                    let answered = Answered {
                        status: ScsiStatus::from_wire(header[3]),
                        sense: None,
                    };
                    events.push(Event::Answer { tag, answered });
                }
                0x22 => events.push(Event::Managed {
                    tag,
                    result: header[2],
                }),
                0x26 => events.push(Event::LoggedOut {
                    tag,
                    result: header[2],
                }),
                0x3f => events.push(Event::Reject { reason: header[2] }),
                _ => {}
            }
            !events.is_empty()
        })
    }
}
