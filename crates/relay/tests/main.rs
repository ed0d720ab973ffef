//! The relay between real sockets of loopback.

mod flows;
