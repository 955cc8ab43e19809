//! The prober against real sockets: results for servers that misbehave, and the behaviour of the whole agent.
#![expect(clippy::unwrap_used, reason = "a broken fixture is a failed test")]

mod access;
mod agent;
mod counts;
mod dns;
mod expect;
mod h2;
mod hostile;
mod http;
mod kinds;
mod names;
mod peers;
mod peers_agent;
mod phases;
mod plan_kinds;
mod profile;
mod proxy;
mod redirect;
mod resolve;
mod runs;
mod selfcheck;
mod servers;
mod several;
mod suite;
mod tls;
