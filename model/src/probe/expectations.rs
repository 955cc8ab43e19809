//! Expectations on a response in addition to its status: patterns, TLS handshakes, redirects and silence.

use std::{collections::BTreeSet, fmt};

use regex::bytes::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use super::{ExpectedStatus, Scheme, TlsVersion};
use crate::{FailureKind, HostName, KindClass, channel::label_enum};

/// Maximum length of a pattern in bytes.
const MAX_PATTERN_LENGTH: usize = 1024;

/// Memory limit in bytes of a compiled pattern and of its lazy DFA. Matching is linear in the response either
/// way.
const PATTERN_MEMORY_LIMIT: usize = 256 * 1024;

/// A compiled regular expression over the bytes of a response, in the syntax of the crate `regex`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BodyPattern(Regex);

/// Why a pattern is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a regular expression of at most {MAX_PATTERN_LENGTH} bytes that compiles within {PATTERN_MEMORY_LIMIT} bytes: {0}"
)]
pub struct InvalidPattern(String);

impl BodyPattern {
    /// Whether the pattern matches anywhere in the body.
    #[must_use]
    pub fn is_match(&self, body: &[u8]) -> bool {
        self.0.is_match(body)
    }
}

impl TryFrom<String> for BodyPattern {
    type Error = InvalidPattern;

    fn try_from(text: String) -> Result<Self, InvalidPattern> {
        if text.len() > MAX_PATTERN_LENGTH {
            return Err(InvalidPattern(format!("it has {} bytes", text.len())));
        }
        RegexBuilder::new(&text)
            .size_limit(PATTERN_MEMORY_LIMIT)
            .dfa_size_limit(PATTERN_MEMORY_LIMIT)
            .build()
            .map(Self)
            .map_err(|error| InvalidPattern(error.to_string()))
    }
}

impl From<BodyPattern> for String {
    fn from(pattern: BodyPattern) -> Self {
        pattern.0.as_str().to_owned()
    }
}

impl PartialEq for BodyPattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for BodyPattern {}

/// Requirements on a TLS handshake, in addition to successful verification.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TlsExpectation {
    /// Minimum TLS version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_version: Option<TlsVersion>,
    /// Another name that the certificate must be valid for, in addition to the requested one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<String>"))]
    pub name: Option<HostName>,
    /// Minimum number of days for which every certificate of the chain must still be valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days_left: Option<u16>,
    /// Text that the issuer of at least one certificate of the chain must contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
}

/// Redirects that a probe may follow. Each absent list defaults to the target itself: its own host, and ports
/// 80, 443 and its own. Redirects to third parties are never followed by default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RedirectPolicy {
    /// Maximum number of redirects to follow, 1 to 20.
    pub max: u8,
    /// Schemes that redirects may lead to; both if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schemes: Vec<Scheme>,
    /// Hosts that redirects may lead to, in addition to the target's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schemars", schemars(with = "Vec<String>"))]
    pub hosts: Vec<HostName>,
    /// Ports that redirects may lead to; 80, 443 and the target's own if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
}

label_enum! {
    /// A failure that proves that a target does not answer.
    Silence {
        /// Connection refused.
        Refused = "refused",
        /// Timeout of the connection, the TLS handshake or the request.
        Timeout = "timeout",
        /// No route, or administratively prohibited.
        Unreachable = "unreachable",
        /// Reset or closed before the first byte of a response.
        Reset = "reset",
        /// The TLS handshake fails, for example because the server requires a client certificate.
        Tls = "tls",
        /// The name does not exist or has no address.
        NxDomain = "nxdomain",
    }
}

impl Silence {
    fn from_failure(kind: &FailureKind) -> Option<Self> {
        Some(match kind.class(None) {
            KindClass::Refused => Self::Refused,
            KindClass::Unreachable => Self::Unreachable,
            KindClass::Tls => Self::Tls,
            KindClass::NxDomain => Self::NxDomain,
            _ => match kind {
                FailureKind::ConnectTimeout | FailureKind::TlsTimeout | FailureKind::FirstByteTimeout => {
                    Self::Timeout
                }
                FailureKind::Reset | FailureKind::Eof => Self::Reset,
                _ => return None,
            },
        })
    }
}

/// The failures and statuses that satisfy the requirement that a target must not answer. A status is useful
/// for the 404 of a default backend. Written `refused,timeout,404`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MustNotAnswer {
    #[serde(rename = "ways")]
    failures: BTreeSet<Silence>,
    statuses: Option<ExpectedStatus>,
}

/// The string is not a list of failures and statuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a list of refused, timeout, unreachable, reset, tls, nxdomain and statuses, as in \"refused,timeout,404\", got {0:?}"
)]
pub struct InvalidMustNotAnswer(String);

impl MustNotAnswer {
    /// Whether this failure satisfies the requirement.
    #[must_use]
    pub fn allows(&self, kind: &FailureKind) -> bool {
        Silence::from_failure(kind).is_some_and(|way| self.failures.contains(&way))
    }

    /// Whether a response with this status satisfies the requirement.
    #[must_use]
    pub fn allows_status(&self, status: u16) -> bool {
        self.statuses.as_ref().is_some_and(|set| set.contains(status))
    }

    /// Whether statuses are listed, so that the probe must wait for the response.
    #[must_use]
    pub const fn has_statuses(&self) -> bool {
        self.statuses.is_some()
    }
}

impl TryFrom<String> for MustNotAnswer {
    type Error = InvalidMustNotAnswer;

    fn try_from(text: String) -> Result<Self, InvalidMustNotAnswer> {
        let mut ways = BTreeSet::new();
        let mut statuses = Vec::new();
        for word in text.split(',').map(str::trim) {
            match Silence::ALL.iter().find(|way| way.label() == word) {
                Some(way) => {
                    ways.insert(*way);
                }
                None => statuses.push(word),
            }
        }
        let wrong = || InvalidMustNotAnswer(text.clone());
        let statuses = match statuses.as_slice() {
            [] => None,
            // "<500" is rejected: it would accept nearly every response as silence.
            some => match ExpectedStatus::try_from(some.join(",")).map_err(|_| wrong())? {
                ExpectedStatus::Below500 => return Err(wrong()),
                ranges @ ExpectedStatus::Ranges(_) => Some(ranges),
            },
        };
        Ok(Self {
            failures: ways,
            statuses,
        })
    }
}

impl fmt::Display for MustNotAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for way in &self.failures {
            write!(f, "{comma}{way}")?;
            comma = ",";
        }
        match &self.statuses {
            Some(statuses) => write!(f, "{comma}{statuses}"),
            None => Ok(()),
        }
    }
}

impl From<MustNotAnswer> for String {
    fn from(value: MustNotAnswer) -> Self {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silence(text: &str) -> Result<MustNotAnswer, InvalidMustNotAnswer> {
        MustNotAnswer::try_from(text.to_owned())
    }

    #[test]
    fn silence_is_a_list_of_ways_and_statuses() {
        let wanted = silence("refused, timeout,404,50x").unwrap_err();
        assert!(wanted.to_string().contains("refused,timeout,404"));
        let wanted = silence("timeout, refused,404").unwrap();
        assert_eq!(wanted.to_string(), "refused,timeout,404");
        assert!(wanted.allows(&FailureKind::ConnectTimeout) && wanted.allows(&FailureKind::Refused));
        assert!(!wanted.allows(&FailureKind::NxDomain) && !wanted.allows(&FailureKind::BodyCut));
        assert!(wanted.allows_status(404) && !wanted.allows_status(200));
        for wrong in ["", "never", "<500", "refused,"] {
            assert!(silence(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_pattern_is_bounded_in_length_and_in_what_it_compiles_to() {
        let pattern = |text: &str| BodyPattern::try_from(text.to_owned());
        assert!(pattern("^ok [0-9]+$").unwrap().is_match(b"ok 17"));
        assert!(pattern("(unclosed").is_err());
        assert!(pattern(&"x".repeat(1025)).is_err());
        assert!(pattern(r"(\w{100}){100}").is_err(), "compiles to megabytes");
    }
}
