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
        /// That what was acknowledged is on the medium.
        Flush = "flush",
        /// To forget data.
        Trim = "trim",
        /// To write zeros.
        Zero = "zero",
        /// Where the disk has holes.
        Status = "status",
        /// To read data ahead.
        Prefetch = "prefetch",
    }
}

named! {
    /// What a request to an attached disk waits for.
    RequestWait {
        /// Nothing: it is answered from memory, or acknowledged when its data are there.
        Nothing = "nothing",
        /// Data that are on their way already, as they are read ahead.
        ReadAhead = "read_ahead",
        /// The disk: an operation was sent for it.
        Disk = "disk",
        /// Room under the limit of writes that are acknowledged early.
        WriteBehind = "write_behind",
        /// Other writes to merge with, or its turn among the writes to the disk.
        Merge = "merge",
        /// Writes that have to be at the disk before.
        Backlog = "backlog",
        /// The journal's file to be durable.
        Journal = "journal",
        /// Room in the journal.
        JournalRoom = "journal_room",
    }
}

record! {
    /// `request`: a stretch of the time that a program's request to an attached disk took. The stretches of a request
    /// follow each other without a gap, from when it came to when its answer was queued; one that waited for nothing
    /// has one, `nothing`, until it was looked at.
    Request in "request" named by disk {
        /// When the request was answered.
        time: Instant => Grows,
        /// The disk, by its URL.
        disk: NameId => Repeats,
        /// The request's number among those of the disk; they are in the order in which requests came.
        request: u64 => Varies,
        /// The operation requested.
        kind: RequestKind => Repeats,
        /// Where, in bytes.
        offset_bytes: u64 => Varies,
        /// How much, in bytes.
        length_bytes: u64 => Varies,
        /// What it waited for.
        waits_for: RequestWait => Repeats,
        /// How long before the answer the stretch began.
        before_ns: u64 => Varies,
        /// How long it is.
        length_ns: u64 => Varies,
        /// The session of the command whose answer ended the stretch; 0 when none did.
        session: SessionId => Repeats,
        /// The Initiator Task Tag of that command.
        task: TaskTag => Varies,
    }
}
