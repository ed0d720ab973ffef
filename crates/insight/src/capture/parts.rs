//! Reads captures of any length in parts, of which one at a time is kept in memory.

use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::frames::{Frame, Frames, Next};
use super::kept::Kept;
use super::order::Order;
use super::{Capture, CaptureEnd, CaptureError, Nothing, Reading, beginning};

/// A source of frames.
enum Source {
    File(PathBuf, File),
    Stream(PathBuf, Box<dyn Read + Send>),
}

/// Totals over all parts of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// Number of frames in all files; parts number them continuously.
    pub frames: u64,
    /// The files that were not read to their end: how the reading of each ended, and after how many of its frames.
    pub ends: Vec<(PathBuf, CaptureEnd, u64)>,
}

/// Reads capture files as one, in the order of their first frames, as `tcpdump -C` and `-G` write them. Parts of at
/// most [`MOST_KEPT`](super::MOST_KEPT) segments and PDUs are passed to `take` as they are read; parts without PDUs
/// are left out. The state of a connection carries over to the following parts; an I/O in progress at the end of a
/// part is excluded.
///
/// # Errors
/// [`CaptureError`] if a file is not a capture, or none holds PDUs.
pub fn read_parts(files: &[PathBuf], take: &mut dyn FnMut(Capture)) -> Result<Whole, CaptureError> {
    let mut sources = Vec::new();
    for path in files {
        let first_ns = first_frame_ns(path)?;
        let (file, _) = open(path)?;
        sources.push((first_ns, Source::File(path.clone(), file)));
    }
    sources.sort_by_key(|(first_ns, _)| *first_ns);
    let sources = sources.into_iter().map(|(_, source)| source);
    read(sources, Reading::default(), take)
}

/// The same from a stream, such as standard input, which errors call `name`.
///
/// # Errors
/// As for [`read_parts`].
pub fn read_stream(
    stream: impl Read + Send + 'static,
    name: &Path,
    take: &mut dyn FnMut(Capture),
) -> Result<Whole, CaptureError> {
    let source = Source::Stream(name.to_owned(), Box::new(stream));
    read(std::iter::once(source), Reading::default(), take)
}

fn open(path: &Path) -> Result<(File, &'static str), CaptureError> {
    let system = |error: std::io::Error| CaptureError::System {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let mut file = File::open(path).map_err(system)?;
    let is = beginning(&mut file).map_err(system)?;
    Ok((file, is))
}

/// Time of a file's first frame; [`u64::MAX`] if it has none.
fn first_frame_ns(path: &Path) -> Result<u64, CaptureError> {
    let (file, is) = open(path)?;
    let mut kept = Kept::default();
    let frames = Frames::open(file, 0, &mut kept, || 0);
    let mut frames = frames.ok_or_else(|| CaptureError::NotACapture {
        path: path.to_owned(),
        is,
    })?;
    loop {
        match frames.next(&kept) {
            Next::Frame(first) => return Ok(first.time_ns),
            Next::More => {
                let at = frames.at();
                if frames.read(&mut kept, || at).is_err() {
                    return Ok(u64::MAX);
                }
            }
            Next::End(_) => return Ok(u64::MAX),
        }
    }
}

fn read(
    sources: impl Iterator<Item = Source>,
    reading: Reading,
    take: &mut dyn FnMut(Capture),
) -> Result<Whole, CaptureError> {
    let mut parts = Parts {
        reading,
        take,
        has_any: false,
    };
    let mut order = Order::default();
    let mut whole = Whole {
        frames: 0,
        ends: Vec::new(),
    };
    let mut first = None;
    for source in sources {
        let before = whole.frames;
        let (path, end) = match source {
            Source::File(path, file) => (path, parts.see(file, &mut order, &mut whole.frames)),
            Source::Stream(path, stream) => {
                let end = parts.see(stream, &mut order, &mut whole.frames);
                (path, end)
            }
        };
        let end = end.ok_or_else(|| CaptureError::NotACapture {
            path: path.clone(),
            is: "it begins neither as pcap nor as pcapng does",
        })?;
        if end != CaptureEnd::Whole {
            whole.ends.push((path.clone(), end, whole.frames - before));
        }
        first.get_or_insert(path);
    }
    // `give` never breaks.
    let _ = order.rest(|frame| parts.give(frame));
    // Frees memory for the last part.
    drop(order);
    let nothing = parts.end();
    match nothing {
        Some(nothing) if !parts.has_any => Err(CaptureError::NoPdus {
            path: first.unwrap_or_default(),
            frames: nothing.frames,
            connections: nothing.connections,
            unread: nothing.unread,
        }),
        _ => Ok(whole),
    }
}

/// The part that is being read, and the callback that takes it.
struct Parts<'a> {
    reading: Reading,
    take: &'a mut dyn FnMut(Capture),
    has_any: bool,
}

impl Parts<'_> {
    fn see(&mut self, file: impl Read, order: &mut Order, frames: &mut u64) -> Option<CaptureEnd> {
        let (end, number) = order.read(file, *frames, |frame| self.give(frame))?;
        *frames = number;
        Some(end)
    }

    fn give(&mut self, frame: &Frame<'_>) -> ControlFlow<()> {
        if self.reading.take(frame).is_break() {
            // A part without PDUs does not matter, as a later one may have some.
            let _ = self.end();
        }
        ControlFlow::Continue(())
    }

    /// Ends this part, and begins the next; returns its counts if it had no PDUs.
    fn end(&mut self) -> Option<Nothing> {
        self.reading.name_sessions();
        let next = self.reading.next_part();
        let reading = std::mem::replace(&mut self.reading, next);
        match reading.capture(CaptureEnd::Whole) {
            Ok(part) => {
                self.has_any = true;
                (self.take)(part);
                None
            }
            Err(nothing) => Some(nothing),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    const INITIATOR: [u8; 6] = [10, 0, 0, 1, 0x9c, 0x40];
    const TARGET: [u8; 6] = [10, 0, 0, 2, 0x0c, 0xbc];
    const SCSI_COMMAND: u8 = 0x01;
    const SCSI_RESPONSE: u8 = 0x21;

    /// A capture of I/Os without data, so many in flight: a pcap file of IP packets with times in ns.
    fn pcap(ios: u32, in_flight: u32) -> Vec<u8> {
        let mut file = Vec::new();
        for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 101] {
            file.extend(word.to_le_bytes());
        }
        for step in 0..ios + in_flight - 1 {
            // The command of one I/O, then the response to an earlier one.
            let command = (step < ios).then_some(step);
            let answered = (step + 1).checked_sub(in_flight);
            let (sent, done) = (ios.min(step + 1), answered.unwrap_or(0));
            let pdus = [
                command.map(|io| (INITIATOR, TARGET, SCSI_COMMAND, io, done)),
                answered.map(|io| (TARGET, INITIATOR, SCSI_RESPONSE, io, sent)),
            ];
            for (at, pdu) in (0..).zip(pdus) {
                let Some((from, to, opcode, io, acked)) = pdu else {
                    continue;
                };
                let (seq, ack) = (48 * io, 48 * acked);
                let mut pdu = [0_u8; 48];
                pdu[0] = opcode;
                pdu[1] = 0x80;
                pdu[16..20].copy_from_slice(&io.to_be_bytes());
                // CmdSN and ExpStatSN of a command, StatSN and ExpCmdSN of a response.
                let numbers = match opcode {
                    SCSI_COMMAND => [io, io, 0],
                    _ => [io, io + 1, io + 64],
                };
                for (word, number) in (24..).step_by(4).zip(numbers) {
                    pdu[word..word + 4].copy_from_slice(&number.to_be_bytes());
                }
                let mut packet = vec![0x45, 0, 0, 88, 0, 0, 0x40, 0, 64, 6, 0, 0];
                packet.extend(&from[..4]);
                packet.extend(&to[..4]);
                packet.extend(&from[4..]);
                packet.extend(&to[4..]);
                packet.extend((seq + 1000).to_be_bytes());
                packet.extend((ack + 1000).to_be_bytes());
                packet.extend([0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
                packet.extend(pdu);
                let ns = 1_000_000 * (2 * step + at) % 1_000_000_000;
                let seconds = 1_700_000_000 + (2 * step + at) / 1000;
                let bytes = packet.len() as u32;
                for word in [seconds, ns, bytes, bytes] {
                    file.extend(word.to_le_bytes());
                }
                file.extend(packet);
            }
        }
        file
    }

    #[test]
    fn an_io_of_which_the_capture_has_half_is_one() {
        // The frame of a command, without its answer.
        const COMMAND_ALONE: usize = 24 + 16 + 88;
        let mut file = pcap(1, 1);
        file.truncate(COMMAND_ALONE);
        let source = Source::Stream(PathBuf::from("file"), Box::new(Cursor::new(file)));
        let mut parts = Vec::new();
        let mut take = |part: Capture| parts.push(part);
        read(std::iter::once(source), Reading::default(), &mut take).expect("it holds a PDU");
        assert_eq!((parts.len(), parts[0].unpaired), (1, 1));
        let [initiator, target] = [([10, 0, 0, 1], 40_000), ([10, 0, 0, 2], 3260)].map(Into::into);
        assert!(parts[0].has_ios(initiator, target));
        assert!(!parts[0].has_ios(target, initiator));
    }

    #[test]
    fn a_long_capture_is_read_in_parts_without_losing_its_connection() {
        const IOS: u32 = 1000;
        const IN_FLIGHT: u32 = 16;
        let source = Source::Stream(
            PathBuf::from("file"),
            Box::new(Cursor::new(pcap(IOS, IN_FLIGHT))),
        );
        let mut parts = Vec::new();
        let mut take = |part: Capture| parts.push(part);
        let whole = read(std::iter::once(source), Reading::keeping(600), &mut take);
        let whole = whole.expect("it holds PDUs");
        assert_eq!((whole.frames, whole.ends), (u64::from(2 * IOS), Vec::new()));
        assert!(parts.len() > 5, "{} parts", parts.len());
        let mut ios = 0;
        for part in &parts {
            assert_eq!(part.connections.len(), 1);
            assert!(part.connections[0].is_same(&parts[0].connections[0]));
            let summary = part.summarise();
            assert!(summary.total.ios > 0);
            let excluded = part.unpaired + part.in_progress;
            assert!(excluded <= u64::from(IN_FLIGHT) + 1, "{part:?}");
            ios += summary.total.ios + excluded;
        }
        let divided: Vec<u64> = parts.iter().map(|part| part.in_progress).collect();
        let (last, others) = divided.split_last().expect("there are parts");
        let is_full = |ios: &u64| u64::from(IN_FLIGHT).abs_diff(*ios) <= 1;
        assert!(*last == 0 && others.iter().all(is_full), "{divided:?}");
        // The one whose command or status a part ends with may be excluded from both.
        let (all, most) = (u64::from(IOS), u64::from(IOS) + parts.len() as u64);
        assert!((all..=most).contains(&ios), "{ios} of {all}");
    }
}
