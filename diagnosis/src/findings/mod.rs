//! Problems, present or expected, that do not show as a region of failing cells.
//!
//! ```text
//! dns answers ─▶ answers    DNS answers per name and resolver, and where they differ (I3)
//! exposure probes ─▶ exposure    a host of one ingress class served by the fronts of another (I4)
//! forbidden probes ─▶ silence    a target answers at an address, or to a vantage, where it must not
//! topology + facts ─▶ hazards    clients that would fail although none fails yet (I6, I8.3)
//! ```
//!
//! Findings are folded from the same closed rounds as the cells, as sets, so the order within a round does not matter.

mod answers;
mod exposure;
mod facts;
mod forbidden;
mod hazards;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
};

use parallax_model::{
    EventTime, Front, HostName, Micros, NodeName, ObjectName, Round, ServiceKey, TargetId, Vantage, Whence,
};
use serde::{Deserialize, Serialize};

pub use answers::{NameAnswer, NameView};
pub(crate) use facts::LatestOutcome;
pub use facts::ObservedFacts;
pub use hazards::{AffectedClients, Hazard, HazardKind, hazards};

use crate::{
    evidence::{
        routes::{NegativeProbe, Routes},
        row::Row,
    },
    ids::{NameRegistry, VantageIx},
    settings::Settings,
    topology::Topology,
    verdict::Remedy,
};

macro_rules! kinds {
    ($(#[$doc:meta])* $type:ident { $($(#[$vdoc:meta])* $variant:ident = $label:literal, $catalogue:literal, $title:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $type {
            $($(#[$vdoc])* #[serde(rename = $label)] $variant),+
        }

        impl $type {
            /// Every kind, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The value used in metric labels and ids.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label),+ }
            }

            /// Its id in the catalogue of causes, or that of an incident.
            #[must_use]
            pub const fn catalogue(self) -> &'static str {
                match self { $(Self::$variant => $catalogue),+ }
            }

            /// A short description.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),+ }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.label())
            }
        }
    };
}
pub(crate) use kinds;

kinds! {
    /// The kind of a finding.
    FindingKind {
        /// Some clients get an internal address for the name, others do not.
        MissingOverride = "missing-override", "I3", "a DNS override is missing on a resolver";
        /// The answer is an address that no object has any more.
        StaleAnswer = "stale-answer", "I3", "a DNS answer is stale";
        /// Within the TTL, a cache kept answering with addresses from before a change.
        CacheWindow = "cache-window", "I3", "a DNS cache serves addresses from before a change";
        /// A target answers differently since its application changed.
        ChangedAnswer = "changed-answer", "P20", "a target answers differently since its application changed";
        /// The answer is an address of something other than the Services that the name stands for.
        ShadowedName = "shadowed-name", "I3", "a DNS override or wildcard shadows a name";
        /// The answer alternates between kinds of addresses.
        FlappingAnswer = "flapping-answer", "I3", "a resolver's answers alternate";
        /// Resolvers inside the cluster disagree, and nothing shows which is right.
        DifferingAnswers = "differing-answers", "I3", "resolvers disagree on an internal name";
        /// The public answer is an address that the internet cannot reach.
        PrivatePublished = "private-published", "F29", "public DNS returns a private address";
        /// A host of one ingress class is served by a front of another class.
        Exposed = "exposed", "I4", "a host is exposed on a front that must not serve it";
    }
}

/// The severity of a finding or hazard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// For information.
    Notice,
    /// Some clients fail or will fail.
    Warning,
    /// Needs action now.
    Critical,
}

impl Severity {
    /// The value used in metric labels.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// A problem that exists even if probes succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Derived from the subject, so that two replicas and a replay agree.
    pub id: String,
    /// The kind.
    pub kind: FindingKind,
    /// The severity.
    pub severity: Severity,
    /// The name and resolver, or the host and front.
    pub subject: String,
    /// The vantages that see it.
    pub vantages: Vec<Vantage>,
    /// The finding in one sentence.
    pub sentence: String,
    /// The observations, with the vantage of each.
    pub evidence: Vec<String>,
    /// Remedies.
    pub remedies: Vec<Remedy>,
    /// The affected targets.
    pub targets: Vec<TargetId>,
    /// Start of the first round of the available evidence.
    pub since: EventTime,
}

/// A host of one ingress class at a front of another class, with the result of the probes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExposureView {
    /// The host.
    pub host: HostName,
    /// The host's ingress class.
    pub class: ObjectName,
    /// The front that was probed.
    pub front: Front,
    /// The ingress class of that front.
    pub front_class: ObjectName,
    /// The state.
    pub state: ExposureState,
}

/// The state of a host at a front that is not its own. Unknown is never shown as ok.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExposureState {
    /// No recent answer, or nothing to compare it with.
    Unknown,
    /// The front answers with something else, or not at all.
    NotServed,
    /// The front serves the host.
    Served,
}

/// A probe that must not be answered, with its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForbiddenView {
    /// The target that must not answer.
    pub target: TargetId,
    /// The address to probe instead of what the name resolves to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<SocketAddr>,
    /// The vantages that must get no answer; all vantages if empty.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub from: BTreeSet<Whence>,
    /// The state: `served` if a vantage got two answers in a row.
    pub state: ExposureState,
}

/// All findings so far, with the state they are derived from.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    answers: answers::NameAnswers,
    exposure: exposure::ExposureAnswers,
    forbidden: forbidden::ForbiddenAnswers,
    latest: Vec<Finding>,
}

impl Findings {
    /// Adds the rows of a round, with the vantages that were answered in it, and removes those that the diagnosis of
    /// regions must not see: a probe of a host at another class's front shows nothing about the host or the front.
    pub(crate) fn add_rows(
        &mut self,
        (round, interval): (Round, Micros),
        rows: &mut Vec<Row>,
        (routes, world): (&Routes, &NameRegistry),
        was_answered: impl Fn(VantageIx) -> bool,
    ) {
        for row in rows.iter() {
            match (routes.of(row.target).must_not_answer, &row.full_observation) {
                (Some(NegativeProbe::Exposure), Some(recorded)) => self.exposure.add(recorded),
                (Some(NegativeProbe::Forbidden), _) => {
                    self.forbidden.add_scoped(row, world, was_answered(row.client));
                }
                (Some(NegativeProbe::Exposure), None) | (None, _) => {}
            }
        }
        rows.retain(|row| routes.of(row.target).must_not_answer.is_none());
        for row in rows.iter() {
            self.answers.add((round, interval), row, routes, world);
            self.forbidden.add_global(row, world);
        }
    }

    /// Judges a round after all of its rows were added.
    pub(crate) fn judge(
        &mut self,
        round: Round,
        topology: &Topology,
        (routes, world): (&Routes, &NameRegistry),
        settings: Settings,
    ) {
        self.answers.prune(round, routes, settings.interval);
        let end = round.end(settings.interval);
        self.exposure.prune(end, topology, settings);
        self.forbidden.prune(end, topology, settings);
        self.latest = self.answers.findings(round, topology, world, settings.interval);
        self.latest.extend(self.exposure.findings(topology));
        self.latest.extend(self.forbidden.findings(topology));
        for finding in &mut self.latest {
            Remedy::remove_unsupported_commands(&mut finding.remedies, topology);
        }
        self.latest
            .sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.id.cmp(&b.id)));
    }

    /// Discards the DNS answers because the rounds changed. Existing findings remain until the next round is judged.
    pub(crate) fn reset_answers(&mut self) {
        self.answers.reset();
    }

    /// Reads the first topology.
    pub(crate) fn set_topology(&mut self, topology: &Topology) {
        self.answers.set_topology(topology);
    }

    /// Replaces the topology. Addresses that only the old topology has are remembered with their Service.
    pub(crate) fn replace_topology(&mut self, old: &Topology, new: &Topology, at: EventTime) {
        self.answers.replace_topology(old, new, at);
        self.latest.retain(|finding| {
            finding.targets.is_empty() || finding.targets.iter().any(|t| new.targets().contains_key(t))
        });
    }

    /// Addresses that a Service had until recently and that no other Service has now, each with the time it was lost.
    pub(crate) fn former_addresses(&self) -> BTreeMap<IpAddr, EventTime> {
        self.answers.former_addresses()
    }

    /// Addresses that Services lost after `since`, each with its Service and the time it was lost.
    pub(crate) fn former_since(
        &self,
        since: EventTime,
    ) -> impl Iterator<Item = (IpAddr, (&ServiceKey, EventTime))> {
        self.answers.former_since(since)
    }

    /// Adds an address that a Service had until a given time, as observed by another process.
    pub(crate) fn remember_former(&mut self, address: IpAddr, service: ServiceKey, until: EventTime) {
        self.answers.remember_former(address, service, until);
    }

    pub(crate) fn list(&self) -> Vec<Finding> {
        self.latest.clone()
    }

    pub(crate) fn names(&self, topology: &Topology, world: &NameRegistry) -> Vec<NameView> {
        self.answers.names(topology, world)
    }

    pub(crate) fn exposures(&self, topology: &Topology) -> Vec<ExposureView> {
        self.exposure.views(topology)
    }

    pub(crate) fn forbidden(&self, topology: &Topology) -> Vec<ForbiddenView> {
        self.forbidden.views(topology)
    }

    /// Adds the facts from DNS answers that hazards depend on.
    pub(crate) fn add_facts(&self, facts: &mut ObservedFacts, world: &NameRegistry) {
        self.answers.add_facts(facts, world);
    }
}

/// "2 of 4 nodes (n3 and n4)".
pub(crate) fn node_share(nodes: &BTreeSet<NodeName>, all: usize) -> String {
    let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    if nodes.len() == all && all > 1 {
        return format!("all {all} nodes");
    }
    format!(
        "{} of {} ({})",
        nodes.len(),
        crate::wording::pluralize(all, "node"),
        crate::wording::join_names(&names)
    )
}

#[cfg(test)]
mod tests;
