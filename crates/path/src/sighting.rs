//! Packets at single elements of a chain, for captures there.

use crate::packet::Departure;

/// The boundary of its element at which a packet was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Boundary {
    /// It entered the element.
    Ingress,
    /// It left the element, or was dropped by it.
    Egress,
}

/// A packet at a watched element ([`Chain::watch`](crate::Chain::watch)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting<T> {
    /// The element's index in its chain, from 0.
    pub place: usize,
    /// The boundary.
    pub boundary: Boundary,
    /// The packet as if it left the path here: `departed` is the time of the sighting.
    pub packet: Departure<T>,
}
