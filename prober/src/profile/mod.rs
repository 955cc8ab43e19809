//! Client profiles: the rules by which clients fetch an HTTP-01 challenge, as data. Each of cert-manager's self check
//! and the certificate authority accepts challenges that the other rejects, so each has its own profile and its own
//! verdict.
//!
//! Sources: cert-manager 1.21 (`pkg/issuer/acme/http/http.go`), Boulder of August 2026 (`va/http.go`), Pebble 2.4.0
//! (`va/va.go`).

mod client;
mod dial;
mod go_text;
mod gzip;
mod lookup;
mod passes;
mod problem;
mod response;

use std::time::Duration;

pub(crate) use self::passes::{is_response_without_key, validate_within};
pub use self::{
    client::{ChallengeRequest, DialAttempt, DialOutcome, ValidationResult},
    passes::validate,
    problem::{AcmeProblem, ProblemClass},
};
use crate::{
    http::USER_AGENT,
    redirect::{FollowRules, REDIRECT_STATUSES, RedirectHosts, RedirectPorts},
};

/// The rules of one client.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent rule")]
pub struct Profile {
    /// The client.
    pub client: ClientProfile,
    /// Its `User-Agent` header.
    pub user_agent: &'static str,
    /// Its `Accept` header, if it sends one.
    pub accept: Option<&'static str>,
    /// Whether the `Host` of the first request contains the port even if it is the default of the scheme. After an
    /// absolute redirect, all clients use the host as written there.
    pub host_with_port: bool,
    /// Whether it requests a compressed response and decompresses it, as Go's client does by default.
    pub gzip: bool,
    /// Timeout of one fetch with all its redirects.
    pub timeout: Duration,
    /// Timeout of one connect, if it is separate.
    pub dial_timeout: Option<Duration>,
    /// Timeout of one TLS handshake, if it is separate.
    pub handshake_timeout: Option<Duration>,
    /// Timeout for resolving a name *and* connecting to it, if resolvers are configured for the client.
    pub named_resolvers_timeout: Option<Duration>,
    /// When a lookup fails.
    pub lookup: LookupRule,
    /// The addresses of a host to which it connects.
    pub addresses: AddressRule,
    /// Whether it connects to private and reserved addresses.
    pub reserved_allowed: bool,
    /// The redirects that it follows.
    pub redirects: RedirectRules,
    /// When the body is correct. All clients require status 200.
    pub body: BodyRule,
    /// Number of consecutive fetches that must succeed; the first failure ends them.
    pub passes: u32,
    /// Pause between two fetches.
    pub pause: Duration,
    /// Whether it uses the proxy of its environment (see [`parallax_model::proxy_for`]).
    pub uses_environment_proxy: bool,
}

/// The known clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientProfile {
    /// A plain client with the rules of probes.
    Generic,
    /// cert-manager's self check.
    CertManager,
    /// Let's Encrypt's server.
    Boulder,
    /// Let's Encrypt's test server.
    Pebble,
}

/// When a lookup fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupRule {
    /// If neither family has an address, whatever the results of the two queries are.
    EitherFamily,
    /// Also if one of the two queries gets no answer in this time. Any response code is an answer.
    BothAnswered {
        /// Timeout for both queries.
        within: Duration,
    },
}

/// The addresses of a host to which a client connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressRule {
    /// Races both families (Go's dialer, RFC 8305), so the client does not notice a dead IPv6 address.
    Raced,
    /// The first AAAA, and the first A only after a dial error. The fallback applies to the first host only, and starts
    /// again from the first URL.
    V6ThenV4OnDialError,
    /// Only the first address, IPv6 before IPv4.
    FirstOnly,
}

/// The redirects that a client follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedirectRules {
    /// Maximum number of redirects.
    pub max: usize,
    /// Redirect statuses that are refused.
    pub refused_statuses: &'static [u16],
    /// The allowed ports; any if empty.
    pub ports: &'static [u16],
    /// Whether a repeated URL is refused immediately.
    pub detects_loops: bool,
    /// Whether reserved addresses, names without a dot and names that lack a slash (`….well-known`) are refused.
    pub public_hosts_only: bool,
    /// Maximum length of the path in bytes.
    pub max_path: Option<usize>,
}

/// When a body is correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyRule {
    /// Maximum size in bytes. A larger body fails whatever it contains; only one more byte is read.
    pub max: Option<u64>,
    /// Whether the body is read before the status is checked.
    pub read_before_status: bool,
    /// What is trimmed off the end before the comparison.
    pub trim: BodyTrim,
}

/// What is trimmed off the end of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyTrim {
    /// Nothing: a trailing newline makes the body wrong.
    Nothing,
    /// Unicode white space.
    WhiteSpace,
    /// `\n`, `\r` and `\t`, but not spaces.
    LineEnds,
}

impl BodyTrim {
    fn apply(self, body: &str) -> &str {
        match self {
            Self::Nothing => body,
            Self::WhiteSpace => body.trim_end(),
            Self::LineEnds => body.trim_end_matches(['\n', '\r', '\t']),
        }
    }
}

impl Profile {
    /// Returns the rules of a client.
    #[must_use]
    pub const fn for_client(client: ClientProfile) -> Self {
        match client {
            ClientProfile::Generic => Self::generic(),
            ClientProfile::CertManager => Self::cert_manager(),
            ClientProfile::Boulder => Self::boulder(),
            ClientProfile::Pebble => Self::pebble(),
        }
    }

    const fn generic() -> Self {
        Self {
            client: ClientProfile::Generic,
            user_agent: USER_AGENT,
            accept: Some("*/*"),
            host_with_port: false,
            gzip: false,
            timeout: Duration::from_secs(10),
            dial_timeout: None,
            handshake_timeout: None,
            named_resolvers_timeout: None,
            lookup: LookupRule::EitherFamily,
            addresses: AddressRule::Raced,
            reserved_allowed: true,
            redirects: RedirectRules {
                max: 10,
                refused_statuses: &[],
                ports: &[],
                detects_loops: true,
                public_hosts_only: false,
                max_path: None,
            },
            body: BodyRule {
                max: None,
                read_before_status: false,
                trim: BodyTrim::WhiteSpace,
            },
            passes: 1,
            pause: Duration::ZERO,
            uses_environment_proxy: false,
        }
    }

    /// `http.Client{Timeout: 10s}` with Go's default redirect policy: an error after ten requests, any host and port,
    /// no detection of loops. Five passes, two seconds apart. With solver nameservers, a dialer with a timeout of three
    /// seconds resolves and connects.
    const fn cert_manager() -> Self {
        Self {
            client: ClientProfile::CertManager,
            user_agent: "cert-manager-challenges/v1.21.1 (linux/amd64) cert-manager/parallax-preflight",
            accept: None,
            gzip: true,
            named_resolvers_timeout: Some(Duration::from_secs(3)),
            addresses: AddressRule::Raced,
            redirects: RedirectRules {
                max: 9,
                refused_statuses: &[],
                ports: &[],
                detects_loops: false,
                public_hosts_only: false,
                max_path: None,
            },
            body: BodyRule {
                max: None,
                read_before_status: false,
                trim: BodyTrim::Nothing,
            },
            passes: 5,
            pause: Duration::from_secs(2),
            uses_environment_proxy: true,
            ..Self::generic()
        }
    }

    /// Eleven redirects: the test `numRedirects > 10` precedes the increment. The timeout is that of Boulder's test
    /// configuration, minus the 200 ms that it reserves; that of production is not published.
    const fn boulder() -> Self {
        Self {
            client: ClientProfile::Boulder,
            user_agent: "Mozilla/5.0 (compatible; Let's Encrypt validation server; +https://www.letsencrypt.org)",
            gzip: true,
            timeout: Duration::from_millis(19_800),
            dial_timeout: Some(Duration::from_secs(10)),
            handshake_timeout: Some(Duration::from_secs(10)),
            addresses: AddressRule::V6ThenV4OnDialError,
            reserved_allowed: false,
            redirects: RedirectRules {
                max: 11,
                refused_statuses: &[303],
                ports: &[80, 443],
                detects_loops: true,
                public_hosts_only: true,
                max_path: Some(2000),
            },
            body: BodyRule {
                max: Some(127),
                read_before_status: false,
                trim: BodyTrim::WhiteSpace,
            },
            ..Self::generic()
        }
    }

    /// Stricter than Boulder if IPv6 is dead, more lenient in nearly every other respect.
    const fn pebble() -> Self {
        Self {
            client: ClientProfile::Pebble,
            user_agent: "LetsEncrypt-Pebble-VA (https://github.com/letsencrypt/pebble)",
            host_with_port: true,
            gzip: true,
            timeout: Duration::from_secs(15),
            // Its DNS library waits this long for each of the two answers, and does not retry.
            lookup: LookupRule::BothAnswered {
                within: Duration::from_secs(2),
            },
            addresses: AddressRule::FirstOnly,
            redirects: RedirectRules {
                max: 9,
                refused_statuses: &[],
                ports: &[],
                detects_loops: false,
                public_hosts_only: false,
                max_path: None,
            },
            body: BodyRule {
                max: None,
                read_before_status: true,
                trim: BodyTrim::LineEnds,
            },
            ..Self::generic()
        }
    }

    fn rules(&self) -> FollowRules {
        let rules = self.redirects;
        FollowRules {
            statuses: REDIRECT_STATUSES,
            refused_statuses: rules.refused_statuses,
            max: rules.max,
            detects_loops: rules.detects_loops,
            schemes: Vec::new(),
            hosts: if rules.public_hosts_only {
                RedirectHosts::Public
            } else {
                RedirectHosts::Any
            },
            ports: if rules.ports.is_empty() {
                RedirectPorts::Any
            } else {
                RedirectPorts::Only(rules.ports.to_vec())
            },
            max_path: rules.max_path,
        }
    }
}

#[cfg(test)]
mod tests;
