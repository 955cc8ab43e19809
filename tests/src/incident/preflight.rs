//! Preflights of an incident: what `parallax preflight` is asked, and what it must answer.

use std::collections::BTreeMap;

use parallax_model::{HostName, NodeName, ObjectName};
use serde::{Deserialize, Serialize};

/// One run of `parallax preflight`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PreflightRun {
    /// What it is for, for people.
    pub name: String,
    /// At what time.
    #[serde(default)]
    pub when: PreflightTime,
    /// The names, each a host of an Ingress.
    pub hosts: Vec<HostName>,
    /// The class of the Ingress that is made for the solver; without it nothing is created (`--no-create`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ObjectName>,
    /// Where the solver's pod runs; on the first node where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solver_on: Option<NodeName>,
    /// Where cert-manager's pod sits; it is nowhere where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_manager_on: Option<NodeName>,
    /// Whose rules the CA's verdict follows.
    #[serde(default)]
    pub profile: KnownAuthority,
    /// Seconds that the route may take (`--ready`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_seconds: Option<u32>,
    /// Fail also where it passes only by where cert-manager's pod sits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
    /// What must come out, for each of the names.
    pub expected: ExpectedPreflight,
}

/// The time of a preflight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PreflightTime {
    /// Before the first fault.
    Healthy,
    /// At the end, when Parallax has said what it should.
    #[default]
    Faulty,
}

/// A certificate authority whose rules are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KnownAuthority {
    /// Let's Encrypt's server. It uses no address of documentation or of a private network.
    #[default]
    Boulder,
    /// Its test server, which uses any.
    Pebble,
}

impl KnownAuthority {
    /// As the command line has it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Boulder => "boulder",
            Self::Pebble => "pebble",
        }
    }
}

/// What must come out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedPreflight {
    /// The exit code.
    pub exit: i32,
    /// cert-manager's self check.
    pub self_check: ExpectedCheck,
    /// The CA's validation.
    pub ca: ExpectedCheck,
    /// What must be listed as not looked at: each text is part of one line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_checked: Vec<String>,
    /// What must not be listed so, because it was looked at: no line has any of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checked: Vec<String>,
}

/// One of the two verdicts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedCheck {
    /// How it stands.
    pub standing: VerdictStanding,
    /// What each vantage saw, exactly these: a node (of a prober on its host network: `n1/host`) or a client outside, and
    /// `passes` or the kind of its failure.
    pub from: BTreeMap<String, ExpectedSight>,
    /// Ids of the causes of everything that fails, exactly these but for `or_causes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// Causes that may be named besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub or_causes: Vec<String>,
    /// The diagnosis has named them by its evidence, and they are not only what usually does this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub diagnosed: bool,
    /// Ids of what is to be known besides, exactly these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// What sentence, caveats, groups, findings or remedies must contain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub says: Vec<String>,
}

/// What a vantage sees: one word, or any of several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ExpectedSight {
    /// This.
    One(String),
    /// Whichever of these: the same fault in other words.
    Any(Vec<String>),
}

impl ExpectedSight {
    /// The words.
    #[must_use]
    pub fn words(&self) -> &[String] {
        match self {
            Self::One(word) => std::slice::from_ref(word),
            Self::Any(words) => words,
        }
    }
}

/// How a verdict stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictStanding {
    /// It passes.
    Passed,
    /// It passes where cert-manager's pod is, and fails elsewhere.
    AtRisk,
    /// It fails.
    Failed,
    /// It cannot be told.
    Unknown,
}

impl VerdictStanding {
    /// As the product writes it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::AtRisk => "at_risk",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

impl ExpectedPreflight {
    /// The exit code that two verdicts make, as docs/use/preflight.md has it.
    #[must_use]
    pub fn code(&self, strict: bool) -> i32 {
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
