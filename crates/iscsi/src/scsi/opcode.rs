//! Operation codes: the first byte of a CDB. Each command is described under its name in SPC-4 or
//! SBC-3.

/// Defines the codes, each with the standard that describes its command.
macro_rules! opcodes {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        $(
            #[doc = $text]
            pub const $name: u8 = $code;
        )*
    };
}

opcodes! {
    TEST_UNIT_READY = 0x00, "TEST UNIT READY (SPC-4).";
    REQUEST_SENSE = 0x03, "REQUEST SENSE (SPC-4).";
    READ_6 = 0x08, "READ (6) (SBC-2; obsolete in SBC-3, still sent).";
    WRITE_6 = 0x0a, "WRITE (6) (SBC-2; obsolete in SBC-3, still sent).";
    INQUIRY = 0x12, "INQUIRY (SPC-4).";
    MODE_SELECT_6 = 0x15, "MODE SELECT (6) (SPC-4).";
    RESERVE_6 = 0x16, "RESERVE (6) (SPC-2; obsolete in SPC-3, still sent).";
    RELEASE_6 = 0x17, "RELEASE (6) (SPC-2; obsolete in SPC-3, still sent).";
    MODE_SENSE_6 = 0x1a, "MODE SENSE (6) (SPC-4).";
    START_STOP_UNIT = 0x1b, "START STOP UNIT (SBC-3).";
    PREVENT_ALLOW_MEDIUM_REMOVAL = 0x1e, "PREVENT ALLOW MEDIUM REMOVAL (SBC-3).";
    READ_CAPACITY_10 = 0x25, "READ CAPACITY (10) (SBC-3).";
    READ_10 = 0x28, "READ (10) (SBC-3).";
    WRITE_10 = 0x2a, "WRITE (10) (SBC-3).";
    WRITE_AND_VERIFY_10 = 0x2e, "WRITE AND VERIFY (10) (SBC-3).";
    VERIFY_10 = 0x2f, "VERIFY (10) (SBC-3).";
    PRE_FETCH_10 = 0x34, "PRE-FETCH (10) (SBC-3).";
    SYNCHRONIZE_CACHE_10 = 0x35, "SYNCHRONIZE CACHE (10) (SBC-3).";
    READ_DEFECT_DATA_10 = 0x37, "READ DEFECT DATA (10) (SBC-3).";
    WRITE_SAME_10 = 0x41, "WRITE SAME (10) (SBC-3).";
    UNMAP = 0x42, "UNMAP (SBC-3).";
    MODE_SELECT_10 = 0x55, "MODE SELECT (10) (SPC-4).";
    MODE_SENSE_10 = 0x5a, "MODE SENSE (10) (SPC-4).";
    PERSISTENT_RESERVE_IN = 0x5e, "PERSISTENT RESERVE IN (SPC-4).";
    PERSISTENT_RESERVE_OUT = 0x5f, "PERSISTENT RESERVE OUT (SPC-4).";
    THIRD_PARTY_COPY_OUT = 0x83, "THIRD-PARTY COPY OUT (SPC-4): EXTENDED COPY is a service action.";
    THIRD_PARTY_COPY_IN = 0x84, "THIRD-PARTY COPY IN (SPC-4): RECEIVE COPY RESULTS.";
    READ_16 = 0x88, "READ (16) (SBC-3).";
    COMPARE_AND_WRITE = 0x89, "COMPARE AND WRITE (SBC-3).";
    WRITE_16 = 0x8a, "WRITE (16) (SBC-3).";
    ORWRITE_16 = 0x8b, "ORWRITE (16) (SBC-3).";
    WRITE_AND_VERIFY_16 = 0x8e, "WRITE AND VERIFY (16) (SBC-3).";
    VERIFY_16 = 0x8f, "VERIFY (16) (SBC-3).";
    PRE_FETCH_16 = 0x90, "PRE-FETCH (16) (SBC-3).";
    SYNCHRONIZE_CACHE_16 = 0x91, "SYNCHRONIZE CACHE (16) (SBC-3).";
    WRITE_SAME_16 = 0x93, "WRITE SAME (16) (SBC-3).";
    SERVICE_ACTION_IN_16 = 0x9e, "SERVICE ACTION IN (16) (SPC-4): the service action in byte 1 says which command it is.";
    REPORT_LUNS = 0xa0, "REPORT LUNS (SPC-4).";
    MAINTENANCE_IN = 0xa3, "MAINTENANCE IN (SPC-4): the service action in byte 1 says which command it is.";
    READ_12 = 0xa8, "READ (12) (SBC-3).";
    WRITE_12 = 0xaa, "WRITE (12) (SBC-3).";
    WRITE_AND_VERIFY_12 = 0xae, "WRITE AND VERIFY (12) (SBC-3).";
    VERIFY_12 = 0xaf, "VERIFY (12) (SBC-3).";
    READ_DEFECT_DATA_12 = 0xb7, "READ DEFECT DATA (12) (SBC-3).";
    READ_CAPACITY_16 = 0x10, "READ CAPACITY (16) (SBC-3), a service action of [`SERVICE_ACTION_IN_16`].";
    GET_LBA_STATUS = 0x12, "GET LBA STATUS (SBC-3), a service action of [`SERVICE_ACTION_IN_16`].";
    REPORT_TARGET_PORT_GROUPS = 0x0a, "REPORT TARGET PORT GROUPS (SPC-4), a service action of [`MAINTENANCE_IN`].";
    REPORT_SUPPORTED_OPERATION_CODES = 0x0c, "REPORT SUPPORTED OPERATION CODES (SPC-4), a service action of [`MAINTENANCE_IN`].";
    REPORT_SUPPORTED_TASK_MANAGEMENT_FUNCTIONS = 0x0d, "REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS (SPC-4), a service action of [`MAINTENANCE_IN`].";
    EXTENDED_COPY = 0x00, "EXTENDED COPY (LID1) (SPC-4), a service action of [`THIRD_PARTY_COPY_OUT`].";
    COPY_STATUS = 0x00, "RECEIVE COPY STATUS (LID1) (SPC-4), a service action of [`THIRD_PARTY_COPY_IN`].";
    COPY_OPERATING_PARAMETERS = 0x03, "RECEIVE COPY OPERATING PARAMETERS (SPC-4), a service action of [`THIRD_PARTY_COPY_IN`].";
}
