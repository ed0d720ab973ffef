//! The binary as its users run it, over loopback: what it takes, prints, records and refuses.

mod bad_input;
mod bad_input_peers;
mod crowd;
mod disks;
mod drain;
mod initiator_check;
mod long_capture;
mod metrics;
mod model;
mod recording;
mod stream;
mod target_file;
mod tune;
mod watch_output;
mod what_if;
