//! Finds PDUs in the bytes of a TCP stream.
