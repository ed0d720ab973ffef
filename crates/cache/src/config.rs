//! How much a cache may keep, and what it has done.

use std::time::Duration;

/// How a [`Cache`](crate::Cache) works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheConfig {
    /// The disk's size, in bytes.
    pub size_bytes: u64,
    /// Whether writes are acknowledged before they are at the disk.
    pub writes_behind: bool,
    /// Memory for writes that were acknowledged or answered and may be lost by the disk, in bytes: more writes wait. From the half
    /// on, the disk is flushed unasked.
    pub write_bytes: u64,
    /// Bytes that may be read ahead and not requested yet; 0: nothing is read ahead.
    pub read_ahead_bytes: u64,
    /// The longest write that adjacent ones are merged to, in bytes.
    pub burst_bytes: u64,
    /// Changes that were answered and may be lost by the disk, at most; at least 1: more trims and zeros wait, which take
    /// next to no bytes. From the half on, the disk is flushed unasked.
    pub unflushed_changes: usize,
    /// How long a write that was acknowledged waits for others to merge with.
    pub merge_time: Duration,
    /// Writes at the disk at once, at most; at least 1.
    pub writes_in_flight: usize,
    /// Whether the disk may lose what it has answered and not flushed, when it loses power: that is kept in memory
    /// until it is flushed, for [`Cache::again`](crate::Cache::again).
    pub is_volatile: bool,
    /// Whether [`Cache::poll_mark`](crate::Cache::poll_mark) says what requests wait for; it is to be asked then.
    pub marks: bool,
}

/// What a cache has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Reads that were answered from memory.
    pub read_hits: u64,
    /// Reads that waited for data that were already on their way.
    pub read_waits: u64,
    /// Reads that went to the disk.
    pub read_misses: u64,
    /// Bytes read ahead.
    pub ahead_bytes: u64,
    /// Of these, those that were thrown away before anybody read them.
    pub wasted_bytes: u64,
    /// Writes that were acknowledged before they were at the disk.
    pub early_acks: u64,
    /// Writes that waited for memory, or for room in a journal.
    pub held_writes: u64,
    /// Writes by the program.
    pub writes: u64,
    /// Writes to the disk.
    pub bursts: u64,
    /// Flushes by the program.
    pub flushes: u64,
    /// Writes that had been acknowledged and then failed at the disk.
    pub lost_writes: u64,
}
