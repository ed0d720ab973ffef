//! The TCP-splitting proxy: accepts a client's connection, makes one to the target, and forwards data between them.
//! Each side has its own TCP: congestion control, buffers, segment size, class. RFC 3135 calls it a performance
//! enhancing proxy (§2.4, split connections).
//!
//! [`Relay::start`] takes [`RelaySettings`] and returns a running [`Relay`]; [`Relay::reload`] replaces its listeners,
//! [`Relay::observer`] observes it, [`Relay::drain`] and [`Relay::stop`] end it.
//!
//! ```text
//!  client ══ Side ─ receive queue ─► Direction (piece or pipe) ─► send queue ─ Side ══ target
//!                                    └────────────── Flow ──────────────┘
//! ```
//!
//! Each thread is a worker of [`wansan_server`] with edge-triggered epoll (`reactor`), and owns its flows. Each
//! accepts, and hands a flow to another thread only if that has fewer.

mod backlog;
mod bound;
mod choice;
mod cycle;
mod direction;
mod dscp;
mod ends;
mod error;
mod flow;
mod kernel;
mod mail;
mod mapping;
mod meter;
mod observer;
mod pool;
mod reactor;
mod recent;
mod relay;
mod remedy;
mod route;
mod rules;
mod seat;
mod settings;
mod shared;
mod side;
mod snapshot;
mod socket;
mod standing;
mod status;
mod survey;
mod table;

pub use backlog::{Backlog, BacklogSum};
pub use choice::FlowError;
pub use dscp::{Dscp, DscpError};
pub use error::RelayError;
pub use meter::Meter;
pub use observer::Observer;
pub use relay::Relay;
pub use route::Interception;
pub use rules::{Installed, Rules, RulesError};
pub use settings::{
    EceSettings, FlowSettings, ListenerConfig, ProcessSettings, RelayFile, RelaySettings,
    SideSettings,
};
pub use snapshot::{DirectionSnapshot, EceSnapshot, FlowSnapshot, Snapshot};
pub use standing::Standing;
pub use status::{DirectionStatus, FlowStatus, SideStatus, Status, TotalStatus};
pub use wansan_server::Changes;
pub use wansan_split::{Fallback, Law, LawError, ReceiveBuffer, Shares};
