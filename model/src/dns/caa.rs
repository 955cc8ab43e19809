//! Evaluates CAA records (RFC 8659, RFC 8657) the way Boulder does (`va/caa.go`). Pure.

use serde::{Deserialize, Serialize};

use super::{CaaAnswer, CaaAt, CaaRecord};
use crate::FailureKind;

/// The certificate to be issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaaAsk<'a> {
    /// The issuer domain name of the authority in CAA records (`caaIdentities` of its directory), such as
    /// `letsencrypt.org`.
    pub issuer: &'a str,
    /// Whether the certificate is for a wildcard name.
    pub wildcard: bool,
    /// The validation method, such as `http-01`.
    pub method: &'a str,
    /// The ACME account's URI, if known.
    pub account_uri: Option<&'a str>,
}

/// Whether the authority may issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum CaaVerdict {
    /// Neither the name nor any of its parents has CAA records.
    Unrestricted,
    /// The records of this name allow issuance.
    Allowed {
        /// The name.
        #[serde(rename = "at")]
        name: String,
        /// The accounts that the records allow, if the requesting account is unknown; empty if the account
        /// does not matter.
        accounts: Vec<String>,
    },
    /// The records of this name forbid issuance.
    Forbidden {
        /// The name.
        #[serde(rename = "at")]
        name: String,
        /// The reason.
        #[serde(rename = "why")]
        reason: CaaRefusal,
    },
    /// The records of this name could not be looked up, so the authority does not issue.
    Unknown {
        /// The name.
        #[serde(rename = "at")]
        name: String,
        /// Why the lookup failed.
        kind: FailureKind,
    },
}

/// Why CAA records forbid issuance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaaRefusal {
    /// A record with this tag is critical, and the authority does not support the tag.
    CriticalTag(String),
    /// Only these authorities may issue; none may if the list is empty.
    #[serde(rename = "others")]
    OtherIssuers(Vec<String>),
    /// The authority may issue, but only to these accounts.
    OtherAccount(Vec<String>),
    /// The authority may issue, but only with these methods.
    OtherMethod(Vec<String>),
}

impl CaaVerdict {
    /// What Boulder would report: the type of the problem (RFC 8555 §6.7, without its prefix) and its detail.
    /// `None` if it would issue.
    #[must_use]
    pub fn problem(&self, name: &str) -> Option<(&'static str, String)> {
        let (class, detail) = match self {
            Self::Unrestricted | Self::Allowed { .. } => return None,
            Self::Forbidden { name: at, .. } => ("caa", format!("CAA record for {at} prevents issuance")),
            Self::Unknown { name: at, kind } => ("dns", lookup_problem(kind, "CAA", at)),
        };
        Some((class, format!("While processing CAA for {name}: {detail}")))
    }
}

impl CaaRefusal {
    /// Describes the refusal for people: what the records of `at` say about `issuer`, and how to fix it.
    #[must_use]
    pub fn explain(&self, at: &str, issuer: &str) -> (String, String) {
        match self {
            Self::CriticalTag(tag) => (
                format!("the CAA records of {at} have the critical tag {tag:?}, which {issuer} does not know"),
                "without its critical flag (0 instead of 128) the record is ignored".to_owned(),
            ),
            Self::OtherIssuers(others) if others.is_empty() => (
                format!("the CAA records of {at} allow no authority to issue"),
                format!("{at} CAA 0 issue {issuer:?} would allow it"),
            ),
            Self::OtherIssuers(others) => (
                format!(
                    "the CAA records of {at} allow {} only, not {issuer}",
                    others.join(", ")
                ),
                format!("{at} CAA 0 issue {issuer:?} would allow it too"),
            ),
            Self::OtherAccount(accounts) => (
                format!(
                    "the CAA records of {at} allow {issuer} for the account {} only",
                    accounts.join(", ")
                ),
                "the account differs, for example because of another issuer or cluster: add a record with its URI"
                    .to_owned(),
            ),
            Self::OtherMethod(methods) => (
                format!(
                    "the CAA records of {at} allow {issuer} with {} only, not with http-01",
                    methods.join(", ")
                ),
                "add http-01 to validationmethods, or use a solver for one of these methods".to_owned(),
            ),
        }
    }
}

/// The detail that Boulder reports for a failed lookup (`bdns.Error`).
#[must_use]
pub fn lookup_problem(kind: &FailureKind, record: &str, host: &str) -> String {
    let (rcode, hint) = match kind {
        FailureKind::NxDomain => ("NXDOMAIN", " - check that a DNS record exists for this domain"),
        FailureKind::ServFail => ("SERVFAIL", " - the domain's nameservers may be malfunctioning"),
        FailureKind::DnsRefused => ("REFUSED", ""),
        FailureKind::ResolveTimeout => ("query timed out", ""),
        FailureKind::ResolverUnreachable => ("networking error", ""),
        _ => ("server failure at resolver", ""),
    };
    format!("DNS problem: {rcode} looking up {record} for {host}{hint}")
}

/// The names whose CAA records are relevant, from the name itself up to its top-level domain. The closest
/// name that has records decides.
#[must_use]
pub fn caa_names(name: &str) -> Vec<String> {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let name = name.strip_prefix("*.").unwrap_or(&name);
    let mut names = Vec::new();
    let mut rest = Some(name).filter(|name| !name.is_empty());
    while let Some(at) = rest {
        names.push(at.to_owned());
        rest = at
            .split_once('.')
            .map(|(_, above)| above)
            .filter(|above| !above.is_empty());
    }
    names
}

/// Evaluates whether the authority may issue. `answers` contains the answers for [`caa_names`], in that
/// order.
#[must_use]
pub fn evaluate_caa(answers: &[CaaAt], ask: CaaAsk<'_>) -> CaaVerdict {
    for CaaAt { name, answer } in answers {
        match answer {
            CaaAnswer::None => {}
            CaaAnswer::Records(records) if records.is_empty() => {}
            CaaAnswer::Records(records) => return evaluate_records(name, records, ask),
            // This name may have records, so those of its parents must not decide.
            CaaAnswer::Failed(kind) => {
                return CaaVerdict::Unknown {
                    name: name.clone(),
                    kind: kind.clone(),
                };
            }
        }
    }
    CaaVerdict::Unrestricted
}

fn evaluate_records(name: &str, records: &[CaaRecord], ask: CaaAsk<'_>) -> CaaVerdict {
    let at = name.to_owned();
    if let Some(unknown) = records.iter().find(|record| is_unsupported_critical(record)) {
        let reason = CaaRefusal::CriticalTag(unknown.tag.clone());
        return CaaVerdict::Forbidden { name: at, reason };
    }
    let of = |tag: &str| -> Vec<&CaaRecord> {
        records
            .iter()
            .filter(|record| record.tag.eq_ignore_ascii_case(tag))
            .collect()
    };
    let mut relevant = of("issue");
    let wild = of("issuewild");
    if ask.wildcard && !wild.is_empty() {
        relevant = wild;
    }
    let mut accounts = Vec::new();
    if relevant.is_empty() {
        return CaaVerdict::Allowed { name: at, accounts };
    }
    let (mut others, mut other_accounts, mut other_methods) = (Vec::new(), Vec::new(), Vec::new());
    for property in relevant
        .iter()
        .filter_map(|record| IssueProperty::parse(&record.value))
    {
        if property.issuer != ask.issuer {
            others.extend((!property.issuer.is_empty()).then(|| property.issuer.to_owned()));
            continue;
        }
        let bound = match property.account_state(ask.account_uri) {
            ValueState::Matches => None,
            ValueState::DependsOnAccount(account) => Some(account),
            ValueState::Mismatch(accounts) => {
                other_accounts.extend(accounts);
                continue;
            }
        };
        if let ValueState::Mismatch(methods) = property.method_state(ask.method) {
            other_methods.extend(methods);
            continue;
        }
        match bound {
            None => {
                return CaaVerdict::Allowed {
                    name: at,
                    accounts: Vec::new(),
                };
            }
            Some(account) => accounts.push(account),
        }
    }
    if !accounts.is_empty() {
        return CaaVerdict::Allowed { name: at, accounts };
    }
    let reason = if !other_methods.is_empty() {
        CaaRefusal::OtherMethod(other_methods)
    } else if !other_accounts.is_empty() {
        CaaRefusal::OtherAccount(other_accounts)
    } else {
        CaaRefusal::OtherIssuers(others)
    };
    CaaVerdict::Forbidden { name: at, reason }
}

/// Many configurations set bit 1 to mean "critical", so Boulder treats it as critical too.
fn is_unsupported_critical(record: &CaaRecord) -> bool {
    const KNOWN: &[&str] = &["issue", "issuewild", "iodef", "issuemail", "issuevmc"];
    record.flags & (128 | 1) != 0 && !KNOWN.iter().any(|known| record.tag.eq_ignore_ascii_case(known))
}

/// The value of an `issue` or `issuewild` property.
#[derive(Debug, PartialEq, Eq)]
struct IssueProperty<'a> {
    issuer: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

enum ValueState {
    Matches,
    /// The account is unknown; only this one is allowed.
    DependsOnAccount(String),
    /// Only these are allowed.
    Mismatch(Vec<String>),
}

impl<'a> IssueProperty<'a> {
    /// Returns `None` for a malformed value, which allows no issuer.
    fn parse(value: &'a str) -> Option<Self> {
        let trim = |text: &'a str| text.trim_matches([' ', '\t']);
        let mut parts = value.split(';');
        let issuer = trim(parts.next()?);
        let rest: Vec<&str> = parts.collect();
        // A lone semicolon means that no issuer is allowed.
        if let [only] = rest.as_slice()
            && trim(only).is_empty()
        {
            return Some(Self {
                issuer,
                parameters: Vec::new(),
            });
        }
        let parameters = rest
            .into_iter()
            .map(|parameter| {
                let (tag, value) = parameter.split_once('=')?;
                let (tag, value) = (trim(tag), trim(value));
                let right = tag.bytes().all(|byte| byte.is_ascii_alphanumeric())
                    && value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';');
                right.then_some((tag, value))
            })
            .collect::<Option<Vec<_>>>()?;
        Some(Self { issuer, parameters })
    }

    fn values(&self, tag: &str) -> Vec<&'a str> {
        self.parameters
            .iter()
            .filter_map(|(name, value)| (*name == tag).then_some(*value))
            .collect()
    }

    fn account_state(&self, wanted: Option<&str>) -> ValueState {
        match (self.values("accounturi").as_slice(), wanted) {
            ([], _) => ValueState::Matches,
            ([only], Some(wanted)) if *only == wanted => ValueState::Matches,
            ([only], None) => ValueState::DependsOnAccount((*only).to_owned()),
            // Several account URIs can never all match.
            (some, _) => ValueState::Mismatch(some.iter().map(|uri| (*uri).to_owned()).collect()),
        }
    }

    fn method_state(&self, wanted: &str) -> ValueState {
        let label = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let values = self.values("validationmethods");
        let all = || {
            values
                .iter()
                .flat_map(|value| value.split(','))
                .map(str::to_owned)
                .collect()
        };
        match values.as_slice() {
            [] => ValueState::Matches,
            [only] => {
                for method in only.split(',') {
                    if !label(method) {
                        return ValueState::Mismatch(all());
                    }
                    if method == wanted {
                        return ValueState::Matches;
                    }
                }
                ValueState::Mismatch(all())
            }
            _ => ValueState::Mismatch(all()),
        }
    }
}

#[cfg(test)]
#[path = "caa_tests.rs"]
mod tests;
