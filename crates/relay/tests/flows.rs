//! A relay between real sockets of loopback: what it carries, how flows end, and what it bounds. Every
//! byte that arrives is compared with the one that was sent.

mod bounds;
mod ends;
mod peer;
mod streams;
