//! Decodes the records of `src/bpf/block.bpf.c` and `src/bpf/lio.bpf.c`.

use super::{BlockIo, TargetCommand};

/// Reads consecutive fields.
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
}

/// Decodes `struct io`; `None` if malformed or if its times are out of order.
pub(super) fn block_io(bytes: &[u8]) -> Option<BlockIo> {
    let time = |ns: u64| Some(ns).filter(|ns| *ns != 0);
    let mut fields = Fields(bytes);
    let _request = fields.u64()?;
    let submitted_ns = time(fields.u64()?);
    let allocated_ns = time(fields.u64()?);
    let issued_ns = fields.u64()?;
    let (dispatched_ns, done_ns) = (time(fields.u64()?), time(fields.u64()?));
    let completed_ns = fields.u64()?;
    let (sector, bytes, disk) = (fields.u64()?, fields.u32()?, fields.u32()?);
    let (_operation, dispatches) = (fields.u32()?, fields.u32()?);
    let io = BlockIo {
        disk,
        sector,
        bytes,
        // The request clock may be cached while a batch of requests is issued.
        submitted_ns: submitted_ns.map(|ns| ns.min(issued_ns)),
        allocated_ns: allocated_ns.unwrap_or(issued_ns).min(issued_ns),
        issued_ns,
        dispatched_ns,
        dispatches,
        done_ns,
        completed_ns,
        cdb: fields.array()?,
    };
    let is_ordered = io.dispatched_ns.is_none_or(|ns| ns >= issued_ns)
        && io.done_ns.unwrap_or(issued_ns) >= io.dispatched_ns.unwrap_or(issued_ns)
        && completed_ns >= io.done_ns.unwrap_or(issued_ns);
    is_ordered.then_some(io)
}

/// Decodes `struct command`.
pub(super) fn target_command(bytes: &[u8]) -> Option<TargetCommand> {
    let mut fields = Fields(bytes);
    let _address = fields.u64()?;
    let (began_ns, done_ns) = (fields.u64()?, fields.u64()?);
    // LIO keeps the tag in wire byte order.
    let tag = u32::from_be_bytes((fields.u64()? as u32).to_ne_bytes());
    let command = TargetCommand {
        tag,
        lun: fields.u64()?,
        began_ns,
        done_ns,
        cdb: fields.array()?,
    };
    (began_ns <= done_ns).then_some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(words: &[u64], cdb: [u8; 16]) -> Vec<u8> {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend(cdb);
        bytes
    }

    #[test]
    fn times_that_did_not_come_are_none_and_those_in_no_order_are_refused() {
        let two = |first: u32, second: u32| {
            let [a, b, c, d] = first.to_ne_bytes();
            let [e, f, g, h] = second.to_ne_bytes();
            u64::from_ne_bytes([a, b, c, d, e, f, g, h])
        };
        let words = |dispatched, done| {
            let disk = device(8, 16);
            let rest = [2048, two(4096, disk), two(0, 1)];
            [&[1, 0, 90, 100, dispatched, done, 500][..], &rest].concat()
        };
        let io = block_io(&record(&words(110, 400), [7; 16])).unwrap();
        assert_eq!((io.submitted_ns, io.began_ns()), (None, 90));
        assert_eq!((io.dispatched_ns, io.done_ns), (Some(110), Some(400)));
        assert_eq!((io.disk, io.bytes), (device(8, 16), 4096));
        assert_eq!((io.cdb, io.dispatches), ([7; 16], 1));
        let without = block_io(&record(&words(0, 0), [0; 16])).unwrap();
        assert_eq!(without.dispatched_ns, None);
        assert_eq!(block_io(&record(&words(600, 700), [0; 16])), None);
        assert_eq!(block_io(&[0; 40]), None);
    }

    use super::super::device_number as device;

    #[test]
    fn a_tag_of_lio_is_that_of_its_pdu() {
        let tag = u64::from(u32::from_ne_bytes([0, 0, 1, 2]));
        let command = target_command(&record(&[9, 10, 30, tag, 3], [1; 16])).unwrap();
        assert_eq!((command.tag, command.lun), (0x0102, 3));
        assert_eq!(target_command(&record(&[9, 30, 10, tag, 3], [1; 16])), None);
    }
}
