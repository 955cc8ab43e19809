//! Preflights of an incident: arguments of `parallax preflight`, and the expected output.

use std::collections::BTreeMap;

use parallax_model::{HostName, NodeName, ObjectName};
use serde::{Deserialize, Serialize};

/// One run of `parallax preflight`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PreflightRun {
    /// Its purpose, for readers.
    pub name: String,
    /// When it runs.
    #[serde(default)]
    pub when: PreflightTime,
    /// The names, each a host of an Ingress.
    pub hosts: Vec<HostName>,
    /// Class of the Ingress created for the solver; without it nothing is created (`--no-create`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ObjectName>,
    /// Node of the solver's Pod [default: the first node].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solver_on: Option<NodeName>,
    /// Node of cert-manager's Pod; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_manager_on: Option<NodeName>,
    /// The CA whose rules are applied.
    #[serde(default)]
    pub profile: KnownAuthority,
    /// Seconds until the route must exist (`--ready`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_seconds: Option<u32>,
    /// Fail also if the check passes only because of the location of cert-manager's Pod.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
    /// Expected result of each name.
    pub expected: ExpectedPreflight,
}

/// When a preflight runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PreflightTime {
    /// Before the first fault.
    Healthy,
    /// At the end, after Parallax has reached the expected result.
    #[default]
    Faulty,
}

/// A certificate authority whose rules are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KnownAuthority {
    /// Let's Encrypt's server. It rejects addresses for documentation and of private networks.
    #[default]
    Boulder,
    /// Let's Encrypt's test server, which accepts any address.
    Pebble,
}

impl KnownAuthority {
    /// Returns the command-line argument.
    #[must_use]
    pub const fn argument(self) -> &'static str {
        match self {
            Self::Boulder => "boulder",
            Self::Pebble => "pebble",
        }
    }
}

/// The expected result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedPreflight {
    /// The exit code.
    pub exit: i32,
    /// cert-manager's self check.
    pub self_check: ExpectedCheck,
    /// The CA's validation.
    pub ca: ExpectedCheck,
    /// Texts that must be listed as not checked; each must be part of one line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_checked: Vec<String>,
    /// Texts that must not be listed as not checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checked: Vec<String>,
}

/// One of the two verdicts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedCheck {
    /// Expected standing.
    pub standing: VerdictStanding,
    /// Result of each vantage, exactly these: a node (for a prober in its host network: `n1/host`) or a client
    /// outside, with `passes` or a failure kind.
    pub from: BTreeMap<String, ExpectedSight>,
    /// Ids of the causes of all failures, exactly these except for `or_causes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// Causes that may also be named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub or_causes: Vec<String>,
    /// Whether the diagnosis named them by evidence, so that they are not only the usual causes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub diagnosed: bool,
    /// Ids of the findings, exactly these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// Texts that sentence, caveats, groups, findings or remedies must contain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub says: Vec<String>,
}

/// Expected result of a vantage: one value, or any of several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ExpectedSight {
    /// Exactly this.
    One(String),
    /// Any of these: different symptoms of the same fault.
    Any(Vec<String>),
}

impl ExpectedSight {
    /// Returns the values.
    #[must_use]
    pub fn words(&self) -> &[String] {
        match self {
            Self::One(word) => std::slice::from_ref(word),
            Self::Any(words) => words,
        }
    }
}

/// Standing of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictStanding {
    /// It passes.
    Passed,
    /// It passes where cert-manager's Pod runs, and fails elsewhere.
    AtRisk,
    /// It fails.
    Failed,
    /// Unknown.
    Unknown,
}

impl VerdictStanding {
    /// Returns the product's name for it.
    #[must_use]
    pub const fn argument(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::AtRisk => "at_risk",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

impl ExpectedPreflight {
    /// Returns the exit code that follows from the two verdicts, as in docs/use/preflight.md.
    #[must_use]
    pub fn expected_exit_code(&self, strict: bool) -> i32 {
        let standings = [self.self_check.standing, self.ca.standing];
        let any = |standing| standings.contains(&standing);
        if any(VerdictStanding::Failed) || (strict && any(VerdictStanding::AtRisk)) {
            1
        } else if any(VerdictStanding::Unknown) {
            3
        } else {
            0
        }
    }
}
