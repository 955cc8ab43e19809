//! Everything that reads what somebody else wrote, one function a place.
//!
//! | module | whose bytes | what must hold beyond "no panic, no hang" |
//! |---|---|---|
//! | [`http_answer`] | a probed server's, plain | the observation reads back as written; a success has an expected status |
//! | [`tls_answer`] | a probed server's, before any trust | never a success |
//! | [`dns_answer`] | a resolver's, or a stranger's datagram | a datagram that answers something else does not end the wait |
//! | [`echo_request`] | anybody's, at a prober's echo | HTTP or nothing comes back; strangers are not told who answers |
//! | [`resolv_conf`] | the machine's | glibc's bounds |
//! | [`plan_line`] | the aggregator's | a line reads back as written |
//! | [`report`] | a prober's | each observation reads back as written |
//! | [`target`] | a user's | an accepted target's id names the same probe again |
//! | [`topology`] | a user's | it can be planned and judged |
//! | [`config`] | a user's | every complaint names its file |
//! | [`replay`] | a recording's | the same bytes twice; output is JSON |
//!
//! Each takes any bytes and panics where something does not hold, so that a fuzzer, a seed and a plain test are the
//! same thing to it.

pub mod config;
pub mod dns_answer;
pub mod echo_request;
pub mod http_answer;
pub mod plan_line;
pub mod replay;
pub mod report;
pub mod resolv_conf;
pub mod target;
pub mod tls_answer;
pub mod topology;

mod probing;

/// A target's body.
pub type Check = fn(&[u8]);

/// Every target by name; the folder of its seeds has the same one.
pub const TARGETS: &[(&str, Check)] = &[
    ("config", config::check),
    ("dns_answer", dns_answer::check),
    ("echo_request", echo_request::check),
    ("http_answer", http_answer::check),
    ("plan_line", plan_line::check),
    ("replay", replay::check),
    ("report", report::check),
    ("resolv_conf", resolv_conf::check),
    ("target", target::check),
    ("tls_answer", tls_answer::check),
    ("topology", topology::check),
];
