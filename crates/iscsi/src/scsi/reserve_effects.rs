//! Effects of a change of persistent reservations on other I_T nexuses.

use super::UnitAttention;
use super::fence::Fence;
use super::nexus::{Known, NexusId, State};
use super::port::InitiatorPort;

/// The effects of a PERSISTENT RESERVE OUT on other nexuses, unless it fails after all.
#[derive(Debug)]
pub(super) struct Effects {
    /// The nexus that sent the command.
    own: NexusId,
    /// Unit attentions, and the ports whose nexuses report them.
    attentions: Vec<(UnitAttention, Vec<InitiatorPort>)>,
    /// Ports whose tasks are aborted.
    aborted: Vec<InitiatorPort>,
    /// It removes access, maybe of the nexus itself, too.
    takes_rights: bool,
}

impl Effects {
    /// No effects yet, for a command sent by `own`.
    pub(super) const fn of(own: NexusId, takes_rights: bool) -> Effects {
        Effects {
            own,
            attentions: Vec::new(),
            aborted: Vec::new(),
            takes_rights,
        }
    }

    /// Makes the other nexuses of `ports` report `attention`.
    pub(super) fn establish(&mut self, attention: UnitAttention, ports: Vec<InitiatorPort>) {
        self.attentions.push((attention, ports));
    }

    /// Ends the tasks of the other nexuses of `ports` without a response (TAS is 0).
    pub(super) fn abort(&mut self, ports: Vec<InitiatorPort>) {
        self.aborted = ports;
    }

    /// Whether any tasks are aborted, so that their sessions must be reviewed.
    pub(super) const fn aborts(&self) -> bool {
        !self.aborted.is_empty()
    }

    /// Applies the effects at the unit at `place`. The command is answered when the fence is down.
    pub(super) fn apply(&self, state: &mut State, place: usize) -> Fence {
        let among = |ports: &[InitiatorPort], nexus: &Known| {
            nexus.id != self.own && ports.contains(&nexus.port)
        };
        for (attention, ports) in &self.attentions {
            state.establish(place, *attention, |nexus| among(ports, nexus));
        }
        state.abort(place, |nexus| among(&self.aborted, nexus));
        let fence = self.takes_rights.then(|| state.fence(place, |_| true));
        fence.unwrap_or_default()
    }
}
