//! Loads the programs of `src/bpf` and drains their rings.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

use libbpf_rs::{Link, MapCore, MapFlags, Object, OpenObject, RingBuffer, RingBufferBuilder};
use wansan_tcp::ebpf::{self, EbpfError};
use wansan_trace::{Instant, clock};

use super::decode::{block_io, target_command};
use super::{BlockIo, MOST_KEPT, TargetCommand, TracingError};

const BLOCK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/block.bpf.o"));
const LIO: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lio.bpf.o"));

/// The first Linux release in which a request refers to its disk through its queue.
const LEAST_RELEASE: (u32, u32) = (5, 15);
/// `DISK_BITS` of block.bpf.c.
const DISK_BITS: u32 = 10;

/// Traces I/Os of some disks.
pub struct BlockTracing(Tracing<BlockIo>);

/// Traces LIO's commands.
pub struct TargetTracing(Tracing<TargetCommand>);

impl BlockTracing {
    /// Traces the I/Os of disks by device number.
    ///
    /// # Errors
    /// The missing prerequisite, or the kernel's error.
    pub fn open(disks: &BTreeSet<u32>) -> Result<BlockTracing, TracingError> {
        check_release()?;
        let has_scsi = Path::new("/sys/module/scsi_mod").exists();
        let prepare = |object: &mut OpenObject| {
            for mut program in object.progs_mut() {
                let is_of_scsi = program.name().to_string_lossy().starts_with("command_");
                program.set_autoload(has_scsi || !is_of_scsi);
            }
            for mut map in object.maps_mut() {
                if map.name().to_string_lossy().ends_with(".rodata") {
                    let value = map.initial_value_mut().ok_or_else(missing)?;
                    for disk in disks {
                        let bit = place(*disk) as usize;
                        let word = value.get_mut(bit / 8).ok_or_else(missing)?;
                        *word |= 1 << (bit % 8);
                    }
                }
            }
            Ok(())
        };
        let mut tracing = Tracing::open("block", BLOCK, prepare, block_io)?;
        let disks = disks.clone();
        tracing.is_wanted = Box::new(move |io| disks.contains(&io.disk));
        Ok(BlockTracing(tracing))
    }

    /// Drains the ring.
    pub fn drain(&mut self) {
        self.0.drain();
    }

    /// The I/Os completed since the last call, and the number lost.
    pub fn take(&mut self) -> (Vec<BlockIo>, u64) {
        self.0.take()
    }

    /// Pauses the programs.
    pub fn pause(&mut self) {
        self.0.links.clear();
    }

    /// Resumes the programs.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn resume(&mut self) -> Result<(), TracingError> {
        Ok(self.0.resume()?)
    }
}

impl TargetTracing {
    /// Traces all commands.
    ///
    /// # Errors
    /// The missing prerequisite, or the kernel's error.
    pub fn open() -> Result<TargetTracing, TracingError> {
        let tracing = Tracing::open("lio", LIO, |_| Ok(()), target_command)?;
        Ok(TargetTracing(tracing))
    }

    /// Drains the ring.
    pub fn drain(&mut self) {
        self.0.drain();
    }

    /// The commands completed since the last call, and the number lost.
    pub fn take(&mut self) -> (Vec<TargetCommand>, u64) {
        self.0.take()
    }

    /// Pauses the programs.
    pub fn pause(&mut self) {
        self.0.links.clear();
    }

    /// Resumes the programs. Commands that began earlier are not reported.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn resume(&mut self) -> Result<(), TracingError> {
        self.0.set_since(clock::now())?;
        Ok(self.0.resume()?)
    }
}

/// The attached programs of an object, and the records from its ring.
struct Tracing<R> {
    ring: RingBuffer<'static>,
    taken: Rc<RefCell<Vec<R>>>,
    is_wanted: Box<dyn Fn(&R) -> bool>,
    /// Records dropped here.
    left_out: u64,
    kept: Vec<R>,
    /// Records lost in the kernel, as of the last report.
    reported_lost: u64,
    /// The programs stay attached while these are held.
    links: Vec<Link>,
    object: Object,
    name: &'static str,
}

impl<R: 'static> Tracing<R> {
    fn open(
        name: &'static str,
        bytes: &[u8],
        prepare: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
        decode: fn(&[u8]) -> Option<R>,
    ) -> Result<Tracing<R>, EbpfError> {
        let loaded = ebpf::load(name, bytes, prepare)?;
        let object = loaded.object;
        let attach = || -> libbpf_rs::Result<_> {
            let taken = Rc::new(RefCell::new(Vec::new()));
            let maps: Vec<_> = object.maps().collect();
            let is_ring = |map: &&libbpf_rs::Map<'_>| map.name() == "ring";
            let map = maps.iter().find(is_ring).ok_or_else(missing)?;
            let mut builder = RingBufferBuilder::new();
            let put = Rc::clone(&taken);
            builder.add(map, move |bytes| {
                put.borrow_mut().extend(decode(bytes));
                0
            })?;
            let ring = builder.build()?;
            Ok((ring, taken, attached(&object)?))
        };
        match attach() {
            Ok((ring, taken, links)) => Ok(Tracing {
                ring,
                taken,
                is_wanted: Box::new(|_| true),
                left_out: 0,
                kept: Vec::new(),
                reported_lost: 0,
                links,
                object,
                name,
            }),
            Err(error) => Err(ebpf::refused(name, &error, &loaded.verifier_log)),
        }
    }

    fn drain(&mut self) {
        // It fails only if its callback does, and this one never does.
        let _ = self.ring.consume();
        for record in self.taken.borrow_mut().drain(..) {
            match (self.is_wanted)(&record) {
                true if self.kept.len() < MOST_KEPT => self.kept.push(record),
                true => self.left_out += 1,
                false => {}
            }
        }
    }

    fn take(&mut self) -> (Vec<R>, u64) {
        self.drain();
        let lost = self.lost();
        let newly_lost = lost - self.reported_lost + std::mem::take(&mut self.left_out);
        self.reported_lost = lost;
        (std::mem::take(&mut self.kept), newly_lost)
    }

    fn resume(&mut self) -> Result<(), EbpfError> {
        let links = attached(&self.object);
        self.links = links.map_err(|error| ebpf::refused(self.name, &error, ""))?;
        Ok(())
    }

    /// Sets `since_ns` of lio.bpf.c.
    fn set_since(&mut self, time: Instant) -> Result<(), EbpfError> {
        let set = || {
            let mut maps = self.object.maps();
            let map = maps.find(|map| map.name() == ".data.since");
            let (key, value) = (0_u32.to_ne_bytes(), time.ns().to_ne_bytes());
            map.ok_or_else(missing)?.update(&key, &value, MapFlags::ANY)
        };
        set().map_err(|error| ebpf::refused(self.name, &error, ""))
    }

    /// Records lost in the kernel for lack of room.
    fn lost(&self) -> u64 {
        let mut maps = self.object.maps();
        let counter = maps.find(|map| map.name() == ".data.lost");
        let value = counter.and_then(|map| {
            let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
            value.ok().flatten()
        });
        let count = value.and_then(|bytes| bytes.first_chunk().copied());
        count.map_or(0, u64::from_ne_bytes)
    }
}

/// Attaches the programs of an object.
fn attached(object: &Object) -> libbpf_rs::Result<Vec<Link>> {
    let programs = object.progs_mut().filter(|program| program.autoload());
    programs.map(|program| program.attach()).collect()
}

/// `place` of block.bpf.c.
fn place(disk: u32) -> u32 {
    (u64::from(disk).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - DISK_BITS)) as u32
}

fn missing() -> libbpf_rs::Error {
    std::io::Error::from(std::io::ErrorKind::NotFound).into()
}

fn check_release() -> Result<(), TracingError> {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < LEAST_RELEASE => {
            Err(TracingError::TooOld { release })
        }
        _ => Ok(()),
    }
}

impl std::fmt::Debug for BlockTracing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockTracing").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for TargetTracing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TargetTracing").finish_non_exhaustive()
    }
}
