//! What a disk with a volatile cache may hold after a crash, by what a program has asked it for.

use wansan_peers::trial::{Stop, require};

/// What may be lost by itself.
pub(crate) const SECTOR_BYTES: usize = 512;

/// Writes and flushes of one program, in the order of their requests. A write never overlaps one that is open.
///
/// A trim leaves zeros, as its target makes a hole of exactly its range, and in order with the writes that it overlaps: a
/// journal has it as a record among others, and a cache repeats it as it repeats writes that a target may have lost.
#[derive(Debug)]
pub(crate) struct History {
    sectors: Vec<Sector>,
    /// Since the last crash.
    requests: Vec<Request>,
    /// Flushes, FUA writes and crashes so far.
    epoch: u64,
    /// Versions so far.
    versions: u64,
}

/// The versions of a sector, in order; those that the target cannot hold any more are left out.
#[derive(Debug, Clone)]
struct Sector {
    versions: Vec<Version>,
    /// The place of the oldest that a program may find there.
    oldest: usize,
}

#[derive(Debug, Clone, Copy)]
struct Version {
    /// `None` is zeros.
    number: Option<u64>,
    epoch: u64,
    /// The request that wrote it, if it came since the last crash.
    request: Option<u64>,
}

#[derive(Debug)]
struct Request {
    what: What,
    is_answered: bool,
}

#[derive(Debug, Clone)]
enum What {
    Write {
        first: usize,
        count: usize,
        fua: bool,
    },
    /// Writes that were answered before it was sent are on the medium once it is answered.
    Flush { covers: Vec<u64> },
}

/// What a version has in a sector: it says where it belongs.
fn content(number: u64, sector: usize) -> Vec<u8> {
    let words = (0..SECTOR_BYTES as u64 / 8).map(|at| {
        let mixed = number ^ (sector as u64) << 40 ^ at << 56;
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    words.flat_map(u64::to_le_bytes).collect()
}

impl History {
    /// Of a disk with so many sectors, all zeros.
    pub(crate) fn new(sectors: usize) -> History {
        let zeros = Version {
            number: None,
            epoch: 0,
            request: None,
        };
        let sector = Sector {
            versions: vec![zeros],
            oldest: 0,
        };
        History {
            sectors: vec![sector; sectors],
            requests: Vec::new(),
            epoch: 1,
            versions: 0,
        }
    }

    pub(crate) fn sectors(&self) -> usize {
        self.sectors.len()
    }

    /// A write: its request's number, and its data.
    pub(crate) fn write(&mut self, first: usize, count: usize, fua: bool) -> (u64, Vec<u8>) {
        self.versions += 1;
        let number = self.versions;
        let request = self.change(Some(number), first, count, fua);
        let data = (first..first + count).flat_map(|sector| content(number, sector));
        (request, data.collect())
    }

    /// Zeros are written, or sectors are trimmed; the request's number.
    pub(crate) fn zero(&mut self, first: usize, count: usize, fua: bool) -> u64 {
        self.change(None, first, count, fua)
    }

    /// Whether zeros found in any of these sectors would be those that are written now, and no older ones.
    pub(crate) fn may_zero(&self, first: usize, count: usize) -> bool {
        let sectors = self.sectors[first..first + count].iter();
        let mut versions = sectors.flat_map(|sector| &sector.versions);
        versions.all(|version| version.number.is_some())
    }

    fn change(&mut self, number: Option<u64>, first: usize, count: usize, fua: bool) -> u64 {
        let request = self.requests.len() as u64;
        let version = Version {
            number,
            epoch: self.epoch,
            request: Some(request),
        };
        for sector in &mut self.sectors[first..first + count] {
            sector.versions.push(version);
        }
        self.epoch += u64::from(fua);
        self.requests.push(Request {
            what: What::Write { first, count, fua },
            is_answered: false,
        });
        request
    }

    /// A flush; its request's number.
    pub(crate) fn flush(&mut self) -> u64 {
        let answered = (0..).zip(&self.requests);
        let answered = answered.filter(|(_, request)| request.is_answered);
        let covers = answered.map(|(number, _)| number).collect();
        self.epoch += 1;
        self.requests.push(Request {
            what: What::Flush { covers },
            is_answered: false,
        });
        self.requests.len() as u64 - 1
    }

    /// Whether an open write overlaps these sectors.
    pub(crate) fn is_busy(&self, first: usize, count: usize) -> bool {
        self.sectors[first..first + count].iter().any(|sector| {
            let last = sector.versions.last().and_then(|version| version.request);
            last.is_some_and(|request| !self.requests[request as usize].is_answered)
        })
    }

    /// A request was answered. With `survives` a write that was answered outlives the crash to come without a flush.
    pub(crate) fn answered(&mut self, number: u64, survives: bool) {
        let request = &mut self.requests[number as usize];
        request.is_answered = true;
        let durable = match request.what.clone() {
            What::Flush { covers } => covers,
            What::Write { fua, .. } if fua || survives => vec![number],
            What::Write { .. } => return,
        };
        for number in durable {
            let What::Write { first, count, .. } = self.requests[number as usize].what else {
                continue;
            };
            for sector in &mut self.sectors[first..first + count] {
                let of_write = |version: &Version| version.request == Some(number);
                if let Some(place) = sector.versions.iter().position(of_write) {
                    sector.oldest = sector.oldest.max(place);
                }
            }
        }
    }

    /// After a crash: what a program reads must be allowed, and is what the disk holds from now on. With `is_past` the
    /// target may hold what was there before.
    pub(crate) fn settle(&mut self, disk: &[u8], is_past: bool) -> Result<(), Stop> {
        for (place, bytes) in disk.chunks(SECTOR_BYTES).enumerate() {
            let sector = &mut self.sectors[place];
            let found = sector.find(place, bytes);
            let found = found.filter(|found| *found >= sector.oldest);
            let found = found.ok_or_else(|| {
                let (begin, versions) = (&bytes[..8], &sector.versions[sector.oldest..]);
                Stop::Failed(format!(
                    "sector {place} holds {begin:02x?}, none of {versions:?}"
                ))
            })?;
            sector.versions.truncate(found + 1);
            sector.oldest = found;
            if !is_past {
                sector.versions.drain(..found);
                sector.oldest = 0;
            }
            for version in &mut sector.versions {
                version.request = None;
            }
        }
        self.requests.clear();
        self.epoch += 1;
        Ok(())
    }

    /// What a target holds below a journal must be what a disk with a volatile cache had at one moment: all of what
    /// came before some flush, and nothing of what came after the next one.
    pub(crate) fn check_past(&mut self, target: &[u8]) -> Result<(), Stop> {
        let places = target.chunks(SECTOR_BYTES).zip(&self.sectors).enumerate();
        let mut found = Vec::new();
        for (place, (bytes, sector)) in places {
            found.push(sector.find(place, bytes).ok_or_else(|| {
                let (begin, versions) = (&bytes[..8], &sector.versions);
                Stop::Failed(format!(
                    "the target has {begin:02x?} in sector {place}, none of {versions:?}"
                ))
            })?);
        }
        let held = self.sectors.iter().zip(&found);
        let epochs = held.map(|(sector, found)| sector.versions[*found].epoch);
        let newest = epochs.max().unwrap_or(0);
        for (place, (sector, found)) in self.sectors.iter_mut().zip(found).enumerate() {
            let before = |version: &Version| version.epoch < newest;
            let last_before = sector.versions.iter().rposition(before).unwrap_or(0);
            require(found >= last_before, || {
                let (versions, at) = (&sector.versions, sector.versions[found]);
                format!(
                    "the target has {at:?} of {versions:?} in sector {place}, and epoch {newest} elsewhere"
                )
            })?;
            // Of the same epoch an older one may come again.
            sector.versions.drain(..last_before);
            sector.oldest = sector.oldest.saturating_sub(last_before);
        }
        Ok(())
    }
}

impl Sector {
    /// The place of the version with these bytes.
    fn find(&self, place: usize, bytes: &[u8]) -> Option<usize> {
        let holds = |version: &Version| match version.number {
            None => bytes.iter().all(|byte| *byte == 0),
            Some(number) => bytes == content(number, place),
        };
        self.versions.iter().rposition(holds)
    }
}
