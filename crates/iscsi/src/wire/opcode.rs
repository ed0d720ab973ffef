//! Opcodes (RFC 7143 §11.2.1.2).

open_code! {
    /// The opcode of a PDU: the low six bits of byte 0.
    Opcode: u8 {
        /// NOP-Out: a ping, or the answer to one (initiator).
        NopOut = 0x00,
        /// SCSI Command: a CDB (initiator).
        ScsiCommand = 0x01,
        /// SCSI Task Management Function Request (initiator).
        TaskManagementRequest = 0x02,
        /// Login Request (initiator).
        LoginRequest = 0x03,
        /// Text Request (initiator).
        TextRequest = 0x04,
        /// SCSI Data-Out: data of a write (initiator).
        DataOut = 0x05,
        /// Logout Request (initiator).
        LogoutRequest = 0x06,
        /// SNACK Request: retransmission or acknowledgement (initiator).
        Snack = 0x10,
        /// NOP-In: a ping, or the answer to one (target).
        NopIn = 0x20,
        /// SCSI Response: status of a command (target).
        ScsiResponse = 0x21,
        /// SCSI Task Management Function Response (target).
        TaskManagementResponse = 0x22,
        /// Login Response (target).
        LoginResponse = 0x23,
        /// Text Response (target).
        TextResponse = 0x24,
        /// SCSI Data-In: data of a read, perhaps with status (target).
        DataIn = 0x25,
        /// Logout Response (target).
        LogoutResponse = 0x26,
        /// Ready To Transfer: solicits data of a write (target).
        R2t = 0x31,
        /// Asynchronous Message (target).
        AsyncMessage = 0x32,
        /// Reject: the answer to an unacceptable PDU (target).
        Reject = 0x3f,
    }
}
