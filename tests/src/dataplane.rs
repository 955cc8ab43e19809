//! What forwards Service traffic on the nodes, and the balancers in front of them.

pub mod balancer;
mod iptables;
pub mod ipvs;
mod policy;
pub(crate) mod six;
