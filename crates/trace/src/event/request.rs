//! Requests of programs to attached disks.

use crate::named::named;
use crate::record::record;
use crate::{Instant, NameId, SessionId, TaskTag};

named! {
    /// The operation that a program requests of an attached disk.
    RequestKind {
        /// Data.
        Read = "read",
        /// To write data.
        Write = "write",
        /// To make acknowledged data durable.
        Flush = "flush",
        /// To discard data.
        Trim = "trim",
        /// To write zeros.
        Zero = "zero",
        /// To report holes.
        Status = "status",
        /// To read data ahead.
        Prefetch = "prefetch",
    }
}

named! {
    /// What a request to an attached disk waits for.
    RequestWait {
        /// Nothing: it is answered from memory, or acknowledged once its data has arrived.
        Nothing = "nothing",
        /// Data of a read-ahead in flight.
        ReadAhead = "read_ahead",
        /// The disk: an operation was sent for it.
        Disk = "disk",
        /// Space under the limit of early-acknowledged writes.
        WriteBehind = "write_behind",
        /// Other writes to merge with, or its turn among the writes to the disk.
        Merge = "merge",
        /// Earlier writes that must reach the disk first.
        Backlog = "backlog",
        /// The journal's file to be durable.
        Journal = "journal",
        /// Space in the journal.
        JournalRoom = "journal_room",
    }
}

record! {
    /// `request`: one interval of the latency of a program's request to an attached disk. The intervals of a request
    /// are contiguous, from its arrival until its reply was queued; a request that waited for nothing has one,
    /// `nothing`, until it was processed.
    Request in "request" named by disk grouped by |request| request.waits_for as usize => {
        /// When the request was answered.
        time: Instant => Grows,
        /// The disk, by its URL.
        disk: NameId => Repeats,
        /// The request's number on the disk, in order of arrival.
        request: u64 => Varies,
        /// The operation requested.
        kind: RequestKind => Repeats,
        /// Its offset, in bytes.
        offset_bytes: u64 => Varies,
        /// Its length, in bytes.
        length_bytes: u64 => Varies,
        /// What it waited for.
        waits_for: RequestWait => Repeats,
        /// Start of the interval, as time before the reply.
        before_ns: u64 => Varies,
        /// Length of the interval.
        length_ns: u64 => Varies,
        /// The session of the command whose response ended the interval; 0 if none did.
        session: SessionId => Repeats,
        /// The Initiator Task Tag of that command.
        task: TaskTag => Varies,
    }
}
