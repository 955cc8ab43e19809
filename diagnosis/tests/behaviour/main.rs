//! Black-box tests of the crate: observations in; verdicts, incidents and replay lines out.

mod bad_input;
mod baselines;
mod corpus;
mod follow_up_probes;
mod incident_one;
mod incidents;
mod lab_recordings;
mod latency;
mod load_balancer;
mod ordinary_events;
mod ordinary_night;
mod real_cluster;
mod replay;
mod restart;
mod scripted_mesh;
mod sentences;
mod simulated_mesh;
mod splitmix;
mod unreadable_topology;
