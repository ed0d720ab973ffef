//! Packets at single elements of a chain, for who captures them there.

use crate::packet::Departure;

/// On which side of its element a packet was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Passage {
    /// It came to the element.
    In,
    /// It went on, or the element dropped it.
    Out,
}

/// A packet at an element that is watched ([`Chain::watch`](crate::Chain::watch)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting<T> {
    /// The element's place in its chain, from 0.
    pub place: usize,
    /// On which side.
    pub passage: Passage,
    /// The packet as if it left the path here: `departed` is the time of the sighting.
    pub packet: Departure<T>,
}
