//! An ACME HTTP-01 challenge fetched as one of its clients does, and what that client saw besides its outcome.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use serde::{Deserialize, Serialize};

use crate::{FailureKind, HostName, Scope, channel::label_enum};

/// Where HTTP-01 challenges are answered (RFC 8555 §8.3).
pub const CHALLENGE_PATH: &str = "/.well-known/acme-challenge/";

label_enum! {
    /// Whose rules a challenge is fetched by. They differ in both directions, so each has its own verdict.
    ChallengeClient {
        /// cert-manager's self check.
        CertManager = "cert-manager",
        /// Let's Encrypt's server.
        Boulder = "boulder",
        /// Its test server.
        Pebble = "pebble",
    }
}

/// A challenge to be fetched. Times of single phases are not taken; the whole counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChallengeProbe {
    /// Whose rules hold.
    pub client: ChallengeClient,
    /// The name to be certified.
    pub host: HostName,
    /// Port of the first request: 80 for every client there is.
    #[serde(default = "http_port", skip_serializing_if = "is_http_port")]
    pub port: u16,
    /// Path, with [`CHALLENGE_PATH`] in front of the token.
    pub path: String,
    /// The key authorization. Without it nobody answers for the token yet: any answer below 500 at the end of allowed
    /// redirects is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// Fetches in a row that must all succeed, in place of one: with cert-manager's pauses, or an authority's without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<u32>,
    /// Who is asked for the name in place of the machine's own resolvers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<SocketAddr>,
    /// Where the connections may go, also behind names and redirects; anywhere where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
}

const fn http_port() -> u16 {
    80
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde calls")]
const fn is_http_port(port: &u16) -> bool {
    *port == 80
}

/// What a client saw on its way through a challenge, in the last of its fetches. Nothing of an answer's content.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChallengeSight {
    /// Fetches that succeeded.
    pub passes: u32,
    /// What the challenge's own name resolved to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
    /// Connections that were tried, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dials: Vec<DialSight>,
    /// Redirects that were followed, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<HopSight>,
    /// What a library or the kernel said of a failure: bounded, without control characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

/// One connection that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DialSight {
    /// Where to.
    pub address: SocketAddr,
    /// Why it did not come about; absent where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailureKind>,
    /// It had not answered when the other family's had; a racing client never learns more of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overtaken: bool,
}

/// A redirect that was followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopSight {
    /// What was asked, bounded.
    pub url: String,
    /// The status that sent the client on.
    pub status: u16,
}
