//! RFC 7143 and the SCSI disk as pure state machines: bytes and `now` go in; bytes, actions and
//! the next deadline come out.
//!
//! - [`wire`]: PDUs as structs, and the framing that finds them in a TCP stream;
//! - [`digest`]: CRC32C as header and data digests use it;
//! - [`scsi`]: the SCSI disk, from CDB to sense data;
//! - [`sequence`]: CmdSN, StatSN and their serial-number arithmetic;
//! - [`fault`]: whose fault an error is.

mod arrival;
pub mod digest;
pub mod fault;
pub mod initiator;
pub mod keys;
pub mod login;
mod record;
pub mod scsi;
pub mod sequence;
pub mod target;
pub mod text;
pub mod wire;
