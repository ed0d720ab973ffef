//! Any PDU's header, by its opcode.

use super::{
    AsyncMessage, Bhs, DataIn, DataOut, LoginRequest, LoginResponse, LogoutRequest, LogoutResponse,
    NopIn, NopOut, Opcode, ParseError, R2t, Reject, ScsiCommand, ScsiResponse, Snack,
    TaskManagementRequest, TaskManagementResponse, TextRequest, TextResponse, bhs,
};

/// Lists every PDU once, so that the enum, `parse` and `emit` cannot disagree.
macro_rules! header {
    ($($pdu:ident,)+) => {
        /// What a header means, whichever PDU it is of.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Header {
            $(#[doc = concat!("See [`", stringify!($pdu), "`].")] $pdu($pdu),)+
        }

        impl Header {
            /// Reads a header of any kind.
            ///
            /// # Errors
            /// [`ParseError::UnknownOpcode`], or what the PDU's own `parse` finds wrong.
            pub fn parse(bhs: &Bhs) -> Result<Self, ParseError> {
                match bhs::opcode(bhs) {
                    $(Opcode::$pdu => $pdu::parse(bhs).map(Header::$pdu),)+
                    Opcode::Other(opcode) => Err(ParseError::UnknownOpcode(opcode)),
                }
            }

            /// Writes the whole header, lengths zero.
            pub fn emit(&self, bhs: &mut Bhs) {
                match self {
                    $(Header::$pdu(pdu) => pdu.emit(bhs),)+
                }
            }
        }

        $(impl From<$pdu> for Header {
            fn from(pdu: $pdu) -> Self {
                Header::$pdu(pdu)
            }
        })+
    };
}

header! {
    NopOut,
    ScsiCommand,
    TaskManagementRequest,
    LoginRequest,
    TextRequest,
    DataOut,
    LogoutRequest,
    Snack,
    NopIn,
    ScsiResponse,
    TaskManagementResponse,
    LoginResponse,
    TextResponse,
    DataIn,
    LogoutResponse,
    R2t,
    AsyncMessage,
    Reject,
}
