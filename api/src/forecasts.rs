//! Renewal forecasts in the API.

use parallax_model::EventTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::NameCause;

/// The expected result of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RenewalOutlook {
    /// The renewal would fail, for a certain cause.
    WouldFail,
    /// The result cannot be predicted.
    Unknown,
    /// The renewal would pass, as far as is known without a challenge token.
    WouldPass,
}

impl RenewalOutlook {
    /// The label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::WouldFail => "would_fail",
            Self::Unknown => "unknown",
            Self::WouldPass => "would_pass",
        }
    }
}

/// Why a renewal would fail. Only causes that persist until someone changes the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForecastCause {
    /// Public DNS servers respond that the name does not exist.
    Nxdomain,
    /// The name has no address in public DNS.
    NoAddress,
    /// CAA records forbid the authority to issue.
    Caa,
    /// Every vantage on the internet is refused on port 80.
    PortRefused,
    /// No vantage on the internet gets a response from port 80.
    PortSilent,
    /// DNS publishes an IPv6 address that accepts connections but does not respond. The CA falls back to IPv4
    /// only if it cannot connect.
    AaaaUnserved,
    /// The name resolves to another ingress controller than the solver's.
    WrongController,
    /// The controller that the name resolves to has no ready Pod.
    NoEndpoints,
    /// cert-manager rejects the issuer's solver.
    Solver,
}

impl ForecastCause {
    /// The label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Nxdomain => "nxdomain",
            Self::NoAddress => "no_address",
            Self::Caa => "caa",
            Self::PortRefused => "port_refused",
            Self::PortSilent => "port_silent",
            Self::AaaaUnserved => "aaaa_unserved",
            Self::WrongController => "wrong_controller",
            Self::NoEndpoints => "no_endpoints",
            Self::Solver => "solver",
        }
    }

    /// Converts the cause of a name problem; `None` if the problem can disappear by itself.
    #[must_use]
    pub const fn from_name_cause(cause: NameCause) -> Option<Self> {
        match cause {
            NameCause::Nxdomain => Some(Self::Nxdomain),
            NameCause::NoAddress => Some(Self::NoAddress),
            NameCause::Caa => Some(Self::Caa),
            NameCause::Servfail | NameCause::CaaLookup => None,
        }
    }
}

/// Forecast for one name of one Certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RenewalForecast {
    /// The Certificate's namespace.
    pub namespace: String,
    /// The Certificate's name.
    pub certificate: String,
    /// The host name.
    pub host: String,
    /// The issuer, such as `ClusterIssuer letsencrypt`.
    pub issuer: String,
    /// The solver that cert-manager would use for the challenge.
    pub solver: String,
    /// When cert-manager renews the Certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub renewal: Option<EventTime>,
    /// When the current certificate expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub not_after: Option<EventTime>,
    /// Time of the latest evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub evaluated_at: Option<EventTime>,
    /// The expected result of a renewal now.
    pub outlook: RenewalOutlook,
    /// Why it would fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<ForecastCause>,
    /// The result in one sentence.
    pub sentence: String,
    /// The error that the CA would report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_error: Option<String>,
    /// A suggested fix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Prerequisites of a renewal that could not be evaluated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknowns: Vec<String>,
    /// Additional notes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Renewal time and expiry of a Certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CertificateValidity {
    /// The Certificate's namespace.
    pub namespace: String,
    /// The Certificate's name.
    pub certificate: String,
    /// When cert-manager renews it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub renewal: Option<EventTime>,
    /// When the current certificate expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub not_after: Option<EventTime>,
}

/// Response to `GET /v1/forecasts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RenewalForecastList {
    /// What a forecast covers and what it does not.
    pub note: String,
    /// Why there are no forecasts: cert-manager's objects are unknown, or this aggregator has not evaluated
    /// any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_because: Option<String>,
    /// The forecasts, sorted by namespace, Certificate and name.
    pub forecasts: Vec<RenewalForecast>,
    /// All Certificates, including those that do not need port 80.
    pub certificates: Vec<CertificateValidity>,
    /// Number of names that are not evaluated because the limit is reached.
    #[serde(default)]
    pub skipped: usize,
}

/// What a forecast covers; part of every response.
pub const COVERAGE_NOTE: &str = "A forecast from what is known without a challenge token. It does not check the solver's Pod and route, the CA's other vantage points, or DNSSEC. `parallax preflight --certificate` checks with a solver of its own.";

impl RenewalForecastList {
    /// Returns an empty list with the reason, so that it does not read as "nothing to renew".
    #[must_use]
    pub fn unavailable(reason: &str) -> Self {
        Self {
            note: COVERAGE_NOTE.to_owned(),
            unavailable_because: Some(reason.to_owned()),
            forecasts: Vec::new(),
            certificates: Vec::new(),
            skipped: 0,
        }
    }
}
