//! Whole connections over links, compared with theory, the RFCs and conservation of bytes.

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
