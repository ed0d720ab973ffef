//! Puts PDUs into the bytes of a TCP stream.
