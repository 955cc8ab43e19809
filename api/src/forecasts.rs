//! Forecasts as the API says them.

use parallax_model::EventTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::NameCause;

/// How a renewal would end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RenewalOutlook {
    /// For a cause that is certain, it would fail.
    WouldFail,
    /// It cannot be told.
    Unknown,
    /// As far as can be known without a token, it would pass.
    WouldPass,
}

impl RenewalOutlook {
    /// As a label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::WouldFail => "would_fail",
            Self::Unknown => "unknown",
            Self::WouldPass => "would_pass",
        }
    }
}

/// Why a renewal would fail: only what stays so until somebody changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForecastCause {
    /// No public server knows the name.
    Nxdomain,
    /// The name has no address in public.
    NoAddress,
    /// CAA records forbid the authority to issue.
    Caa,
    /// Every vantage on the internet is refused at port 80.
    PortRefused,
    /// No vantage on the internet gets an answer from port 80.
    PortSilent,
    /// An IPv6 address is published that takes connections and says nothing: the CA goes by IPv4 only where it cannot
    /// connect.
    AaaaUnserved,
    /// The name leads to another controller than the solver's.
    WrongController,
    /// The controller that the name leads to has no pod that is ready.
    NoEndpoints,
    /// cert-manager refuses the issuer's solver.
    Solver,
}

impl ForecastCause {
    /// As a label.
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

    /// Of what is said of a name, as far as it is certain.
    #[must_use]
    pub const fn of_the_name(cause: NameCause) -> Option<Self> {
        match cause {
            NameCause::Nxdomain => Some(Self::Nxdomain),
            NameCause::NoAddress => Some(Self::NoAddress),
            NameCause::Caa => Some(Self::Caa),
            NameCause::Servfail | NameCause::CaaLookup => None,
        }
    }
}

/// What is foreseen for one name of one Certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RenewalForecast {
    /// The Certificate's namespace.
    pub namespace: String,
    /// The Certificate.
    pub certificate: String,
    /// The name.
    pub host: String,
    /// Who issues, as `ClusterIssuer letsencrypt`.
    pub issuer: String,
    /// How cert-manager would have the challenge answered.
    pub solver: String,
    /// When cert-manager renews the Certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub renewal: Option<EventTime>,
    /// When the present one ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub not_after: Option<EventTime>,
    /// When it was last looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub looked: Option<EventTime>,
    /// How a renewal would end now.
    pub outlook: RenewalOutlook,
    /// Why it would fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<ForecastCause>,
    /// In a sentence.
    pub sentence: String,
    /// What the CA would say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theirs: Option<String>,
    /// A way out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// What could not be told, of what a renewal needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<String>,
    /// What to know besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A Certificate's own times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CertificateValidity {
    /// Its namespace.
    pub namespace: String,
    /// It.
    pub certificate: String,
    /// When cert-manager renews it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub renewal: Option<EventTime>,
    /// When the present one ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>")]
    pub not_after: Option<EventTime>,
}

/// Answer of `GET /v1/forecasts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RenewalForecastList {
    /// What a forecast is, for whoever reads it.
    pub note: String,
    /// Why there are none: cert-manager's objects are not known, or this aggregator has not looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// By namespace, Certificate and name.
    pub forecasts: Vec<RenewalForecast>,
    /// Every Certificate with its times, also those that need no port 80.
    pub certificates: Vec<CertificateValidity>,
    /// Names that are not looked at, because there are too many.
    #[serde(default)]
    pub left_out: usize,
}

/// What a forecast covers; part of every list.
pub const NOTE: &str = "A forecast from what can be known without a token: the solver's pod and route, the CA's other places in the world and DNSSEC are not looked at. `parallax preflight --certificate` asks with a solver of its own.";

impl RenewalForecastList {
    /// An empty list with the reason: without one it would read as "nothing to renew".
    #[must_use]
    pub fn missing(reason: &str) -> Self {
        Self {
            note: NOTE.to_owned(),
            missing: Some(reason.to_owned()),
            forecasts: Vec::new(),
            certificates: Vec::new(),
            left_out: 0,
        }
    }
}
