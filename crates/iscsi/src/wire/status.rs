//! SCSI status bytes (SAM-5 clause 5.3, RFC 7143 §11.4.2).

open_code! {
    /// SCSI status.
    ScsiStatus: u8 {
        /// GOOD.
        Good = 0x00,
        /// CHECK CONDITION, with sense data.
        CheckCondition = 0x02,
        /// CONDITION MET.
        ConditionMet = 0x04,
        /// BUSY: retry later.
        Busy = 0x08,
        /// RESERVATION CONFLICT.
        ReservationConflict = 0x18,
        /// TASK SET FULL.
        TaskSetFull = 0x28,
        /// ACA ACTIVE.
        AcaActive = 0x30,
        /// TASK ABORTED.
        TaskAborted = 0x40,
    }
}
