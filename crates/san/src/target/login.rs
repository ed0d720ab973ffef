//! What a login asks of the target: is there such a target, and may the session begin.

use wansan_iscsi::keys::{ConnectionParameters, SessionParameters, SessionType};
use wansan_iscsi::login::{Admitted, AnnouncedWindow, Candidate, Found, Refusal, Sessions};
use wansan_iscsi::wire::LoginStatus;

use super::registry::{Nexus, Replaced};
use super::{PORTAL_GROUP_TAG, Shared};

/// One login's view of the target.
pub(super) struct Desk<'a> {
    pub(super) shared: &'a Shared,
    /// The number of the thread that will own the session.
    pub(super) owner: usize,
    /// The session that the new one has pushed out.
    pub(super) replaced: Option<Replaced>,
}

impl Sessions for Desk<'_> {
    fn find(&mut self, candidate: &Candidate<'_>) -> Result<Found, Refusal> {
        if candidate
            .target_name
            .is_some_and(|name| name != self.shared.name)
        {
            return Err(Refusal::Status(LoginStatus::NotFound));
        }
        Ok(Found {
            portal_group_tag: PORTAL_GROUP_TAG,
            target_alias: None,
            session: None,
        })
    }

    fn admit(
        &mut self,
        candidate: &Candidate<'_>,
        session: &SessionParameters,
        _: &ConnectionParameters,
    ) -> Result<Admitted, Refusal> {
        let discovery = candidate.session_type == SessionType::Discovery;
        let target = if discovery { "" } else { &self.shared.name };
        let nexus = Nexus {
            initiator: candidate.initiator_name.to_owned(),
            isid: candidate.isid,
            target: target.to_owned(),
        };
        let (id, replaced) = self
            .shared
            .registry
            .enter(nexus, self.owner)
            .ok_or(Refusal::Status(LoginStatus::OutOfResources))?;
        self.replaced = replaced;
        let exp_cmd_sn = candidate.cmd_sn;
        let max_cmd_sn = exp_cmd_sn.add(self.shared.session.window(session) - 1);
        Ok(Admitted {
            tsih: (id.0 & 0xffff) as u16,
            window: AnnouncedWindow {
                exp_cmd_sn,
                max_cmd_sn,
            },
        })
    }
}
