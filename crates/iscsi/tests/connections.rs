//! Several connections in one session of the target, and recovery of lost PDUs and lost connections.

mod initiator;
mod leaving;
mod lossy;
mod rig;
mod spread;
