//! RFC 7143 and the SCSI disk as pure state machines: bytes and `now` go in; bytes, actions and
//! the next deadline come out.
//!
//! - [`wire`]: PDUs as structs, and their framing in a TCP stream;
//! - [`digest`]: CRC32C of header and data digests;
//! - [`sequence`]: CmdSN, StatSN and their serial-number arithmetic;
//! - [`keys`]: the one table of text keys and their negotiation rules;
//! - [`text`]: keys and values as bytes, and the exchange of Text PDUs;
//! - [`login`]: login of one connection, at both ends;
//! - [`scsi`]: the SCSI disk, from CDB to sense data;
//! - [`target`] and [`initiator`]: sessions and connections of the two ends;
//! - [`record`]: PDUs as records of the trace vocabulary;
//! - [`tail`]: whether the last segment of a burst waits for more data;
//! - [`fault`]: which side is at fault for an error.

mod arrival;
pub mod digest;
pub mod fault;
pub mod initiator;
pub mod keys;
pub mod login;
pub mod record;
pub mod scsi;
pub mod sequence;
pub mod tail;
pub mod target;
pub mod text;
pub mod wire;
