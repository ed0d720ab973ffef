//! Configuration and counters of a cache.

use std::time::Duration;

/// Configuration of a [`Cache`](crate::Cache).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheConfig {
    /// The disk's size, in bytes.
    pub size_bytes: u64,
    /// Whether writes are acknowledged before the disk has them.
    pub writes_behind: bool,
    /// Memory for acknowledged or answered writes that the disk may lose, in bytes: at this limit, further writes wait.
    /// At half of it, the cache flushes the disk by itself.
    pub write_bytes: u64,
    /// Most bytes read ahead but not requested yet; 0 disables read-ahead.
    pub read_ahead_bytes: u64,
    /// Longest merged write, in bytes.
    pub burst_bytes: u64,
    /// Most answered changes that the disk may lose; at least 1: at this limit, further trims and zeroing requests
    /// wait, as they take next to no bytes. At half of it, the cache flushes the disk by itself.
    pub unflushed_changes: usize,
    /// How long an acknowledged write waits to be merged with others.
    pub merge_time: Duration,
    /// Most outstanding writes at the disk; at least 1.
    pub writes_in_flight: usize,
    /// Whether the disk may lose answered but unflushed writes in a power failure: they are kept in memory until
    /// flushed, for [`Cache::again`](crate::Cache::again).
    pub is_volatile: bool,
    /// Whether [`Cache::poll_mark`](crate::Cache::poll_mark) reports what requests wait for; the caller must then poll
    /// it.
    pub marks: bool,
}

/// A cache's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Reads answered from memory.
    pub read_hits: u64,
    /// Reads that waited for data already being fetched.
    pub read_waits: u64,
    /// Reads that went to the disk.
    pub read_misses: u64,
    /// Bytes read ahead.
    pub ahead_bytes: u64,
    /// Read-ahead bytes dropped before they were read.
    pub wasted_bytes: u64,
    /// Writes acknowledged before the disk had them.
    pub early_acks: u64,
    /// Writes that waited for memory, or for room in a journal.
    pub held_writes: u64,
    /// Writes from the program.
    pub writes: u64,
    /// Writes to the disk.
    pub bursts: u64,
    /// Flushes from the program.
    pub flushes: u64,
    /// Acknowledged writes that failed at the disk.
    pub lost_writes: u64,
}
