//! What forwards Service traffic on the nodes.

pub mod ipvs;
