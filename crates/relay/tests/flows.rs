//! A relay between real sockets over loopback: data, ends of flows, and limits. Every received byte is compared with
//! the one sent.

mod bounds;
mod ends;
mod peer;
mod streams;
