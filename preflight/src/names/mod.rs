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

use parallax_api::names::{CaaChain, NameFacts, ObservedAnswer, ResolverSide};
use parallax_model::{
    Reach, Vantage,
    dns::{NameSight, NameView, ServerOwner, name_differences},
};

pub use self::{
    identity::caa_identities,
    judge::judge_names,
    query::{NameAnswer, NameQuery},
};

/// What was wanted besides each machine's own resolvers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueriedResolvers {
    /// The configuration names public resolvers.
    pub public: bool,
    /// The configuration has the zone's own servers asked.
    pub authorities: bool,
}

/// Merges the DNS answers of several vantages.
#[must_use]
pub fn name_facts(name: &str, sights: &[(Vantage, NameSight)], wanted: QueriedResolvers) -> NameFacts {
    let mut facts = NameFacts {
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
