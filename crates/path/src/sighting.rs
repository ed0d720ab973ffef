//! Packets at single elements of a chain, for who captures them there.

use crate::packet::Departure;

/// At which boundary of its element a packet was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Boundary {
    /// It came to the element.
    Ingress,
    /// It went on, or the element dropped it.
    Egress,
}

/// A packet at an element that is watched ([`Chain::watch`](crate::Chain::watch)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting<T> {
    /// The element's place in its chain, from 0.
    pub place: usize,
    /// At which boundary.
    pub boundary: Boundary,
    /// The packet as if it left the path here: `departed` is the time of the sighting.
    pub packet: Departure<T>,
}
