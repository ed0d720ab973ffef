//! A path that can go down.

/// Passes everything while it is up and drops every arrival while it is down.
///
/// Going down is like pulling the cable out of the sender's port: the link's queue and the packet being sent are lost,
/// as a system drops the queue of an interface without carrier; packets on the line arrive. After coming up, the link
/// starts anew with the next packet.
#[derive(Debug, Clone, Default)]
pub struct Outage {
    down: bool,
}

impl Outage {
    /// A path that is up.
    #[must_use]
    pub fn new() -> Self {
        Outage::default()
    }

    /// Whether it is down.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.down
    }

    pub(crate) fn set_down(&mut self, down: bool) {
        self.down = down;
    }
}
