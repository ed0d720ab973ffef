//! What each moment of an I/O's latency is spent on, and the limit to relieve to shorten it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Defines [`Cause`]: each cause with its name in files, its limit, its family, and its
/// description.
macro_rules! causes {
    ($($(#[$doc:meta])* $cause:ident = $name:literal, $limit:ident, $family:ident, $words:literal;)*) => {
        /// What a moment of an I/O's latency is spent on. Each moment has one cause.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Cause {
            $($(#[$doc])* $cause),*
        }

        impl Cause {
            /// All causes.
            pub const ALL: [Cause; [$($name),*].len()] = [$(Cause::$cause),*];

            /// The name in results.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Cause::$cause => $name),* }
            }

            /// The limit to relieve.
            #[must_use]
            pub const fn limit(self) -> Limit {
                match self { $(Cause::$cause => Limit::$limit),* }
            }

            /// The group of similar causes.
            #[must_use]
            pub const fn family(self) -> Family {
                match self { $(Cause::$cause => Family::$family),* }
            }

            /// A clause about an I/O, as an engineer would put it.
            #[must_use]
            pub const fn in_words(self) -> &'static str {
                match self { $(Cause::$cause => $words),* }
            }
        }
    };
}

causes! {
    /// The minimum latency of the path, whatever is sent.
    Propagation = "propagation", TooFewIos, Path, "it crossed the path";
    /// The link sent the I/O's own bytes at its rate.
    Transmission = "transmission", PathRate, Path, "the link transmitted its bytes";
    /// A full link sent other bytes ahead of it, wherever it waited meanwhile.
    PathQueue = "path_queue", PathRate, Queue, "it was queued for a full link";
    /// A router's VPN encrypted earlier packets.
    Encryption = "encryption", Encryption, Queue, "it was queued for a router's encryption";
    /// It waited for a slot in the command window (RFC 7143 §4.2.2.1).
    CommandWindow = "command_window", CommandWindow, Iscsi, "the command window was closed";
    /// The target had requested data, and none had arrived yet (RFC 7143 §11.8).
    R2tWait = "r2t_wait", R2tRoundTrips, Iscsi, "the initiator waited for an R2T";
    /// A command waited for one with a lower CmdSN on another connection (RFC 7143 §4.2.2.1).
    RouteLockstep = "route_lockstep", RouteLockstep, Iscsi, "it waited for a command with a lower CmdSN on another connection";
    /// The congestion window, or pacing, blocked sending (RFC 5681).
    CongestionWindow = "congestion_window", CongestionWindow, TcpWindow, "it waited for the congestion window";
    /// The data exceeded the congestion window and needed more round trips (RFC 5681 §3.1).
    ExtraRoundTrips = "extra_round_trips", Stalls, TcpWindow, "its data exceeded the congestion window and needed more round trips";
    /// The same after an idle period that reduced the window (RFC 5681 §4.1).
    SlowStartAfterIdle = "slow_start_after_idle", Stalls, TcpWindow, "an idle period had reduced the congestion window";
    /// The receiver's window was closed or smaller than the data to send (RFC 9293 §3.8.6).
    ReceiveWindow = "receive_window", ReceiveWindow, TcpWindow, "the receiver's window was closed or too small";
    /// The send buffer was full until the receiver acknowledged data.
    SendBuffer = "send_buffer", SendBuffer, TcpWindow, "the send buffer was full";
    /// Nagle's algorithm held a short segment until earlier data was acknowledged, without delay (RFC 896,
    /// RFC 1122 §4.2.3.4): one more round trip.
    Nagle = "nagle", Stalls, Acknowledgement, "Nagle's algorithm held a short segment for a round trip";
    /// The sender's window was exhausted until a delayed acknowledgement arrived (RFC 1122
    /// §4.2.3.2).
    DelayedAck = "delayed_ack", Stalls, Acknowledgement, "the sender waited for a delayed acknowledgement";
    /// Both: the short segment waited for an acknowledgement that the receiver delayed.
    NagleAgainstDelayedAck = "nagle_against_delayed_ack", Stalls, Acknowledgement, "Nagle's algorithm held a short segment while the receiver delayed the acknowledgement that would have released it";
    /// A lost segment was retransmitted after later segments were acknowledged (RFC 5681 §3.2).
    FastRetransmit = "fast_retransmit", Stalls, Loss, "a lost segment was repaired by fast retransmit";
    /// A lost segment was retransmitted only when the timer expired, although later data had been sent, or
    /// because it was lost twice (RFC 6298).
    RetransmissionTimeout = "retransmission_timeout", Stalls, Loss, "a lost segment waited for the retransmission timer";
    /// No data was sent after a lost segment, so only a timer could detect the loss (RFC 8985 §7).
    TailLoss = "tail_loss", Stalls, Loss, "the last segment was lost, which only a timer could detect";
    /// It waited in the queue of the sending host's network device.
    DeviceQueue = "device_queue", Nothing, Queue, "it was in the queue of the sender's network device";
    /// The receiving program had not read it, or earlier data, yet.
    ReceiveBuffer = "receive_buffer", Nothing, Program, "the receiving program had not read it yet";
    /// The program that processed it was CPU-bound, as `thread` records show.
    Processor = "processor", Processor, Program, "a program was CPU-bound";
    /// The initiator's program was processing it.
    Initiator = "initiator", Nothing, Program, "it was in the initiator's program";
    /// The target's program was processing it.
    Target = "target", Nothing, Program, "it was in the target's program";
    /// The store was serving it.
    StoreService = "store_service", TooFewIos, Store, "the store served it";
    /// It waited for the store, or the store was serving others.
    StoreQueue = "store_queue", Store, Store, "it was queued for the store";
    /// The early-acknowledged writes of an attached disk had reached their limit.
    WriteBehindLimit = "write_behind_limit", Nothing, Program, "early-acknowledged writes had reached their limit";
    /// A write waited for others to merge with, or for its turn at the disk.
    Merge = "merge", Nothing, Program, "it waited for other writes to merge with, or for its turn";
    /// Earlier writes had to reach the disk first.
    Backlog = "backlog", Nothing, Program, "earlier writes had to reach the disk first";
    /// The journal's file was not durable yet.
    Journal = "journal", Nothing, Program, "the journal was being synced";
    /// The journal was full.
    JournalRoom = "journal_room", Nothing, Program, "the journal was full";
    /// The records do not show the cause.
    Unknown = "unknown", Nothing, Unknown, "the records do not show why";
}

impl Cause {
    /// The cause of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Cause> {
        Cause::ALL.into_iter().find(|cause| cause.name() == name)
    }
}

/// Causes that a chart shows in one colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// The path's time for the I/O's own bytes.
    Path,
    /// Queues in front of links and other shared resources.
    Queue,
    /// Waits of iSCSI above TCP.
    Iscsi,
    /// TCP's windows and buffers.
    TcpWindow,
    /// Late acknowledgements.
    Acknowledgement,
    /// Losses and their repair.
    Loss,
    /// The programs at both ends, including caches.
    Program,
    /// The store.
    Store,
    /// Unknown.
    Unknown,
}

impl Family {
    /// All families.
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

/// The limit that holds a load back and has to be relieved. Each [`Cause`] belongs to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The backing store.
    Store,
    /// The distribution of commands among the connections of a session: in turn, over unequal routes.
    RouteLockstep,
    /// The rate of the path.
    PathRate,
    /// The VPN of a router: one of its threads encrypts or decrypts all the time.
    Encryption,
    /// The receive window of the end that receives the data.
    ReceiveWindow,
    /// The send buffer of the end that sends the data.
    SendBuffer,
    /// Congestion control of the end that sends the data.
    CongestionWindow,
    /// R2T round trips of writes (RFC 7143 §11.8).
    R2tRoundTrips,
    /// The session's command window, MaxCmdSN (RFC 7143 §4.2.2.1).
    CommandWindow,
    /// TCP stalls of individual I/Os: Nagle's algorithm against delayed acknowledgements, slow
    /// start, losses.
    Stalls,
    /// The CPUs of a host, as `thread` records of its programs show.
    Processor,
    /// Too few I/Os: the application waits for completions before it issues more.
    TooFewIos,
    /// Nothing: the application itself leaves gaps, or no recorded limit explains the waiting.
    Nothing,
}

impl Limit {
    /// All limits, the deepest resource first.
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

    /// The limit of that name.
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
