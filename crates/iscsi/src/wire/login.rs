//! Login Request and Login Response (RFC 7143 §11.12, §11.13).

use std::fmt;

use super::bhs::{self, at, flag};
use super::{Bhs, Opcode, ParseError};
use crate::sequence::Sn;
use wansan_trace::TaskTag;

const TRANSIT: u8 = 0x80;
const CONTINUE: u8 = 0x40;

closed_code! {
    /// A stage of login, as in CSG and NSG (RFC 7143 §11.12.3).
    Stage: u8 {
        /// SecurityNegotiation.
        SecurityNegotiation = 0,
        /// LoginOperationalNegotiation.
        OperationalNegotiation = 1,
        /// FullFeaturePhase: login is complete.
        FullFeaturePhase = 3,
    }
}

open_code! {
    /// Status-Class (high byte) and Status-Detail (low byte) of a Login Response
    /// (RFC 7143 §11.13.5).
    LoginStatus: u16 {
        /// Success: login continues.
        Success = 0x0000,
        /// The target has moved temporarily; TargetAddress gives the new address.
        TargetMovedTemporarily = 0x0101,
        /// The target has moved permanently; TargetAddress gives the new address.
        TargetMovedPermanently = 0x0102,
        /// An initiator error without a more specific code.
        InitiatorError = 0x0200,
        /// The initiator could not be authenticated.
        AuthenticationFailure = 0x0201,
        /// The initiator is not allowed access to the target.
        AuthorizationFailure = 0x0202,
        /// The target name does not exist here.
        NotFound = 0x0203,
        /// The target was removed, and there is no new address.
        TargetRemoved = 0x0204,
        /// No version of the protocol in common.
        UnsupportedVersion = 0x0205,
        /// Too many connections on this session.
        TooManyConnections = 0x0206,
        /// A required key is missing.
        MissingParameter = 0x0207,
        /// The target cannot include this connection in the session.
        CannotIncludeInSession = 0x0208,
        /// The target does not support this type of session.
        SessionTypeNotSupported = 0x0209,
        /// The session to join does not exist.
        SessionDoesNotExist = 0x020a,
        /// A request that is not valid during login.
        InvalidDuringLogin = 0x020b,
        /// A hardware or software error of the target.
        TargetError = 0x0300,
        /// The service or target is not working now.
        ServiceUnavailable = 0x0301,
        /// The target is out of resources.
        OutOfResources = 0x0302,
    }
}

impl LoginStatus {
    /// Status-Class: 0 success, 1 redirection, 2 initiator error, 3 target error.
    #[must_use]
    pub const fn class(self) -> u8 {
        self.to_wire().to_be_bytes()[0]
    }

    /// Status-Detail.
    #[must_use]
    pub const fn detail(self) -> u8 {
        self.to_wire().to_be_bytes()[1]
    }
}

/// The status in words that follow "the target refused the login:".
impl fmt::Display for LoginStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LoginStatus::Success => "no error",
            LoginStatus::TargetMovedTemporarily => "the target has moved temporarily",
            LoginStatus::TargetMovedPermanently => "the target has moved permanently",
            LoginStatus::InitiatorError => "initiator error",
            LoginStatus::AuthenticationFailure => "the initiator could not be authenticated",
            LoginStatus::AuthorizationFailure => "the initiator is not allowed to use the target",
            LoginStatus::NotFound => "there is no such target",
            LoginStatus::TargetRemoved => "the target has been removed",
            LoginStatus::UnsupportedVersion => "no iSCSI version in common",
            LoginStatus::TooManyConnections => "the session has too many connections",
            LoginStatus::MissingParameter => "a key is missing",
            LoginStatus::CannotIncludeInSession => "the connection cannot join the session",
            LoginStatus::SessionTypeNotSupported => "this type of session is not supported",
            LoginStatus::SessionDoesNotExist => "the session to join does not exist",
            LoginStatus::InvalidDuringLogin => "a request is not valid during login",
            LoginStatus::TargetError => "target hardware or software error",
            LoginStatus::ServiceUnavailable => "the target is not available now",
            LoginStatus::OutOfResources => "the target is out of resources",
            LoginStatus::Other(_) => "undefined status",
        })
    }
}

/// CSG, and NSG when T is set, out of byte 1.
fn stages(pdu: Opcode, flags: u8) -> Result<(Stage, Option<Stage>), ParseError> {
    let stage = |field, value: u8| {
        Stage::from_wire(value).ok_or(ParseError::InvalidField {
            pdu,
            field,
            value: value.into(),
            section: "11.12.3",
        })
    };
    let csg = stage("CSG", flags >> 2 & 3)?;
    let nsg = if flags & TRANSIT != 0 {
        Some(stage("NSG", flags & 3)?)
    } else {
        None
    };
    Ok((csg, nsg))
}

/// Byte 1 with CSG, NSG, T and C.
fn stage_flags(csg: Stage, nsg: Option<Stage>, continue_: bool) -> u8 {
    let next = nsg.map_or(0, |nsg| TRANSIT | nsg.to_wire());
    csg.to_wire() << 2 | next | flag(continue_, CONTINUE)
}

/// Login Request; it is always for immediate delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LoginRequest {
    /// C: the text continues in the next request.
    pub continue_: bool,
    /// CSG: the current stage.
    pub csg: Stage,
    /// NSG: the next stage, when T is set.
    pub nsg: Option<Stage>,
    /// Version-max; RFC 7143 is version 0.
    pub version_max: u8,
    /// Version-min.
    pub version_min: u8,
    /// ISID: the initiator's part of the session identifier.
    pub isid: [u8; 6],
    /// TSIH: 0 for a new session.
    pub tsih: u16,
    /// Initiator Task Tag.
    pub task_tag: TaskTag,
    /// CID: the connection's identifier in its session.
    pub cid: u16,
    /// CmdSN.
    pub cmd_sn: Sn,
    /// ExpStatSN.
    pub exp_stat_sn: Sn,
}

impl LoginRequest {
    /// Parses a header.
    ///
    /// # Errors
    /// [`ParseError::WrongOpcode`]; [`ParseError::InvalidField`] for a reserved CSG or NSG.
    pub fn parse(bhs: &Bhs) -> Result<Self, ParseError> {
        bhs::expect(bhs, Opcode::LoginRequest)?;
        let (csg, nsg) = stages(Opcode::LoginRequest, bhs[1])?;
        Ok(LoginRequest {
            continue_: bhs[1] & CONTINUE != 0,
            csg,
            nsg,
            version_max: bhs[2],
            version_min: bhs[3],
            isid: bhs::array(bhs, 8),
            tsih: bhs::u16_at(bhs, 14),
            task_tag: bhs::task_tag(bhs),
            cid: bhs::u16_at(bhs, 20),
            cmd_sn: bhs::sn_at(bhs, at::CMD_SN),
            exp_stat_sn: bhs::sn_at(bhs, at::EXP_STAT_SN),
        })
    }

    /// Encodes the whole header, with lengths of zero.
    pub fn emit(&self, bhs: &mut Bhs) {
        let flags = stage_flags(self.csg, self.nsg, self.continue_);
        bhs::begin(bhs, Opcode::LoginRequest, true, flags);
        bhs[2] = self.version_max;
        bhs[3] = self.version_min;
        bhs::put(bhs, 8, &self.isid);
        bhs::put_u16(bhs, 14, self.tsih);
        bhs::put_u32(bhs, at::TASK_TAG, self.task_tag.0);
        bhs::put_u16(bhs, 20, self.cid);
        bhs::put_u32(bhs, at::CMD_SN, self.cmd_sn.0);
        bhs::put_u32(bhs, at::EXP_STAT_SN, self.exp_stat_sn.0);
    }
}

/// Login Response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LoginResponse {
    /// C: the text continues in the next response.
    pub continue_: bool,
    /// CSG: the current stage.
    pub csg: Stage,
    /// NSG: the next stage, when T is set.
    pub nsg: Option<Stage>,
    /// Version-max: the highest that the target supports.
    pub version_max: u8,
    /// Version-active: the one in force.
    pub version_active: u8,
    /// ISID.
    pub isid: [u8; 6],
    /// TSIH: the target's part of the session identifier, not 0 once login is complete.
    pub tsih: u16,
    /// Initiator Task Tag.
    pub task_tag: TaskTag,
    /// StatSN.
    pub stat_sn: Sn,
    /// ExpCmdSN.
    pub exp_cmd_sn: Sn,
    /// MaxCmdSN.
    pub max_cmd_sn: Sn,
    /// Status-Class and Status-Detail.
    pub status: LoginStatus,
}

impl LoginResponse {
    /// Parses a header. With a status other than success the flags are undefined, so reserved
    /// stages then read as SecurityNegotiation and no NSG.
    ///
    /// # Errors
    /// [`ParseError::WrongOpcode`]; [`ParseError::InvalidField`] for a reserved CSG or NSG.
    pub fn parse(bhs: &Bhs) -> Result<Self, ParseError> {
        bhs::expect(bhs, Opcode::LoginResponse)?;
        let status = LoginStatus::from_wire(bhs::u16_at(bhs, 36));
        let (csg, nsg) = match stages(Opcode::LoginResponse, bhs[1]) {
            Err(_) if status.class() != 0 => (Stage::SecurityNegotiation, None),
            stages => stages?,
        };
        Ok(LoginResponse {
            continue_: bhs[1] & CONTINUE != 0,
            csg,
            nsg,
            version_max: bhs[2],
            version_active: bhs[3],
            isid: bhs::array(bhs, 8),
            tsih: bhs::u16_at(bhs, 14),
            task_tag: bhs::task_tag(bhs),
            stat_sn: bhs::sn_at(bhs, at::STAT_SN),
            exp_cmd_sn: bhs::sn_at(bhs, at::EXP_CMD_SN),
            max_cmd_sn: bhs::sn_at(bhs, at::MAX_CMD_SN),
            status,
        })
    }

    /// Encodes the whole header, with lengths of zero.
    pub fn emit(&self, bhs: &mut Bhs) {
        let flags = stage_flags(self.csg, self.nsg, self.continue_);
        bhs::begin(bhs, Opcode::LoginResponse, false, flags);
        bhs[2] = self.version_max;
        bhs[3] = self.version_active;
        bhs::put(bhs, 8, &self.isid);
        bhs::put_u16(bhs, 14, self.tsih);
        bhs::put_u32(bhs, at::TASK_TAG, self.task_tag.0);
        bhs::put_target_numbers(bhs, self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn);
        bhs::put_u16(bhs, 36, self.status.to_wire());
    }
}
