//! The target's side of a login: whether the target exists, and the session may begin.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use wansan_iscsi::keys::{ConnectionParameters, SessionParameters, SessionType};
use wansan_iscsi::login::chap::TargetChap;
use wansan_iscsi::login::{Admitted, Candidate, Found, Refusal, Sessions};
use wansan_iscsi::target::{Known, Nexus, Session};
use wansan_iscsi::wire::LoginStatus;
use wansan_trace::SessionId;

use super::directory::{Directory, ServedTarget};
use super::seat::Seat;
use super::sessions::Sessions as Served;
use super::{PORTAL_GROUP_TAG, Shared};
use crate::secret_file::challenge;

/// The target as seen by one login.
pub(super) struct Desk<'a> {
    pub(super) shared: &'a Shared,
    /// The sessions of the login's thread.
    pub(super) sessions: &'a Served,
    /// The initiator's address, and its seat.
    pub(super) seat: &'a mut Seat,
    /// The number of the thread that will own the session.
    pub(super) owner: usize,
    /// The target that the initiator has logged in to.
    pub(super) target: Option<Arc<ServedTarget>>,
    /// The session that the new one has replaced.
    pub(super) replaced: Option<Known<usize>>,
}

impl Sessions for Desk<'_> {
    fn find(&mut self, candidate: &Candidate<'_>) -> Result<Found, Refusal> {
        let shared = self.shared;
        let target = find(&shared.directory(), candidate)?;
        // A discovery session is open to all; it lists only the targets that they may use.
        if candidate.session_type == SessionType::Normal
            && !target
                .spec
                .access
                .allows(candidate.initiator_name, self.seat.initiator.ip())
        {
            return Err(Refusal::Status(LoginStatus::AuthorizationFailure));
        }
        let chap = match &target.spec.chap {
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
            session: self.joined(candidate).map(Session::announced),
            chap,
            wanted: Some(target.spec.wanted.clone()),
        })
    }

    fn admit(
        &mut self,
        candidate: &Candidate<'_>,
        session: &SessionParameters,
        _: &ConnectionParameters,
    ) -> Result<Admitted, Refusal> {
        if self.shared.drains.load(Ordering::Relaxed) {
            return Err(Refusal::Status(LoginStatus::ServiceUnavailable));
        }
        if !self.seat.take() {
            return Err(Refusal::Status(LoginStatus::OutOfResources));
        }
        if candidate.tsih != 0 {
            let gone = Refusal::Status(LoginStatus::SessionDoesNotExist);
            return self.joined(candidate).ok_or(gone)?.let_in(candidate);
        }
        // It may have been removed since the login began. Until the session is registered, the lock keeps it: the units
        // of a target change only while it has no session.
        let directory = self.shared.held_directory();
        let target = find(&directory, candidate)?;
        let nexus = Nexus::of(candidate);
        let (id, replaced) = self
            .shared
            .registry
            .enter(nexus, self.owner)
            .ok_or(Refusal::Status(LoginStatus::OutOfResources))?;
        self.replaced = replaced;
        let admitted = target.session.begin(candidate, session, id);
        self.target = Some(target);
        Ok(admitted)
    }
}

impl Desk<'_> {
    /// The session to join: it must be of the same initiator and target.
    fn joined(&self, candidate: &Candidate<'_>) -> Option<&Session> {
        let id = SessionId::new(candidate.isid, candidate.tsih);
        let known = self.shared.registry.is(&Nexus::of(candidate), id);
        let (_, served) = self.sessions.find(id).filter(|_| known)?;
        Some(&served.session)
    }
}

/// The requested target.
fn find(directory: &Directory, candidate: &Candidate<'_>) -> Result<Arc<ServedTarget>, Refusal> {
    let named = match candidate.target_name {
        Some(name) => {
            let not_found = Refusal::Status(LoginStatus::NotFound);
            Some(directory.target(name).ok_or(not_found)?)
        }
        None => None,
    };
    let meant = named.filter(|_| candidate.session_type == SessionType::Normal);
    Ok(Arc::clone(meant.unwrap_or(&directory.discovery)))
}
