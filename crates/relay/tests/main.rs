//! The relay between real sockets over loopback.

mod flows;
