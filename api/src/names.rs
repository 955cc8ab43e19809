//! DNS and CAA facts of a host name, and what they mean for a certificate.

use std::net::{IpAddr, SocketAddr};

use parallax_model::{
    FailureKind, Vantage,
    dns::{CaaAt, NameDifference, NameView, RecordAnswer},
};
use serde::{Deserialize, Serialize};

use crate::preflight::Finding;

/// Where the server that answered is located, which decides what its answer is relevant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResolverSide {
    /// In the cluster: what cert-manager's self check sees.
    Inside,
    /// In the same network, outside the cluster.
    Near,
    /// On the internet: what the CA sees, or close to it.
    Public,
    /// An authoritative server of the zone.
    Zone,
}

/// One server's answer to one vantage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedAnswer {
    /// The vantage that queried the server.
    pub vantage: Vantage,
    /// The side that the answer is relevant for.
    pub side: ResolverSide,
    /// The answer.
    #[serde(flatten)]
    pub view: NameView,
}

/// The CAA records of a name and its parents, as received by one vantage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaaChain {
    /// The vantage that queried them.
    pub vantage: Vantage,
    /// Whether they come from public DNS.
    pub public: bool,
    /// The answers, from the name upwards.
    pub names: Vec<CaaAt>,
}

/// The DNS facts of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameFacts {
    /// The name.
    pub name: String,
    /// The answers of the servers.
    pub views: Vec<ObservedAnswer>,
    /// The CAA records.
    pub caa: Vec<CaaChain>,
    /// Why the authoritative servers did not answer, if they were to be queried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_authority: Option<FailureKind>,
    /// Records for which the servers differ.
    pub differences: Vec<NameDifference>,
    /// Servers that were not queried, and how to include them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_queried: Vec<String>,
}

/// What the CAA records mean for the authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaaState {
    /// Neither the name nor its parents have CAA records: any authority may issue.
    Unrestricted,
    /// This authority may issue.
    Allowed,
    /// This authority may not issue.
    Forbidden,
    /// Unknown: the authority, the requesting account or the records are not known.
    Unknown,
    /// No server with the public view was queried.
    NotQueried,
}

/// Why a name fails validation. A certain cause fails it for as long as the zone stays unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameCause {
    /// Public servers respond that the name does not exist.
    Nxdomain,
    /// The name has no address in public DNS.
    NoAddress,
    /// Public servers respond with SERVFAIL.
    Servfail,
    /// CAA records forbid the authority to issue.
    Caa,
    /// The CAA records cannot be looked up.
    CaaLookup,
}

impl NameCause {
    /// The label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Nxdomain => "nxdomain",
            Self::NoAddress => "no_address",
            Self::Servfail => "servfail",
            Self::Caa => "caa",
            Self::CaaLookup => "caa_lookup",
        }
    }

    /// Whether the cause persists until someone changes the zone. A server that fails now may answer in a
    /// minute.
    #[must_use]
    pub const fn is_certain(self) -> bool {
        match self {
            Self::Nxdomain | Self::NoAddress | Self::Caa => true,
            Self::Servfail | Self::CaaLookup => false,
        }
    }
}

/// A problem of a name that fails validation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameProblem {
    /// The cause.
    pub cause: NameCause,
    /// Description.
    pub description: String,
    /// The CA's problem type and detail.
    pub ca_error: String,
    /// A suggested fix.
    pub remedy: String,
}

/// The evaluation of a name's DNS facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameVerdict {
    /// What the CAA records mean for the authority.
    pub caa: CaaState,
    /// The same in a sentence.
    pub caa_description: String,
    /// Problems that fail validation.
    pub problems: Vec<NameProblem>,
    /// What is unknown and prevents a forecast.
    pub unknown: Vec<String>,
    /// Additional remarks.
    pub findings: Vec<Finding>,
}

impl NameFacts {
    /// The answers of one side.
    pub fn on_side(&self, side: ResolverSide) -> impl Iterator<Item = &ObservedAnswer> {
        self.views.iter().filter(move |seen| seen.side == side)
    }

    /// All addresses in the answers of one side, sorted.
    #[must_use]
    pub fn addresses(&self, side: ResolverSide) -> Vec<IpAddr> {
        let views = self.on_side(side);
        let mut all: Vec<IpAddr> = views
            .flat_map(|seen| [&seen.view.a, &seen.view.aaaa])
            .flat_map(RecordAnswer::addresses)
            .copied()
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The public servers that were queried.
    #[must_use]
    pub fn public_servers(&self) -> Vec<SocketAddr> {
        self.on_side(ResolverSide::Public)
            .map(|seen| seen.view.server)
            .collect()
    }
}
