//! Several connections in one session of the target, and what it recovers from: lost PDUs and lost
//! connections.

mod initiator;
mod leaving;
mod lossy;
mod rig;
mod spread;
