//! Why a moment of an I/O passed, and what to relieve so that it passes sooner.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Defines [`Cause`]: each cause with its name in files, the limit and the family that it belongs to, and its
/// words.
macro_rules! causes {
    ($($(#[$doc:meta])* $cause:ident = $name:literal, $limit:ident, $family:ident, $words:literal;)*) => {
        /// Why a moment of an I/O passed. Each moment has one cause.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Cause {
            $($(#[$doc])* $cause),*
        }

        impl Cause {
            /// All causes.
            pub const ALL: [Cause; [$($name),*].len()] = [$(Cause::$cause),*];

            /// Its name in results.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Cause::$cause => $name),* }
            }

            /// What to relieve.
            #[must_use]
            pub const fn limit(self) -> Limit {
                match self { $(Cause::$cause => Limit::$limit),* }
            }

            /// Which causes it is like.
            #[must_use]
            pub const fn family(self) -> Family {
                match self { $(Cause::$cause => Family::$family),* }
            }

            /// As an engineer would say it of an I/O.
            #[must_use]
            pub const fn in_words(self) -> &'static str {
                match self { $(Cause::$cause => $words),* }
            }
        }
    };
}

causes! {
    /// The least that the path takes, whatever is sent.
    Propagation = "propagation", TooFewIos, Path, "it crossed the path";
    /// The I/O's own bytes passed the link at its rate.
    Transmission = "transmission", PathRate, Path, "its bytes passed the link at its rate";
    /// Other bytes passed a full link before it, wherever it waited meanwhile.
    PathQueue = "path_queue", PathRate, Queue, "it was queued for a full link";
    /// A router's VPN encrypted what came before it.
    Encryption = "encryption", Encryption, Queue, "it was queued for a router's encryption";
    /// It waited for a place in the command window (RFC 7143 §4.2.2.1).
    CommandWindow = "command_window", CommandWindow, Iscsi, "the command window was closed";
    /// Its target asked for data, and none of it had come yet (RFC 7143 §11.8).
    R2tWait = "r2t_wait", R2tRoundTrips, Iscsi, "the initiator waited for an R2T";
    /// A command waited for one with a lower CmdSN on another connection (RFC 7143 §4.2.2.1).
    RouteLockstep = "route_lockstep", RouteLockstep, Iscsi, "a command with a lower CmdSN was late on another connection";
    /// The congestion window, or what paces it, let nothing out (RFC 5681).
    CongestionWindow = "congestion_window", CongestionWindow, TcpWindow, "it waited for the congestion window";
    /// Data were more than the congestion window let out at once, so that they took further round trips
    /// (RFC 5681 §3.1).
    ExtraRoundTrips = "extra_round_trips", Stalls, TcpWindow, "the congestion window let out only a part at once";
    /// The same after an idle time, before which the window was larger (RFC 5681 §4.1).
    SlowStartAfterIdle = "slow_start_after_idle", Stalls, TcpWindow, "the congestion window had shrunk while nothing was sent";
    /// The receiver's window was closed or shorter than what was to be sent (RFC 9293 §3.8.6).
    ReceiveWindow = "receive_window", ReceiveWindow, TcpWindow, "the receiver's window was closed or too small";
    /// The sender's program had more, and the send buffer no room for it until something was acknowledged.
    SendBuffer = "send_buffer", SendBuffer, TcpWindow, "the send buffer had no room for more";
    /// Nagle's algorithm held a short segment until what was sent before it was acknowledged, which
    /// happened at once (RFC 896, RFC 1122 §4.2.3.4): one more round trip.
    Nagle = "nagle", Stalls, Acknowledgement, "Nagle's algorithm held a short segment for a round trip";
    /// The receiver kept an acknowledgement back, for which the sender's window waited (RFC 1122
    /// §4.2.3.2).
    DelayedAck = "delayed_ack", Stalls, Acknowledgement, "the sender waited for a delayed acknowledgement";
    /// Both: the short segment waited for an acknowledgement that the receiver kept back.
    NagleAgainstDelayedAck = "nagle_against_delayed_ack", Stalls, Acknowledgement, "Nagle's algorithm held a short segment while the receiver delayed the acknowledgement that would have released it";
    /// A lost segment was retransmitted because later ones were acknowledged (RFC 5681 §3.2).
    FastRetransmit = "fast_retransmit", Stalls, Loss, "a lost segment was retransmitted";
    /// A lost segment was retransmitted only when the timer had run out, although something had been
    /// sent behind it, or because it was lost twice (RFC 6298).
    RetransmissionTimeout = "retransmission_timeout", Stalls, Loss, "a lost segment waited for the retransmission timer";
    /// Nothing was sent behind a lost segment, so that only a timer could find it (RFC 8985 §7).
    TailLoss = "tail_loss", Stalls, Loss, "the last segment was lost, which only a timer could tell";
    /// It stood in the queue of the sending host's network device.
    DeviceQueue = "device_queue", Nothing, Queue, "it was in the queue of the sender's network device";
    /// The receiving program had not read it yet, or what was before it.
    ReceiveBuffer = "receive_buffer", Nothing, Program, "the receiving program had not read it yet";
    /// A program that has it had no processor to spare, as `thread` records show.
    Processor = "processor", Processor, Program, "a program had no processor to spare";
    /// The initiator's program had it.
    Initiator = "initiator", Nothing, Program, "the initiator's program had it";
    /// The target's program had it.
    Target = "target", Nothing, Program, "the target's program had it";
    /// The store served it.
    StoreService = "store_service", TooFewIos, Store, "the store served it";
    /// It waited for the store, or the store served others meanwhile.
    StoreQueue = "store_queue", Store, Store, "it was queued for the store";
    /// Writes that an attached disk had acknowledged early had reached their limit.
    WriteBehindLimit = "write_behind_limit", Nothing, Program, "early acknowledged writes had reached their limit";
    /// A write waited for others to merge with, or for its turn at the disk.
    Merge = "merge", Nothing, Program, "it waited for other writes to merge with, or for its turn";
    /// Writes that had to be at the disk before were not there.
    Backlog = "backlog", Nothing, Program, "earlier writes had to be at the disk first";
    /// The journal's file was not durable yet.
    Journal = "journal", Nothing, Program, "the journal was being synced";
    /// The journal was full.
    JournalRoom = "journal_room", Nothing, Program, "the journal was full";
    /// Nothing that was recorded tells.
    Unknown = "unknown", Nothing, Unknown, "nothing that was recorded tells why";
}

impl Cause {
    /// The one of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Cause> {
        Cause::ALL.into_iter().find(|cause| cause.name() == name)
    }
}

/// Causes that a chart shows in one colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// What the path takes for the I/O's own bytes.
    Path,
    /// Queues in front of links and other shared resources.
    Queue,
    /// What iSCSI waits for above TCP.
    Iscsi,
    /// TCP's windows and buffers.
    TcpWindow,
    /// Acknowledgements that come late.
    Acknowledgement,
    /// Losses and their repair.
    Loss,
    /// The programs at both ends, caches in front of them among these.
    Program,
    /// The store.
    Store,
    /// Nobody knows.
    Unknown,
}

impl Family {
    /// All of them.
    pub const ALL: [Family; 9] = [
        Family::Path,
        Family::Queue,
        Family::Iscsi,
        Family::TcpWindow,
        Family::Acknowledgement,
        Family::Loss,
        Family::Program,
        Family::Store,
        Family::Unknown,
    ];

    /// Its name on the page.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Family::Path => "path",
            Family::Queue => "queue",
            Family::Iscsi => "iscsi",
            Family::TcpWindow => "tcp_window",
            Family::Acknowledgement => "acknowledgement",
            Family::Loss => "loss",
            Family::Program => "program",
            Family::Store => "store",
            Family::Unknown => "unknown",
        }
    }
}

/// What holds a load back: what to relieve. Each [`Cause`] belongs to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The backing store.
    Store,
    /// The share-out of commands among the connections of a session: in turn, over unequal routes.
    RouteLockstep,
    /// The rate of the path.
    PathRate,
    /// The VPN of a router: a thread of it encrypts, or decrypts, without a pause.
    Encryption,
    /// The receive window of the end that takes the data.
    ReceiveWindow,
    /// The send buffer of the end that sends the data.
    SendBuffer,
    /// Congestion control of the end that sends the data.
    CongestionWindow,
    /// Asking for the data of writes: R2T round trips (RFC 7143 §11.8).
    R2tRoundTrips,
    /// The session's command window, MaxCmdSN (RFC 7143 §4.2.2.1).
    CommandWindow,
    /// Stalls of TCP, each I/O by itself: Nagle's algorithm against delayed acknowledgements, slow
    /// start, losses.
    Stalls,
    /// The processors of a host, as `thread` records of its program show.
    Processor,
    /// Too few I/Os asked for: the application waits for answers before it asks for more.
    TooFewIos,
    /// Nothing: the application itself leaves gaps, or no recorded limit explains the waiting.
    Nothing,
}

impl Limit {
    /// All of them, the deepest resource first.
    pub const ALL: [Limit; 13] = [
        Limit::Store,
        Limit::RouteLockstep,
        Limit::PathRate,
        Limit::Encryption,
        Limit::ReceiveWindow,
        Limit::SendBuffer,
        Limit::CongestionWindow,
        Limit::R2tRoundTrips,
        Limit::CommandWindow,
        Limit::Stalls,
        Limit::Processor,
        Limit::TooFewIos,
        Limit::Nothing,
    ];

    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Limit> {
        Limit::ALL.into_iter().find(|limit| limit.name() == name)
    }

    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Limit::Store => "store",
            Limit::RouteLockstep => "route_lockstep",
            Limit::PathRate => "path_rate",
            Limit::Encryption => "encryption",
            Limit::ReceiveWindow => "receive_window",
            Limit::SendBuffer => "send_buffer",
            Limit::CongestionWindow => "congestion_window",
            Limit::R2tRoundTrips => "r2t_round_trips",
            Limit::CommandWindow => "command_window",
            Limit::Stalls => "stalls",
            Limit::Processor => "processor",
            Limit::TooFewIos => "too_few_ios",
            Limit::Nothing => "nothing",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
