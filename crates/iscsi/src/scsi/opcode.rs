//! Operation codes: the first byte of a CDB. Each command is described under its name in SPC-4 or
//! SBC-3.

/// TEST UNIT READY (SPC-4).
pub const TEST_UNIT_READY: u8 = 0x00;
/// REQUEST SENSE (SPC-4).
pub const REQUEST_SENSE: u8 = 0x03;
/// READ (6) (SBC-2; obsolete in SBC-3, still sent).
pub const READ_6: u8 = 0x08;
/// WRITE (6) (SBC-2; obsolete in SBC-3, still sent).
pub const WRITE_6: u8 = 0x0a;
/// INQUIRY (SPC-4).
pub const INQUIRY: u8 = 0x12;
/// MODE SENSE (6) (SPC-4).
pub const MODE_SENSE_6: u8 = 0x1a;
/// READ CAPACITY (10) (SBC-3).
pub const READ_CAPACITY_10: u8 = 0x25;
/// READ (10) (SBC-3).
pub const READ_10: u8 = 0x28;
/// WRITE (10) (SBC-3).
pub const WRITE_10: u8 = 0x2a;
/// SYNCHRONIZE CACHE (10) (SBC-3).
pub const SYNCHRONIZE_CACHE_10: u8 = 0x35;
/// MODE SENSE (10) (SPC-4).
pub const MODE_SENSE_10: u8 = 0x5a;
/// READ (16) (SBC-3).
pub const READ_16: u8 = 0x88;
/// WRITE (16) (SBC-3).
pub const WRITE_16: u8 = 0x8a;
/// SYNCHRONIZE CACHE (16) (SBC-3).
pub const SYNCHRONIZE_CACHE_16: u8 = 0x91;
/// SERVICE ACTION IN (16) (SPC-4): the service action in byte 1 says which command it is.
pub const SERVICE_ACTION_IN_16: u8 = 0x9e;
/// REPORT LUNS (SPC-4).
pub const REPORT_LUNS: u8 = 0xa0;
/// READ (12) (SBC-3).
pub const READ_12: u8 = 0xa8;
/// WRITE (12) (SBC-3).
pub const WRITE_12: u8 = 0xaa;

/// READ CAPACITY (16) (SBC-3), a service action of [`SERVICE_ACTION_IN_16`].
pub const READ_CAPACITY_16: u8 = 0x10;
