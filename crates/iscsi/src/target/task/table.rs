//! The session's tasks by tag.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use wansan_trace::{ConnectionId, TaskTag};

use super::{Progress, Stage, Task};
use crate::scsi::Ticket;

/// The tasks of a session, and bytes outstanding at stores: `at_store_bytes` of an index is always the sum over the
/// tasks of its connection.
#[derive(Debug, Default)]
pub(in crate::target) struct Tasks {
    by_tag: HashMap<TaskTag, Box<Task>, TagHash>,
    /// By connection index: bytes of reads requested from stores. They will have to be sent there.
    at_store_bytes: Vec<usize>,
}

impl Tasks {
    pub(in crate::target) fn len(&self) -> usize {
        self.by_tag.len()
    }

    pub(in crate::target) fn contains(&self, tag: TaskTag) -> bool {
        self.by_tag.contains_key(&tag)
    }

    pub(in crate::target) fn get(&self, tag: TaskTag) -> Option<&Task> {
        self.by_tag.get(&tag).map(Box::as_ref)
    }

    pub(in crate::target) fn get_mut(&mut self, tag: TaskTag) -> Option<&mut Task> {
        self.by_tag.get_mut(&tag).map(Box::as_mut)
    }

    /// The tags of the tasks selected by `wanted`.
    pub(in crate::target) fn tags(&self, wanted: impl Fn(&Task) -> bool) -> Vec<TaskTag> {
        let tasks = self.by_tag.values().filter(|task| wanted(task));
        tasks.map(|task| task.tag).collect()
    }

    /// Adds a task without a store operation.
    pub(in crate::target) fn insert(&mut self, task: Box<Task>) {
        debug_assert_eq!(task.at_store_bytes, 0);
        self.owed_at(task.place, |bytes| bytes);
        self.by_tag.insert(task.tag, task);
    }

    /// Removes a task; none of its bytes is outstanding any more.
    pub(in crate::target) fn remove(&mut self, tag: TaskTag) -> Option<Box<Task>> {
        let mut task = self.by_tag.remove(&tag)?;
        self.owed_at(task.place, |bytes| bytes - task.at_store_bytes);
        task.at_store_bytes = 0;
        Some(task)
    }

    /// Bytes outstanding at stores for the connection at `place`.
    pub(in crate::target) fn at_store_bytes(&self, place: usize) -> usize {
        self.at_store_bytes.get(place).copied().unwrap_or_default()
    }

    /// A task together with its connection's outstanding bytes, to change both.
    #[inline]
    pub(in crate::target) fn entry(&mut self, tag: TaskTag) -> Option<Entry<'_>> {
        let task = self.by_tag.get_mut(&tag)?;
        let owed_bytes = &mut self.at_store_bytes[task.place];
        Some(Entry { task, owed_bytes })
    }

    /// The store's result is discarded: the task is in its state before the operation.
    pub(in crate::target) fn set_aside(&mut self, tag: TaskTag) {
        if let Some(task) = self.by_tag.get_mut(&tag) {
            let owed_bytes = std::mem::take(&mut task.at_store_bytes);
            if let Stage::AtStore(progress) = &mut task.stage {
                task.stage = Stage::Ready(std::mem::take(progress));
            }
            let place = task.place;
            self.owed_at(place, |bytes| bytes - owed_bytes);
        }
    }

    /// A task moves to the connection `id` at `place`.
    pub(in crate::target) fn reassign(&mut self, tag: TaskTag, place: usize, id: ConnectionId) {
        if let Some(task) = self.by_tag.get_mut(&tag) {
            let (from, owed_bytes) = (task.place, task.at_store_bytes);
            task.reassign(place, id);
            self.owed_at(from, |bytes| bytes - owed_bytes);
            self.owed_at(place, |bytes| bytes + owed_bytes);
        }
    }

    fn owed_at(&mut self, place: usize, change: impl FnOnce(usize) -> usize) {
        if place >= self.at_store_bytes.len() {
            self.at_store_bytes.resize(place + 1, 0);
        }
        self.at_store_bytes[place] = change(self.at_store_bytes[place]);
    }
}

/// A task, and the outstanding bytes of its connection.
#[derive(Debug)]
pub(in crate::target) struct Entry<'a> {
    pub(in crate::target) task: &'a mut Task,
    owed_bytes: &'a mut usize,
}

impl Entry<'_> {
    /// Starts a store operation of the task, for `read_bytes` of a read.
    #[inline]
    pub(in crate::target) fn ask_store(
        &mut self,
        progress: Progress,
        ticket: Ticket,
        read_bytes: usize,
    ) {
        self.task.stage = Stage::AtStore(progress);
        self.task.ticket = Some(ticket);
        self.task.at_store_bytes = read_bytes;
        *self.owed_bytes += read_bytes;
    }

    /// The next `bytes` of a read have been queued for sending; returns whether all bytes requested from the store
    /// have.
    #[inline]
    pub(in crate::target) fn read_sent(&mut self, bytes: u32) -> bool {
        if let Stage::AtStore(progress) = &mut self.task.stage {
            progress.sent_bytes += bytes;
            progress.data_sn += 1;
        }
        self.task.at_store_bytes -= bytes as usize;
        *self.owed_bytes -= bytes as usize;
        self.task.at_store_bytes == 0
    }
}

/// Hashes task tags. A session has no more tasks than its command window and a few immediate
/// ones, so a peer that chooses tags which collide slows only its own session, and only by that
/// bound.
pub(in crate::target) type TagHash = BuildHasherDefault<TagHasher>;

/// See [`TagHash`].
#[derive(Debug, Default)]
pub(in crate::target) struct TagHasher(u64);

impl Hasher for TagHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, tag: u32) {
        // Fibonacci hashing: consecutive tags spread over the high bits that the table uses.
        self.0 = (self.0 ^ u64::from(tag)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
