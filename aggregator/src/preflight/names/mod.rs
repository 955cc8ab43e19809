//! What is said of a name, by whom, and what that means for a certificate of it. Pure.
//!
//! ```text
//! (vantage, sight)… ─▶ NameFacts ─▶ judge (CAA by the public's answers, what the public has and the inside has not)
//! ```
//!
//! Only what the public says decides: the CA never sees the cluster's own answer. What that says otherwise is shown.

mod identity;
mod judge;
mod query;

use std::net::{IpAddr, SocketAddr};

use parallax_model::{
    FailureKind, Reach, Vantage,
    dns::{CaaAt, NameDifference, NameSight, NameView, RecordAnswer, ServerOwner, name_differences},
};
use serde::{Deserialize, Serialize};

pub use self::{
    identity::caa_identities,
    judge::{CaaState, NameCause, NameProblem, NameVerdict, judge_names},
    query::{NameAnswer, NameQuery},
};

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

/// What was wanted besides each machine's own resolvers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameRequest {
    /// The configuration names public resolvers.
    pub public: bool,
    /// The configuration has the zone's own servers asked.
    pub authorities: bool,
}

impl NameFacts {
    /// Puts together what vantages were told.
    #[must_use]
    pub fn of(name: &str, sights: &[(Vantage, NameSight)], wanted: NameRequest) -> Self {
        let mut facts = Self {
            name: name.to_owned(),
            views: Vec::new(),
            caa: Vec::new(),
            no_authority: None,
            differences: Vec::new(),
            not_asked: Vec::new(),
        };
        for (vantage, sight) in sights {
            let own = own_side(vantage);
            for view in &sight.views {
                let side = match view.by {
                    ServerOwner::Own => own,
                    ServerOwner::Public => ResolverSide::Public,
                    ServerOwner::Authority { .. } => ResolverSide::Zone,
                };
                let same = |seen: &ObservedAnswer| seen.side == side && seen.view == *view;
                // Several vantages ask the same resolver; what it told the first is enough where it told all the same.
                if !facts.views.iter().any(same) {
                    facts.views.push(ObservedAnswer {
                        vantage: vantage.clone(),
                        side,
                        view: view.clone(),
                    });
                }
            }
            if !sight.caa.is_empty() {
                let asked_public = sight.views.iter().any(|view| view.by == ServerOwner::Public);
                facts.caa.push(CaaChain {
                    vantage: vantage.clone(),
                    public: asked_public || own == ResolverSide::Public,
                    names: sight.caa.clone(),
                });
            }
            if facts.no_authority.is_none() {
                facts.no_authority.clone_from(&sight.no_authority);
            }
        }
        facts.views.sort_by_key(|seen| seen.side);
        let views: Vec<NameView> = facts.views.iter().map(|seen| seen.view.clone()).collect();
        facts.differences = name_differences(&views);
        if !wanted.public && facts.of_side(ResolverSide::Public).next().is_none() {
            facts
                .not_asked
                .push("public resolvers: none is configured (resolvers.public in the aggregator's configuration), and no vantage stands on the internet".to_owned());
        }
        if !wanted.authorities {
            facts
                .not_asked
                .push("the zone's own servers: resolvers.authoritative is not set".to_owned());
        }
        facts
    }

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

const fn own_side(vantage: &Vantage) -> ResolverSide {
    match vantage {
        Vantage::Cluster { .. } => ResolverSide::Inside,
        Vantage::Outside {
            reach: Reach::Internet,
            ..
        } => ResolverSide::Public,
        Vantage::Outside { .. } => ResolverSide::Near,
    }
}

#[cfg(test)]
mod tests;
