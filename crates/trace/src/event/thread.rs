//! Programs' threads.

use crate::named::named;
use crate::record::record;
use crate::{Instant, NameId};

named! {
    /// The role of a program in a run.
    Role {
        /// It issues I/Os.
        Initiator = "initiator",
        /// It serves them.
        Target = "target",
        /// It encrypts and decrypts a router's traffic.
        Vpn = "vpn",
        /// It joins pairs of connections.
        Relay = "relay",
        /// It sends streams and measures them.
        Stream = "stream",
    }
}

record! {
    /// `thread`: the CPU time of one thread of a program since its start, sampled while it exists.
    Thread in "thread" named by program grouped by |thread| thread.thread as usize => {
        /// When.
        time: Instant => Grows,
        /// The program, such as `far wireguard`, by its name in the recorder.
        program: NameId => Repeats,
        /// The program's role.
        role: Role => Repeats,
        /// The kernel's id of the thread.
        thread: u32 => Varies,
        /// How long it ran.
        ran_ns: u64 => Varies,
        /// How long it was runnable but had no CPU.
        waited_ns: u64 => Varies,
    }
}
