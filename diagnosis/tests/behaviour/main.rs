//! Black-box tests of the crate: observations in; verdicts, incidents and replay lines out.

mod answers;
mod asking;
mod bad_input;
mod balancer;
mod corpus;
mod day;
mod incident_one;
mod incidents;
mod mesh;
mod night;
mod ordinary;
mod replay;
mod restart;
mod slow;
mod splitmix;
mod unread;
mod words;
