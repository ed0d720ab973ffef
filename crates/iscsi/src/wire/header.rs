//! The header of any PDU.

use super::{
    AsyncMessage, Bhs, DataIn, DataOut, LoginRequest, LoginResponse, LogoutRequest, LogoutResponse,
    NopIn, NopOut, Opcode, ParseError, R2t, Reject, ScsiCommand, ScsiResponse, Snack,
    TaskManagementRequest, TaskManagementResponse, TextRequest, TextResponse, bhs,
};

/// Lists every PDU once, so that the enum, `parse` and `emit` cannot disagree.
macro_rules! header {
    ($($pdu:ident,)+) => {
        /// A parsed header of any PDU.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Header {
            $(#[doc = concat!("See [`", stringify!($pdu), "`].")] $pdu($pdu),)+
        }

        impl Header {
            /// Parses a header of any PDU.
            ///
            /// # Errors
            /// [`ParseError::UnknownOpcode`], or the error of the PDU's own `parse`.
            pub fn parse(bhs: &Bhs) -> Result<Self, ParseError> {
                match bhs::opcode(bhs) {
                    $(Opcode::$pdu => $pdu::parse(bhs).map(Header::$pdu),)+
                    Opcode::Other(opcode) => Err(ParseError::UnknownOpcode(opcode)),
                }
            }

            /// Encodes the whole header, with lengths of zero.
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
