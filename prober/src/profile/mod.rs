//! Clients as data: who fetches an HTTP-01 challenge, and by which rules. The self check is not the certificate
//! authority; they differ in both directions, so each has its own profile and its own verdict.
//!
//! Read in the sources of cert-manager (`pkg/issuer/acme/http/http.go`, 1.21), Boulder (`va/http.go`, August 2026) and
//! Pebble 2.4.0 (`va/va.go`).

mod answer;
mod client;
mod dial;
mod go;
mod lookup;
mod problem;

use std::time::Duration;

pub(crate) use self::client::validate_within;
pub use self::{
    client::{ChallengeRequest, DialOutcome, DialTried, ValidationResult, validate},
    problem::{AcmeProblem, ProblemClass},
};
use crate::{
    http::USER_AGENT,
    redirect::{CODES, FollowRules, RedirectHosts, RedirectPorts},
};

/// One client's rules.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a habit of its own")]
pub struct Profile {
    /// What it is called.
    pub client: ClientProfile,
    /// How it introduces itself.
    pub user_agent: &'static str,
    /// Its `Accept` header, where it sends one.
    pub accept: Option<&'static str>,
    /// Whether the first request's `Host` carries the port though it is the scheme's own. Behind an absolute redirect it
    /// is what that one says, in all of them.
    pub host_with_port: bool,
    /// Whether it asks for a compressed answer and decompresses it, as Go's client does by itself.
    pub gzip: bool,
    /// Deadline of one fetch with all its redirects.
    pub timeout: Duration,
    /// Deadline of one connect, where it has its own.
    pub dial_timeout: Option<Duration>,
    /// Deadline of one TLS handshake, where it has its own.
    pub handshake_timeout: Option<Duration>,
    /// Time for finding a name's address *and* connecting to it, where resolvers were named to it.
    pub named_resolvers_timeout: Option<Duration>,
    /// When a name leads nowhere.
    pub lookup: LookupRule,
    /// Which of a host's addresses it connects to.
    pub addresses: AddressRule,
    /// Whether it connects to private and reserved addresses.
    pub reserved_allowed: bool,
    /// Which redirects it follows.
    pub redirects: RedirectRules,
    /// When the answer's body is the right one. The status must be 200 in all of them.
    pub body: BodyRule,
    /// Fetches in a row that must all succeed; the first failure ends them.
    pub passes: u32,
    /// Time between two of those.
    pub pause: Duration,
    /// Whether it goes through the proxy its environment names (see [`parallax_model::proxied_by`]).
    pub honours_proxy_environment: bool,
}

/// Who fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientProfile {
    /// A plain careful client: the probe's own manners.
    Generic,
    /// cert-manager's self check.
    CertManager,
    /// Let's Encrypt's server.
    Boulder,
    /// Its test server.
    Pebble,
}

/// When a name leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupRule {
    /// When neither family has an address, whatever became of the two questions.
    EitherFamily,
    /// Also when one of the two questions gets no answer in this time. Any response code is an answer.
    BothAnswered {
        /// Time for both.
        within: Duration,
    },
}

/// Which addresses a client connects to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressRule {
    /// Both families raced (Go's dialer, RFC 8305): a dead IPv6 address is invisible to it.
    Raced,
    /// The first AAAA; the first A only after a dial error. The fallback belongs to the first host alone, and starts
    /// again from the first URL.
    V6ThenV4OnDialError,
    /// The first address, IPv6 before IPv4, and no other.
    FirstOnly,
}

/// Which redirects a client follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedirectRules {
    /// Most redirects followed.
    pub most: usize,
    /// Statuses that are redirects and yet refused.
    pub refused_codes: &'static [u16],
    /// The only ports allowed; any where empty.
    pub ports: &'static [u16],
    /// Whether a URL seen before is refused at once.
    pub notices_loops: bool,
    /// Whether reserved addresses, names without a dot and names that lack a slash (`….well-known`) are refused.
    pub public_hosts_only: bool,
    /// Longest path, in bytes.
    pub longest_path: Option<usize>,
}

/// When a body is the right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyRule {
    /// Most bytes; one more fails whatever they are. What lies behind that one is not read.
    pub most: Option<u64>,
    /// Whether it is read before the status is looked at.
    pub before_status: bool,
    /// What is cut off its end before it is compared.
    pub trim: BodyTrim,
}

/// What is cut off the end of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyTrim {
    /// Nothing: a trailing newline is a wrong body.
    Nothing,
    /// Unicode white space.
    WhiteSpace,
    /// `\n`, `\r` and `\t`, but not the blank.
    LineEnds,
}

impl BodyTrim {
    fn cut(self, body: &str) -> &str {
        match self {
            Self::Nothing => body,
            Self::WhiteSpace => body.trim_end(),
            Self::LineEnds => body.trim_end_matches(['\n', '\r', '\t']),
        }
    }
}

impl Profile {
    /// The rules of a client.
    #[must_use]
    pub const fn of(client: ClientProfile) -> Self {
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
                most: 10,
                refused_codes: &[],
                ports: &[],
                notices_loops: true,
                public_hosts_only: false,
                longest_path: None,
            },
            body: BodyRule {
                most: None,
                before_status: false,
                trim: BodyTrim::WhiteSpace,
            },
            passes: 1,
            pause: Duration::ZERO,
            honours_proxy_environment: false,
        }
    }

    /// `http.Client{Timeout: 10s}` with Go's own redirect policy: an error once ten requests have been made, any host
    /// and port, no notice of loops. Five passes, two seconds apart. Where solver nameservers are given, a dialer of
    /// three seconds finds and connects.
    const fn cert_manager() -> Self {
        Self {
            client: ClientProfile::CertManager,
            user_agent: "cert-manager-challenges/v1.21.1 (linux/amd64) cert-manager/parallax-preflight",
            accept: None,
            gzip: true,
            named_resolvers_timeout: Some(Duration::from_secs(3)),
            addresses: AddressRule::Raced,
            redirects: RedirectRules {
                most: 9,
                refused_codes: &[],
                ports: &[],
                notices_loops: false,
                public_hosts_only: false,
                longest_path: None,
            },
            body: BodyRule {
                most: None,
                before_status: false,
                trim: BodyTrim::Nothing,
            },
            passes: 5,
            pause: Duration::from_secs(2),
            honours_proxy_environment: true,
            ..Self::generic()
        }
    }

    /// Eleven redirects: the test `numRedirects > 10` precedes the increment. The whole time is that of its test
    /// configuration, less the 200 ms it keeps back; production's is not published.
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
                most: 11,
                refused_codes: &[303],
                ports: &[80, 443],
                notices_loops: true,
                public_hosts_only: true,
                longest_path: Some(2000),
            },
            body: BodyRule {
                most: Some(127),
                before_status: false,
                trim: BodyTrim::WhiteSpace,
            },
            ..Self::generic()
        }
    }

    /// Stricter than Boulder where IPv6 is dead, laxer nearly everywhere else.
    const fn pebble() -> Self {
        Self {
            client: ClientProfile::Pebble,
            user_agent: "LetsEncrypt-Pebble-VA (https://github.com/letsencrypt/pebble)",
            host_with_port: true,
            gzip: true,
            timeout: Duration::from_secs(15),
            // Its DNS library waits so long for each of the two answers, and asks once.
            lookup: LookupRule::BothAnswered {
                within: Duration::from_secs(2),
            },
            addresses: AddressRule::FirstOnly,
            redirects: RedirectRules {
                most: 9,
                refused_codes: &[],
                ports: &[],
                notices_loops: false,
                public_hosts_only: false,
                longest_path: None,
            },
            body: BodyRule {
                most: None,
                before_status: true,
                trim: BodyTrim::LineEnds,
            },
            ..Self::generic()
        }
    }

    fn rules(&self) -> FollowRules {
        let rules = self.redirects;
        FollowRules {
            codes: CODES,
            refused_codes: rules.refused_codes,
            most: rules.most,
            notices_loops: rules.notices_loops,
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
            longest_path: rules.longest_path,
        }
    }
}

#[cfg(test)]
mod tests;
