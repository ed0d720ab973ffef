//! Loads `src/bpf/watch.bpf.c` and drains its ring buffer.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;

use libbpf_rs::{Link, MapCore, MapFlags, Object, OpenObject, RingBuffer, RingBufferBuilder};

use super::super::traced::Traced;
use super::callers::Callers;
use super::decode::decode;
use crate::ebpf::{self, EbpfError};

const NAME: &str = "watch";
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/watch.bpf.o"));

/// Events of the opening thread's network namespace.
pub(in crate::watch) struct Events {
    ring: RingBuffer<'static>,
    taken: Rc<RefCell<Vec<Traced>>>,
    /// The programs run while these links are held.
    _links: Vec<Link>,
    object: Object,
}

impl Events {
    /// Loads the programs and attaches them; `room_bytes`, a power of two of at least a page, is the size of the ring
    /// buffer.
    ///
    /// # Errors
    /// What this machine lacks, or why the kernel rejects the programs.
    pub(in crate::watch) fn open(room_bytes: u32) -> Result<Events, EbpfError> {
        let loaded = ebpf::load(NAME, OBJECT, |object| prepare(object, room_bytes))?;
        let object = loaded.object;
        let attach = || -> libbpf_rs::Result<_> {
            let taken = Rc::new(RefCell::new(Vec::new()));
            let callers = Callers::of_this_kernel();
            let maps: Vec<_> = object.maps().collect();
            let is_ring = |map: &&libbpf_rs::Map<'_>| map.name() == "ring";
            let map = maps.iter().find(is_ring).ok_or_else(missing)?;
            let mut builder = RingBufferBuilder::new();
            let put = Rc::clone(&taken);
            builder.add(map, move |bytes| {
                put.borrow_mut().extend(decode(bytes, &callers));
                0
            })?;
            let ring = builder.build()?;
            let links: libbpf_rs::Result<Vec<Link>> =
                object.progs_mut().map(|program| program.attach()).collect();
            Ok((ring, taken, links?))
        };
        match attach() {
            Ok((ring, taken, links)) => Ok(Events {
                ring,
                taken,
                _links: links,
                object,
            }),
            Err(error) => Err(ebpf::refused(NAME, &error, &loaded.verifier_log)),
        }
    }

    /// Events since the last call, in order of time.
    pub(in crate::watch) fn take(&mut self) -> Vec<Traced> {
        // Fails only when its callback does, which ours never does.
        let _ = self.ring.consume();
        let mut taken = std::mem::take(&mut *self.taken.borrow_mut());
        // Processors write concurrently.
        taken.sort_by_key(|traced| traced.time);
        taken
    }

    /// Events dropped because the ring buffer was full.
    pub(in crate::watch) fn lost(&self) -> u64 {
        let counters = self
            .object
            .maps()
            .find(|map| map.name().to_string_lossy().ends_with(".bss"));
        let value = counters.and_then(|map| {
            let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
            value.ok().flatten()
        });
        let count = value.and_then(|bytes| bytes.first_chunk().copied());
        count.map_or(0, u64::from_ne_bytes)
    }
}

fn missing() -> libbpf_rs::Error {
    std::io::Error::from(std::io::ErrorKind::NotFound).into()
}

fn prepare(object: &mut OpenObject, room_bytes: u32) -> libbpf_rs::Result<()> {
    // The inode of its file identifies a namespace.
    let namespace = fs::metadata("/proc/thread-self/ns/net")?.ino() as u32;
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name == "ring" {
            map.set_max_entries(room_bytes)?;
        } else if name.ends_with(".rodata") {
            let value = map.initial_value_mut().ok_or_else(missing)?;
            let place = value.first_chunk_mut().ok_or_else(missing)?;
            *place = namespace.to_ne_bytes();
        }
    }
    Ok(())
}
