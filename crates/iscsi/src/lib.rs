//! RFC 7143 and the SCSI disk as pure state machines
