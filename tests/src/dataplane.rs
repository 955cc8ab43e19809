//! Forwarding of Service traffic on the nodes, and the balancers in front of them.

pub mod balancer;
mod iptables;
mod ipvs;
mod nftables;
mod policy;
mod rules;

pub use rules::{NodeRules, prepare, prepare_plugin};
