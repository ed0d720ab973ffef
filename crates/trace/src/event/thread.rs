//! Programs' threads.

use crate::named::named;
use crate::record::record;
use crate::{Instant, NameId};

named! {
    /// What a program of a run is there for.
    Role {
        /// It asks for I/Os.
        Initiator = "initiator",
        /// It serves them.
        Target = "target",
        /// It encrypts and decrypts what a router forwards.
        Vpn = "vpn",
        /// It joins pairs of connections.
        Relay = "relay",
        /// It sends streams and measures them.
        Stream = "stream",
    }
}

record! {
    /// `thread`: what one thread of a program has had of the processors since it began, sampled while it
    /// is there.
    Thread in "thread" named by program {
        /// When.
        time: Instant => Grows,
        /// The program, such as `far wireguard`, by its name in the recorder.
        program: NameId => Repeats,
        /// What the program is there for.
        role: Role => Repeats,
        /// The kernel's id of the thread.
        thread: u32 => Varies,
        /// How long it ran.
        ran_ns: u64 => Varies,
        /// How long it was ready to run and had no processor, as others had them.
        waited_ns: u64 => Varies,
    }
}
