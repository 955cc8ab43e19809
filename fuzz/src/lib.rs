//! Fuzz targets: one function for each parser of untrusted input.
//!
//! | module | source of the bytes | what must hold beyond "no panic, no hang" |
//! |---|---|---|
//! | [`http_answer`] | a probed server, plain HTTP | the observation round-trips; a success has an expected status |
//! | [`tls_answer`] | a probed server, before any trust | never a success |
//! | [`dns_answer`] | a resolver, or a stranger's datagram | a datagram for another query does not end the wait |
//! | [`dns_message`] | the same | decoding visits a bounded number of labels, and each label of a decoded owner is counted |
//! | [`echo_request`] | anyone, at a prober's echo | the response is HTTP or empty; strangers do not learn the identity |
//! | [`resolv_conf`] | the machine | glibc's limits |
//! | [`plan_line`] | the aggregator | a line round-trips |
//! | [`report`] | a prober | each observation round-trips |
//! | [`target`] | a user | the id of an accepted target denotes the same probe |
//! | [`topology`] | a user | it can be planned and judged |
//! | [`config`] | a user | every error names its file |
//! | [`cluster_objects`] | the API server, and tenants who write objects | allocations bounded by the input; the derived topology round-trips |
//! | [`checkpoint`] | a `ConfigMap` or the store | allocations bounded by the input; it can be restored and written again |
//! | [`token_claims`] | anyone who sends a bearer token | allocations bounded by the input; at most 16 KiB are decoded |
//! | [`challenge_reason`] | a Challenge, with text of servers and CAs | allocations bounded by the input; surrounding space changes nothing |
//! | [`challenge_body`] | a server that responds to an ACME challenge, compressed | the content is within the limit of each client, and so are the allocations |
//! | [`name_facts`] | probers, who pass on answers of resolvers and authorities | allocations bounded by the input; the order of vantages changes no verdict on CAA |
//! | [`api_body`] | people and programs that may act | allocations bounded by the input; each body round-trips |
//! | [`form_body`] | a browser, at the forms of the page | allocations bounded by the input; fields and actions round-trip |
//! | [`node_facts`] | the node's kernel | allocations bounded by the input; no address without a message |
//! | [`store_file`] | a broken disk, another program | every query ends with rows or an error; an unreadable file is moved aside |
//! | [`replay`] | a recording | the same bytes twice; output is JSON |
//!
//! Each function accepts any bytes and panics if a property is violated, so it serves the fuzzer, the seeds and plain
//! tests alike.

pub mod api_body;
pub mod challenge_body;
pub mod challenge_reason;
pub mod checkpoint;
pub mod cluster_objects;
pub mod config;
pub mod dns_answer;
pub mod dns_message;
pub mod echo_request;
pub mod form_body;
pub mod http_answer;
pub mod name_facts;
pub mod node_facts;
pub mod plan_line;
pub mod replay;
pub mod report;
pub mod resolv_conf;
pub mod store_file;
pub mod target;
pub mod tls_answer;
pub mod token_claims;
pub mod topology;

mod probing;
mod work;

/// A fuzz target's function.
pub type Check = fn(&[u8]);

/// Every fuzz target by name, which is also the name of its directory of seeds.
pub const TARGETS: &[(&str, Check)] = &[
    ("cluster_objects", cluster_objects::check),
    ("checkpoint", checkpoint::check),
    ("token_claims", token_claims::check),
    ("challenge_body", challenge_body::check),
    ("challenge_reason", challenge_reason::check),
    ("name_facts", name_facts::check),
    ("api_body", api_body::check),
    ("form_body", form_body::check),
    ("node_facts", node_facts::check),
    ("store_file", store_file::check),
    ("config", config::check),
    ("dns_answer", dns_answer::check),
    ("dns_message", dns_message::check),
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
