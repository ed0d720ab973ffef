//! Whole connections over links, compared with what theory, the RFCs and conservation say of them.

mod conservation;
mod loss;
mod processors;
mod recovery;
mod relay;
mod routes;
mod steady;
mod storage;
mod streams;
mod tunnels;
mod world;
