//! Linux's states of congestion control.

use serde::Serializer;

use crate::field::{Cell, Field, Json};

/// A congestion state of Linux (`tcp_ca_state`), by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CongestionState(pub u8);

impl CongestionState {
    /// No recent loss, reordering or congestion signal.
    pub const OPEN: CongestionState = CongestionState(0);
    /// Duplicate ACKs or SACKs have arrived.
    pub const DISORDER: CongestionState = CongestionState(1);
    /// The window is being reduced without a loss (ECN or local congestion).
    pub const CWR: CongestionState = CongestionState(2);
    /// Fast recovery.
    pub const RECOVERY: CongestionState = CongestionState(3);
    /// After a retransmission timeout.
    pub const LOSS: CongestionState = CongestionState(4);

    const NAMES: &[&str] = &["open", "disorder", "cwr", "recovery", "loss", "unknown"];

    /// Its name on screens and in JSON; `unknown` for a state that is not listed here.
    #[must_use]
    pub fn name(self) -> &'static str {
        let known = Self::NAMES.get(usize::from(self.0));
        known.copied().unwrap_or("unknown")
    }
}

/// Stored in files as the kernel's number.
impl Field for CongestionState {
    const BLANK: Self = CongestionState::OPEN;
    const PARTS: [u32; 3] = u8::PARTS;
    #[inline]
    fn parts(self) -> [u64; 3] {
        self.0.parts()
    }
    fn of_parts(parts: [u64; 3]) -> Self {
        CongestionState(u8::of_parts(parts))
    }
    const CELL: Cell = u8::CELL;
    const JSON: Option<Json> = Some(Json::Names(Self::NAMES));
    fn serialize<S: Serializer>(self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
