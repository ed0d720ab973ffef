//! What a login asks of the target: is there such a target, and may the session begin.

use std::sync::Arc;

use wansan_iscsi::keys::{ConnectionParameters, SessionParameters, SessionType};
use wansan_iscsi::login::chap::TargetChap;
use wansan_iscsi::login::{Admitted, AnnouncedWindow, Candidate, Found, Refusal, Sessions};
use wansan_iscsi::target::Session;
use wansan_iscsi::wire::LoginStatus;
use wansan_trace::SessionId;

use super::registry::{Nexus, Replaced};
use super::seat::Seat;
use super::sessions::Sessions as Served;
use super::{PORTAL_GROUP_TAG, Shared};
use crate::secret_file::challenge;

/// One login's view of the target.
pub(super) struct Desk<'a> {
    pub(super) shared: &'a Shared,
    /// The sessions of the thread that the login runs on.
    pub(super) sessions: &'a Served,
    /// Where the initiator connects from, and its place.
    pub(super) seat: &'a mut Seat,
    /// The number of the thread that will own the session.
    pub(super) owner: usize,
    /// The session that the new one has pushed out.
    pub(super) replaced: Option<Replaced>,
}

impl Sessions for Desk<'_> {
    fn find(&mut self, candidate: &Candidate<'_>) -> Result<Found, Refusal> {
        let shared = self.shared;
        if candidate
            .target_name
            .is_some_and(|name| name != shared.name)
        {
            return Err(Refusal::Status(LoginStatus::NotFound));
        }
        // A discovery session is open to all; it shows them what they may use.
        if candidate.session_type == SessionType::Normal
            && !shared
                .access
                .allows(candidate.initiator_name, self.seat.initiator.ip())
        {
            return Err(Refusal::Status(LoginStatus::AuthorizationFailure));
        }
        let chap = match &shared.chap {
            Some(accounts) => {
                let challenge = challenge().map_err(|error| {
                    (shared.report)(&format!("no random bytes for CHAP: {error}"));
                    Refusal::Status(LoginStatus::OutOfResources)
                })?;
                Some(TargetChap::new(Arc::clone(accounts), challenge))
            }
            None => None,
        };
        Ok(Found {
            portal_group_tag: PORTAL_GROUP_TAG,
            target_alias: None,
            session: self
                .joined(candidate)
                .map(|session| (*session.parameters(), session.window())),
            chap,
        })
    }

    fn admit(
        &mut self,
        candidate: &Candidate<'_>,
        session: &SessionParameters,
        _: &ConnectionParameters,
    ) -> Result<Admitted, Refusal> {
        if !self.seat.take() {
            return Err(Refusal::Status(LoginStatus::OutOfResources));
        }
        if candidate.tsih != 0 {
            return self.let_in(candidate);
        }
        let nexus = self.nexus(candidate);
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

impl Desk<'_> {
    fn nexus(&self, candidate: &Candidate<'_>) -> Nexus {
        let discovery = candidate.session_type == SessionType::Discovery;
        let target = if discovery { "" } else { &self.shared.name };
        Nexus {
            initiator: candidate.initiator_name.to_owned(),
            isid: candidate.isid,
            target: target.to_owned(),
        }
    }

    /// The session that the candidate means: it must be one of the same initiator and target.
    fn joined(&self, candidate: &Candidate<'_>) -> Option<&Session> {
        let id = SessionId::new(candidate.isid, candidate.tsih);
        let nexus = self.nexus(candidate);
        let known = self.shared.registry.is(&nexus, id);
        let (_, served) = self.sessions.find(id).filter(|_| known)?;
        Some(&served.session)
    }

    /// Lets a connection into a session that is there (RFC 7143 §6.3.1). One with the CID of
    /// another pushes that one out (§6.3.4), so it finds room even where the session is full.
    fn let_in(&self, candidate: &Candidate<'_>) -> Result<Admitted, Refusal> {
        let gone = Refusal::Status(LoginStatus::SessionDoesNotExist);
        let session = self.joined(candidate).ok_or(gone)?;
        let max_connections = usize::from(session.parameters().max_connections);
        let takes_over = session.place_of(candidate.cid).is_some();
        if !takes_over && session.connections() >= max_connections {
            return Err(Refusal::Status(LoginStatus::TooManyConnections));
        }
        Ok(Admitted {
            tsih: candidate.tsih,
            window: session.window(),
        })
    }
}
