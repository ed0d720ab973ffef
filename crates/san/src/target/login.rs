//! What a login asks of the target: is there such a target, and may the session begin.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use wansan_iscsi::keys::{ConnectionParameters, SessionParameters, SessionType};
use wansan_iscsi::login::chap::TargetChap;
use wansan_iscsi::login::{Admitted, AnnouncedWindow, Candidate, Found, Refusal, Sessions};
use wansan_iscsi::target::Session;
use wansan_iscsi::wire::LoginStatus;
use wansan_trace::SessionId;

use super::directory::{Directory, ServedTarget};
use super::registry::{Known, Nexus};
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
    /// The target that the initiator has logged in to.
    pub(super) target: Option<Arc<ServedTarget>>,
    /// The session that the new one has pushed out.
    pub(super) replaced: Option<Known>,
}

impl Sessions for Desk<'_> {
    fn find(&mut self, candidate: &Candidate<'_>) -> Result<Found, Refusal> {
        let shared = self.shared;
        let target = find(&shared.directory(), candidate)?;
        // A discovery session is open to all; it shows them what they may use.
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
            session: self
                .joined(candidate)
                .map(|session| (*session.parameters(), session.window())),
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
            return self.let_in(candidate);
        }
        // It may have been taken away since the login began. Until the session is known, it stays:
        // the units of a target change only while it has none.
        let directory = self.shared.held_directory();
        let target = find(&directory, candidate)?;
        let nexus = nexus(candidate);
        let (id, replaced) = self
            .shared
            .registry
            .enter(nexus, self.owner)
            .ok_or(Refusal::Status(LoginStatus::OutOfResources))?;
        self.replaced = replaced;
        let exp_cmd_sn = candidate.cmd_sn;
        let max_cmd_sn = exp_cmd_sn.add(target.session.window(session) - 1);
        self.target = Some(target);
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
    /// The session that the candidate means: it must be one of the same initiator and target.
    fn joined(&self, candidate: &Candidate<'_>) -> Option<&Session> {
        let id = SessionId::new(candidate.isid, candidate.tsih);
        let nexus = nexus(candidate);
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

/// The target that the candidate means.
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

fn nexus(candidate: &Candidate<'_>) -> Nexus {
    let target = match candidate.session_type {
        SessionType::Normal => candidate.target_name,
        SessionType::Discovery => None,
    };
    Nexus {
        initiator: candidate.initiator_name.to_owned(),
        isid: candidate.isid,
        target: target.unwrap_or_default().to_owned(),
    }
}
