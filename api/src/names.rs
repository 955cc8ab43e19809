//! DNS and CAA facts of a host name, and what they mean for a certificate.

use std::net::{IpAddr, SocketAddr};

use parallax_model::{
    FailureKind, Vantage,
    dns::{CaaAt, NameDifference, NameView, RecordAnswer},
};
use serde::{Deserialize, Serialize};

use crate::preflight::Finding;

/// Where a server's answer counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResolverSide {
    /// In the cluster: cert-manager's self check sees it.
    Inside,
    /// In the same network, outside of the cluster.
    Near,
    /// On the internet: the CA sees it, or nearly that.
    Public,
    /// At the zone's own servers.
    Zone,
}

/// One server's answer to one vantage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedAnswer {
    /// Who asked.
    pub vantage: Vantage,
    /// Where the answer counts.
    pub side: ResolverSide,
    /// The answer.
    #[serde(flatten)]
    pub view: NameView,
}

/// The CAA records of a name and of all above it, as one vantage was told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaaChain {
    /// Who asked.
    pub vantage: Vantage,
    /// Whether it is what the public sees.
    pub public: bool,
    /// From the name up.
    pub names: Vec<CaaAt>,
}

/// Everything that was said of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameFacts {
    /// The name.
    pub name: String,
    /// What each server said.
    pub views: Vec<ObservedAnswer>,
    /// CAA records.
    pub caa: Vec<CaaChain>,
    /// Why the zone's own servers said nothing, where they were to be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_authority: Option<FailureKind>,
    /// Where the servers do not agree.
    pub differences: Vec<NameDifference>,
    /// Who was not asked, and what would have it asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_asked: Vec<String>,
}

/// How the CAA records stand to the authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaaState {
    /// There are none up to the top: anybody may issue.
    Unrestricted,
    /// This authority may issue.
    Allowed,
    /// This authority may not.
    Forbidden,
    /// It cannot be told: who the authority is, which account asks, or what the records say.
    Unknown,
    /// Nobody was asked who sees what the public sees.
    NotAsked,
}

/// What about a name fails a validation. Certain ones fail it as long as the zone stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameCause {
    /// No public server knows the name.
    Nxdomain,
    /// The name has no address in public.
    NoAddress,
    /// Public servers fail on the name.
    Servfail,
    /// CAA records forbid the authority to issue.
    Caa,
    /// What the CAA records say cannot be looked up.
    CaaLookup,
}

impl NameCause {
    /// As a label.
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

    /// Whether it stays until somebody changes the zone. A server that fails now may answer in a minute.
    #[must_use]
    pub const fn is_certain(self) -> bool {
        match self {
            Self::Nxdomain | Self::NoAddress | Self::Caa => true,
            Self::Servfail | Self::CaaLookup => false,
        }
    }
}

/// Something about a name that fails a validation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameProblem {
    /// What.
    pub cause: NameCause,
    /// In our words.
    pub words: String,
    /// In the CA's: the type of the problem and its sentence.
    pub theirs: String,
    /// A way out.
    pub remedy: String,
}

/// What the facts of a name mean.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameVerdict {
    /// How the CAA records stand.
    pub caa: CaaState,
    /// The same in a sentence.
    pub caa_words: String,
    /// What fails a validation.
    pub problems: Vec<NameProblem>,
    /// What cannot be told, and keeps a validation from being foreseen.
    pub unknown: Vec<String>,
    /// What to know besides.
    pub findings: Vec<Finding>,
}

impl NameFacts {
    /// The answers of one side.
    pub fn of_side(&self, side: ResolverSide) -> impl Iterator<Item = &ObservedAnswer> {
        self.views.iter().filter(move |seen| seen.side == side)
    }

    /// All addresses that a side's servers say, sorted.
    #[must_use]
    pub fn addresses(&self, side: ResolverSide) -> Vec<IpAddr> {
        let views = self.of_side(side);
        let mut all: Vec<IpAddr> = views
            .flat_map(|seen| [&seen.view.a, &seen.view.aaaa])
            .flat_map(RecordAnswer::addresses)
            .copied()
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The public servers that were asked.
    #[must_use]
    pub fn public_servers(&self) -> Vec<SocketAddr> {
        self.of_side(ResolverSide::Public)
            .map(|seen| seen.view.server)
            .collect()
    }
}
