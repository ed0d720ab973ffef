//! PDUs in a TCP stream (RFC 7143 §11).
//!
//! A PDU is a Basic Header Segment of 48 bytes ([`Bhs`]), additional header segments ([`Ahs`]), a header digest, a data
//! segment padded to four bytes, and a data digest; all except the first are optional.
//!
//! - [`Receiver`] and [`Transmitter`] do the framing: lengths, padding and digests;
//! - [`Pdu`] is one PDU in the receiver's buffer;
//! - a struct per PDU holds a parsed header, with `parse` and `emit` as inverses, and [`Header`] is any of them.

#[macro_use]
mod code;

pub mod ahs;
pub mod async_message;
pub mod bhs;
pub mod data_in;
pub mod data_out;
pub mod error;
pub mod header;
pub mod login;
pub mod logout;
pub mod lun;
pub mod nop;
pub mod opcode;
pub mod pdu;
pub mod r2t;
pub mod receiver;
pub mod reject;
pub mod residual;
pub mod scsi_command;
pub mod scsi_response;
pub mod snack;
pub mod status;
pub mod task_management;
pub mod text;
pub mod transmitter;

pub use ahs::Ahs;
pub use async_message::{AsyncEvent, AsyncMessage};
pub use bhs::{BHS_BYTES, Bhs, MAX_DATA_BYTES, RESERVED_TAG, RESERVED_TASK_TAG};
pub use data_in::DataIn;
pub use data_out::DataOut;
pub use error::{FrameError, ParseError};
pub use header::Header;
pub use login::{LoginRequest, LoginResponse, LoginStatus, Stage};
pub use logout::{LogoutReason, LogoutRequest, LogoutResponse, LogoutResult};
pub use lun::Lun;
pub use nop::{NopIn, NopOut};
pub use opcode::Opcode;
pub use pdu::Pdu;
pub use r2t::R2t;
pub use receiver::{DEFAULT_MAX_DATA_BYTES, Receiver};
pub use reject::{Reject, RejectReason};
pub use residual::Residual;
pub use scsi_command::{ScsiCommand, TaskAttribute};
pub use scsi_response::{ResponseCode, ScsiResponse};
pub use snack::{Snack, SnackKind};
pub use status::ScsiStatus;
pub use task_management::{
    TaskManagementFunction, TaskManagementRequest, TaskManagementResponse, TaskManagementResult,
};
pub use text::{TextRequest, TextResponse};
pub use transmitter::Transmitter;
