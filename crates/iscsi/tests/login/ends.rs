//! A small target with its sessions, and the PDUs of a login.

use std::sync::Arc;

use wansan_iscsi::keys::{ConnectionParameters, SessionParameters, SessionType, Wanted};
use wansan_iscsi::login::chap::{CHALLENGE_BYTES, Challenge, TargetAccounts, TargetChap};
use wansan_iscsi::login::{
    Admitted, AnnouncedWindow, Candidate, Found, InitiatorLogin, InitiatorSettings, Next, Refusal,
    Sessions, Step, TargetLogin,
};
use wansan_iscsi::sequence::Sn;
use wansan_iscsi::text::send_targets::TargetAddress;
use wansan_iscsi::wire::Stage::{FullFeaturePhase as Full, OperationalNegotiation as Operational};
use wansan_iscsi::wire::{LoginRequest, LoginResponse, LoginStatus, Stage};
use wansan_trace::TaskTag;

pub(crate) const INITIATOR: &str = "iqn.2026-01.com.example:host";
pub(crate) const TARGET: &str = "iqn.2026-01.com.example:disk";
pub(crate) const MOVED: &str = "iqn.2026-01.com.example:moved";
pub(crate) const ISID: [u8; 6] = [0x80, 1, 2, 3, 4, 5];

/// The sessions of one small target.
#[derive(Default)]
pub(crate) struct Registry {
    /// Parameters and CIDs of each session; its TSIH is its index plus one.
    pub(crate) sessions: Vec<(SessionParameters, Vec<u16>)>,
    /// The initiators that it admits; `None`: all.
    pub(crate) accounts: Option<Arc<TargetAccounts>>,
}

pub(crate) fn window(exp_cmd_sn: Sn) -> AnnouncedWindow {
    AnnouncedWindow {
        exp_cmd_sn,
        max_cmd_sn: exp_cmd_sn.add(63),
    }
}

impl Registry {
    fn session(&mut self, tsih: u16) -> Option<&mut (SessionParameters, Vec<u16>)> {
        self.sessions.get_mut(usize::from(tsih).checked_sub(1)?)
    }
}

impl Sessions for Registry {
    fn find(&mut self, candidate: &Candidate<'_>) -> Result<Found, Refusal> {
        match (candidate.session_type, candidate.target_name) {
            (_, Some(TARGET)) | (SessionType::Discovery, _) => {}
            (_, Some(MOVED)) => {
                let address = TargetAddress::parse("10.0.0.9:3261,7").expect("an address");
                return Err(Refusal::Moved {
                    permanently: true,
                    address,
                });
            }
            _ => return Err(Refusal::Status(LoginStatus::NotFound)),
        }
        Ok(Found {
            portal_group_tag: 7,
            target_alias: Some("Disk 1".to_owned()),
            session: self
                .session(candidate.tsih)
                .map(|(parameters, _)| (*parameters, window(Sn(500)))),
            chap: self.accounts.clone().map(|accounts| {
                let challenge = Challenge::from_random([1; CHALLENGE_BYTES + 1]);
                TargetChap::new(accounts, challenge)
            }),
            wanted: None,
        })
    }

    fn admit(
        &mut self,
        candidate: &Candidate<'_>,
        session: &SessionParameters,
        _: &ConnectionParameters,
    ) -> Result<Admitted, Refusal> {
        if candidate.tsih == 0 {
            self.sessions.push((*session, vec![candidate.cid]));
            let tsih = self.sessions.len() as u16;
            return Ok(Admitted {
                tsih,
                window: window(candidate.cmd_sn),
            });
        }
        let (parameters, cids) = self
            .session(candidate.tsih)
            .ok_or(Refusal::Status(LoginStatus::TargetError))?;
        if cids.len() >= usize::from(parameters.max_connections) {
            return Err(Refusal::Status(LoginStatus::TooManyConnections));
        }
        cids.push(candidate.cid);
        Ok(Admitted {
            tsih: candidate.tsih,
            window: window(Sn(500)),
        })
    }
}

pub(crate) fn settings(wanted: Wanted) -> InitiatorSettings {
    InitiatorSettings {
        initiator_name: INITIATOR.to_owned(),
        initiator_alias: Some("host 1".to_owned()),
        target_name: Some(TARGET.to_owned()),
        isid: ISID,
        joins: None,
        cid: 3,
        cmd_sn: Sn(u32::MAX),
        task_tag: TaskTag(9),
        begins_in: Operational,
        chap: None,
        wanted,
    }
}

pub(crate) fn request(csg: Stage, nsg: Option<Stage>) -> LoginRequest {
    LoginRequest {
        continue_: false,
        csg,
        nsg,
        version_max: 0,
        version_min: 0,
        isid: ISID,
        tsih: 0,
        task_tag: TaskTag(1),
        cid: 1,
        cmd_sn: Sn(7),
        exp_stat_sn: Sn(100),
    }
}

pub(crate) fn names() -> String {
    format!("InitiatorName={INITIATOR}\0TargetName={TARGET}\0")
}

/// Passes requests to a new target until one ends the login; returns the last step.
pub(crate) fn drive<'a>(requests: impl IntoIterator<Item = (LoginRequest, &'a [u8])>) -> Step {
    let mut target = TargetLogin::new(Wanted::default());
    let mut registry = Registry::default();
    let mut last = None;
    for (request, data) in requests {
        let step = target.handle(&request, data, &mut registry);
        let over = !matches!(step, Step::Continue(_));
        last = Some(step);
        if over {
            break;
        }
    }
    last.expect("at least one request")
}

pub(crate) fn text_of(step: &Step) -> String {
    let (Step::Continue(reply) | Step::Done(reply, _) | Step::Failed(reply, _)) = step;
    String::from_utf8(reply.data.clone())
        .expect("text")
        .replace('\0', ";")
}

pub(crate) fn response(csg: Stage, nsg: Option<Stage>) -> LoginResponse {
    LoginResponse {
        continue_: false,
        csg,
        nsg,
        version_max: 0,
        version_active: 0,
        isid: ISID,
        tsih: if nsg == Some(Full) { 1 } else { 0 },
        task_tag: TaskTag(9),
        stat_sn: Sn(1),
        exp_cmd_sn: Sn(0),
        max_cmd_sn: Sn(0),
        status: LoginStatus::Success,
    }
}

/// A started initiator, and its answer to one response.
pub(crate) fn first_answer(
    wanted: Wanted,
    response: LoginResponse,
    text: &[u8],
) -> (InitiatorLogin, Next) {
    let mut initiator = InitiatorLogin::new(settings(wanted)).expect("sound settings");
    initiator.start();
    let next = initiator.handle(&response, text);
    (initiator, next)
}
