//! Memory mapped from the kernel, and returned as soon as it is dropped. Memory freed to malloc(3) mostly stays with
//! the process: only whole unused pages can be returned.

use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// `BYTES` of memory, zeroed at first.
#[derive(Debug)]
pub(crate) struct Mapping<const BYTES: usize>(NonNull<u8>);

#[allow(unsafe_code, reason = "the kernel gives memory by its address")]
impl<const BYTES: usize> Mapping<BYTES> {
    /// `None` when the system is out of memory.
    pub(crate) fn new() -> Option<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory of ours.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), BYTES, access, MapFlags::PRIVATE) };
        NonNull::new(start.ok()?.cast()).map(Mapping)
    }
}

#[allow(unsafe_code, reason = "the kernel gives memory by its address")]
// SAFETY: this value is the only owner of the mapping, which is not tied to a thread.
unsafe impl<const BYTES: usize> Send for Mapping<BYTES> {}

impl<const BYTES: usize> Deref for Mapping<BYTES> {
    type Target = [u8];

    #[allow(unsafe_code, reason = "the kernel gives memory by its address")]
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has `BYTES` initialized bytes, and is borrowed as this value is.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), BYTES) }
    }
}

impl<const BYTES: usize> DerefMut for Mapping<BYTES> {
    #[allow(unsafe_code, reason = "the kernel gives memory by its address")]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else borrows it.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr(), BYTES) }
    }
}

impl<const BYTES: usize> Drop for Mapping<BYTES> {
    #[allow(unsafe_code, reason = "the kernel gives memory by its address")]
    fn drop(&mut self) {
        // SAFETY: this value is the only owner of the mapping, and nobody borrows it any more.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 64 << 10;

    fn resident_bytes() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok());
        kib.unwrap() << 10
    }

    #[test]
    fn the_kernel_has_it_back_at_once() {
        const COUNT: usize = 2000;
        let before = resident_bytes();
        let mut mappings = Vec::new();
        // Allocations that stay in use between them.
        let mut others = Vec::new();
        for _ in 0..COUNT {
            let mut mapping = Mapping::<BYTES>::new().unwrap();
            assert_eq!((mapping[0], mapping[BYTES - 1]), (0, 0));
            mapping.fill(7);
            mappings.push(mapping);
            others.push(vec![7_u8; 300]);
        }
        let taken = resident_bytes() - before;
        assert!(taken > COUNT * BYTES * 3 / 4, "{taken}");
        drop(mappings);
        // Other tests of this process allocate memory as well, for a while.
        let left = (0..100)
            .map(|_| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                resident_bytes().saturating_sub(before)
            })
            .find(|left| *left < COUNT * BYTES / 4);
        assert!(left.is_some(), "{} of {taken}", resident_bytes() - before);
        assert_eq!(others.len(), COUNT);
    }
}
