//! An ACME HTTP-01 challenge, fetched under the rules of one ACME client, and what that client observed.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use serde::{Deserialize, Serialize};

use crate::{FailureKind, HostName, Scope, channel::label_enum};

/// Path prefix of HTTP-01 challenges (RFC 8555 §8.3).
pub const CHALLENGE_PATH: &str = "/.well-known/acme-challenge/";

/// Maximum number of fetches of a challenge by the rules of a certificate authority. A path that fails for 10 % of the connections
/// is seen with a probability of 99 %, since 0.9^44 is less than 1 %.
pub const MAX_CHALLENGE_FETCHES: u32 = 44;

label_enum! {
    /// The client whose rules apply to a fetch. Each can fail where another succeeds, so each has its own
    /// verdict.
    ChallengeClient {
        /// cert-manager's self check.
        CertManager = "cert-manager",
        /// Let's Encrypt's validation server.
        Boulder = "boulder",
        /// Let's Encrypt's test server.
        Pebble = "pebble",
    }
}

/// A challenge to fetch. The phases are not timed individually, only the whole probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChallengeProbe {
    /// The client whose rules apply.
    pub client: ChallengeClient,
    /// The name to be certified.
    pub host: HostName,
    /// Port of the first request; 80 for every known client.
    #[serde(default = "default_port", skip_serializing_if = "is_http_port")]
    pub port: u16,
    /// Path: [`CHALLENGE_PATH`] followed by the token.
    pub path: String,
    /// The key authorization. If absent, no solver serves the token yet, and any response below 500 after
    /// permitted redirects is a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// Number of fetches that must all succeed, instead of one. cert-manager pauses between them, a CA does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<u32>,
    /// Nameservers to query for the name instead of the machine's own resolvers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<SocketAddr>,
    /// Addresses that the probe may connect to, including behind names and redirects; unrestricted if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
}

const fn default_port() -> u16 {
    80
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde calls")]
const fn is_http_port(port: &u16) -> bool {
    *port == 80
}

/// What a client observed in the last of its fetches of a challenge. It contains nothing of the response
/// body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChallengeSight {
    /// Number of fetches that succeeded.
    pub passes: u32,
    /// Addresses that the challenge's own name resolved to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
    /// Attempted connections, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dials: Vec<DialSight>,
    /// Followed redirects, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "hops")]
    pub redirects: Vec<HopSight>,
    /// Error text of a library or the kernel: bounded, without control characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "said")]
    pub error: Option<String>,
}

/// An attempted connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DialSight {
    /// The remote address.
    pub address: SocketAddr,
    /// Why the connection failed; absent if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "failed")]
    pub failure: Option<FailureKind>,
    /// The connection was still pending when the one of the other address family succeeded; a racing client
    /// never learns its result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "overtaken")]
    pub abandoned: bool,
}

/// A followed redirect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopSight {
    /// The requested URL, truncated.
    pub url: String,
    /// The redirect status.
    pub status: u16,
}
