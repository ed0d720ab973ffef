//! A path that can go down.

/// Lets everything pass while it is up and drops whatever comes while it is down.
///
/// Going down is a cable pulled out of the sender's port: the link's queue and the packet that it
/// is sending are lost, as a system drops the queue of an interface without a carrier; what is on
/// the line already arrives. Coming up, the link begins anew with the next packet.
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
