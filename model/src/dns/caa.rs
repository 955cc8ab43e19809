//! Which certificate authority may issue for a name (RFC 8659, RFC 8657), as Boulder reads it (`va/caa.go`). Pure.

use serde::{Deserialize, Serialize};

use super::{CaaAnswer, CaaAt, CaaRecord};
use crate::FailureKind;

/// What is to be issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaaAsk<'a> {
    /// The name the authority goes by in such records (`caaIdentities` of its directory), as `letsencrypt.org`.
    pub issuer: &'a str,
    /// Whether the certificate is for a wildcard.
    pub wildcard: bool,
    /// How the name is validated, as `http-01`.
    pub method: &'a str,
    /// The account, where it is known.
    pub account_uri: Option<&'a str>,
}

/// Whether it may be issued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum CaaVerdict {
    /// No name up to the top has such records.
    Unrestricted,
    /// The records of this name allow it.
    Allowed {
        /// The name.
        at: String,
        /// The accounts it is allowed to, where whose account asks is not known; none where it does not matter.
        accounts: Vec<String>,
    },
    /// The records of this name forbid it.
    Forbidden {
        /// The name.
        at: String,
        /// Why.
        why: CaaRefusal,
    },
    /// It cannot be known what this name says, and so it is not issued.
    Unknown {
        /// The name.
        at: String,
        /// What became of the question.
        kind: FailureKind,
    },
}

/// Why records forbid it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaaRefusal {
    /// A record with this tag is critical, and the authority does not know it.
    CriticalTag(String),
    /// Only these may issue; nobody where there are none.
    Others(Vec<String>),
    /// The authority may issue, but to these accounts alone.
    OtherAccount(Vec<String>),
    /// The authority may issue, but by these methods alone.
    OtherMethod(Vec<String>),
}

impl CaaVerdict {
    /// What Boulder would report of it: the type of the problem (RFC 8555 §6.7, without its prefix), and its sentence.
    /// Nothing where it would issue.
    #[must_use]
    pub fn problem(&self, name: &str) -> Option<(&'static str, String)> {
        let (class, said) = match self {
            Self::Unrestricted | Self::Allowed { .. } => return None,
            Self::Forbidden { at, .. } => ("caa", format!("CAA record for {at} prevents issuance")),
            Self::Unknown { at, kind } => ("dns", lookup_problem(kind, "CAA", at)),
        };
        Some((class, format!("While processing CAA for {name}: {said}")))
    }
}

impl CaaRefusal {
    /// In our words, for the authority that goes by this name: what the records of a name say, and what would help.
    #[must_use]
    pub fn words(&self, at: &str, issuer: &str) -> (String, String) {
        match self {
            Self::CriticalTag(tag) => (
                format!("the CAA records of {at} have the critical tag {tag:?}, which {issuer} does not know"),
                "without its critical flag (0 instead of 128) the record is passed over".to_owned(),
            ),
            Self::Others(others) if others.is_empty() => (
                format!("the CAA records of {at} allow no authority at all"),
                format!("{at} CAA 0 issue {issuer:?} allows this one"),
            ),
            Self::Others(others) => (
                format!(
                    "the CAA records of {at} allow {} only, not {issuer}",
                    others.join(", ")
                ),
                format!("{at} CAA 0 issue {issuer:?} allows this one too"),
            ),
            Self::OtherAccount(accounts) => (
                format!(
                    "the CAA records of {at} allow {issuer} for the account {} only",
                    accounts.join(", ")
                ),
                "the account is another one, as of another issuer or cluster: add its URI in a record of its own"
                    .to_owned(),
            ),
            Self::OtherMethod(methods) => (
                format!(
                    "the CAA records of {at} allow {issuer} with {} only, not with http-01",
                    methods.join(", ")
                ),
                "add http-01 to validationmethods, or use a solver of such a method".to_owned(),
            ),
        }
    }
}

/// What Boulder says of a lookup that failed (`bdns.Error`).
#[must_use]
pub fn lookup_problem(kind: &FailureKind, record: &str, host: &str) -> String {
    let (what, hint) = match kind {
        FailureKind::NxDomain => ("NXDOMAIN", " - check that a DNS record exists for this domain"),
        FailureKind::ServFail => ("SERVFAIL", " - the domain's nameservers may be malfunctioning"),
        FailureKind::DnsRefused => ("REFUSED", ""),
        FailureKind::ResolveTimeout => ("query timed out", ""),
        FailureKind::ResolverUnreachable => ("networking error", ""),
        _ => ("server failure at resolver", ""),
    };
    format!("DNS problem: {what} looking up {record} for {host}{hint}")
}

/// The names whose records count, from the name itself to its top-level domain; the nearest that has some decides.
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

/// Whether the authority may issue. `climbed` is what became of the questions for [`caa_names`], in that order.
#[must_use]
pub fn judge_caa(climbed: &[CaaAt], ask: CaaAsk<'_>) -> CaaVerdict {
    for CaaAt { name, answer } in climbed {
        match answer {
            CaaAnswer::None => {}
            CaaAnswer::Records(records) if records.is_empty() => {}
            CaaAnswer::Records(records) => return of_set(name, records, ask),
            // There may be records behind it, so none further up count.
            CaaAnswer::Failed(kind) => {
                return CaaVerdict::Unknown {
                    at: name.clone(),
                    kind: kind.clone(),
                };
            }
        }
    }
    CaaVerdict::Unrestricted
}

fn of_set(name: &str, records: &[CaaRecord], ask: CaaAsk<'_>) -> CaaVerdict {
    let at = name.to_owned();
    if let Some(unknown) = records.iter().find(|record| critical_unknown(record)) {
        let why = CaaRefusal::CriticalTag(unknown.tag.clone());
        return CaaVerdict::Forbidden { at, why };
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
        return CaaVerdict::Allowed { at, accounts };
    }
    let (mut others, mut other_accounts, mut other_methods) = (Vec::new(), Vec::new(), Vec::new());
    for property in relevant
        .iter()
        .filter_map(|record| IssueProperty::read(&record.value))
    {
        if property.issuer != ask.issuer {
            others.extend((!property.issuer.is_empty()).then(|| property.issuer.to_owned()));
            continue;
        }
        let bound = match property.account(ask.account_uri) {
            ValueState::Yes => None,
            ValueState::Unknown(account) => Some(account),
            ValueState::No(accounts) => {
                other_accounts.extend(accounts);
                continue;
            }
        };
        if let ValueState::No(methods) = property.method(ask.method) {
            other_methods.extend(methods);
            continue;
        }
        match bound {
            None => {
                return CaaVerdict::Allowed {
                    at,
                    accounts: Vec::new(),
                };
            }
            Some(account) => accounts.push(account),
        }
    }
    if !accounts.is_empty() {
        return CaaVerdict::Allowed { at, accounts };
    }
    let why = if !other_methods.is_empty() {
        CaaRefusal::OtherMethod(other_methods)
    } else if !other_accounts.is_empty() {
        CaaRefusal::OtherAccount(other_accounts)
    } else {
        CaaRefusal::Others(others)
    };
    CaaVerdict::Forbidden { at, why }
}

/// Many take bit 1 for the critical one, so Boulder takes it for that too.
fn critical_unknown(record: &CaaRecord) -> bool {
    const KNOWN: &[&str] = &["issue", "issuewild", "iodef", "issuemail", "issuevmc"];
    record.flags & (128 | 1) != 0 && !KNOWN.iter().any(|known| record.tag.eq_ignore_ascii_case(known))
}

/// The value of an `issue` or `issuewild`.
#[derive(Debug, PartialEq, Eq)]
struct IssueProperty<'a> {
    issuer: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

enum ValueState {
    Yes,
    /// It depends on this account.
    Unknown(String),
    /// Only these would do.
    No(Vec<String>),
}

impl<'a> IssueProperty<'a> {
    /// Absent where it is not of the form: then it allows nobody.
    fn read(value: &'a str) -> Option<Self> {
        let trim = |text: &'a str| text.trim_matches([' ', '\t']);
        let mut parts = value.split(';');
        let issuer = trim(parts.next()?);
        let rest: Vec<&str> = parts.collect();
        // A semicolon alone is how "nobody" is written.
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

    fn account(&self, wanted: Option<&str>) -> ValueState {
        match (self.values("accounturi").as_slice(), wanted) {
            ([], _) => ValueState::Yes,
            ([only], Some(wanted)) if *only == wanted => ValueState::Yes,
            ([only], None) => ValueState::Unknown((*only).to_owned()),
            // Two of them can never hold both.
            (some, _) => ValueState::No(some.iter().map(|uri| (*uri).to_owned()).collect()),
        }
    }

    fn method(&self, wanted: &str) -> ValueState {
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
            [] => ValueState::Yes,
            [only] => {
                for method in only.split(',') {
                    if !label(method) {
                        return ValueState::No(all());
                    }
                    if method == wanted {
                        return ValueState::Yes;
                    }
                }
                ValueState::No(all())
            }
            _ => ValueState::No(all()),
        }
    }
}

#[cfg(test)]
#[path = "caa_tests.rs"]
mod tests;
