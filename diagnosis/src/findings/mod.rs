//! What is wrong, or will be, without a region of failing cells.
//!
//! ```text
//! dns answers ─▶ answers    what each name is told to be, by whom, and where that differs (I3)
//! exposure probes ─▶ exposure    a host of one ingress class served by the fronts of another (I4)
//! forbidden questions ─▶ silence    a target answers where, or to whom, it must not
//! topology + facts ─▶ hazards    who would fail though nobody does yet (I6, I8.3)
//! ```
//!
//! Folded from the same closed rounds as the cells, as sets: the order within a round never shows.

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
    EventTime, Front, HostName, NodeName, ObjectName, Round, ServiceKey, TargetId, Vantage, Whence,
};
use serde::{Deserialize, Serialize};

pub use answers::{NameAnswer, NameView};
pub(crate) use facts::LatestOutcome;
pub use facts::ObservedFacts;
pub use hazards::{AffectedClients, Hazard, HazardKind, hazards};

use crate::{
    evidence::{
        routes::{ControlQuestion, Routes},
        row::Row,
    },
    ids::NameRegistry,
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

            /// The word in metric labels and in ids.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label),+ }
            }

            /// What it is called in the catalogue of causes, or as an incident.
            #[must_use]
            pub const fn catalogue(self) -> &'static str {
                match self { $(Self::$variant => $catalogue),+ }
            }

            /// A few words.
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
    /// What sort of finding.
    FindingKind {
        /// Others are told an inside address, these are not.
        MissingOverride = "missing-override", "I3", "an override is missing on a resolver";
        /// The answer is an address that nothing has any more.
        StaleAnswer = "stale-answer", "I3", "an answer is out of date";
        /// For as long as its TTL allows, a cache answered with what was true before a change.
        CacheWindow = "cache-window", "I3", "a DNS cache outlives a change";
        /// A target answers otherwise than before, and its application was changed.
        ChangedAnswer = "changed-answer", "P20", "a target answers otherwise since its application changed";
        /// The answer leads to something else than the name stands for.
        ShadowedName = "shadowed-name", "I3", "an override or wildcard shadows a name";
        /// The answer changes its nature back and forth.
        FlappingAnswer = "flapping-answer", "I3", "a resolver's answers alternate";
        /// Resolvers inside disagree, and nothing says who is right.
        DifferingAnswers = "differing-answers", "I3", "resolvers disagree on an inside name";
        /// The public answer is an address that the internet cannot reach.
        PrivatePublished = "private-published", "F29", "the public answer is a private address";
        /// A host of one ingress class is served by another's front.
        Exposed = "exposed", "I4", "a host is served where it does not belong";
    }
}

/// How bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Notice,
    /// Somebody will fail, or some do.
    Warning,
    /// To be dealt with now.
    Critical,
}

impl Severity {
    /// The word in metric labels.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// Something that is wrong though probes may well succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Derived from what it is about, so that two replicas and a replay agree.
    pub id: String,
    /// What sort.
    pub kind: FindingKind,
    /// How bad.
    pub severity: Severity,
    /// The name and resolver, or the host and front.
    pub subject: String,
    /// Who sees it.
    pub vantages: Vec<Vantage>,
    /// The finding in one sentence.
    pub sentence: String,
    /// What was seen, by whom.
    pub evidence: Vec<String>,
    /// Ways out.
    pub remedies: Vec<Remedy>,
    /// Targets that it concerns.
    pub targets: Vec<TargetId>,
    /// Start of the first round of the evidence at hand.
    pub since: EventTime,
}

/// A host of one class at a front of another, and what became of asking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExposureView {
    /// The host.
    pub host: HostName,
    /// Its class.
    pub class: ObjectName,
    /// Where it was asked for.
    pub front: Front,
    /// The class of that front.
    pub front_class: ObjectName,
    /// What is known.
    pub state: ExposureState,
}

/// What is known of a host at a front that is not its own. Unknown is never shown as ok.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExposureState {
    /// Nothing fresh, or nothing to compare with.
    Unknown,
    /// The front answers with something else, or not at all.
    NotServed,
    /// Served as its own.
    Served,
}

/// A question that must stay without an answer, and what became of asking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForbiddenView {
    /// The target that must not answer.
    pub target: TargetId,
    /// Where, instead of what its name resolves to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<SocketAddr>,
    /// Who must get no answer; everybody where empty.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub from: BTreeSet<Whence>,
    /// What is known: `served` where somebody got an answer twice in a row.
    pub state: ExposureState,
}

/// Everything that was found so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    answers: answers::NameAnswers,
    exposure: exposure::ExposureAnswers,
    silence: forbidden::ForbiddenAnswers,
    found: Vec<Finding>,
}

impl Findings {
    /// Takes rows of a round in. Leaves those that the diagnosis of regions is to see: a host asked for at a stranger's front
    /// says nothing of either.
    pub(crate) fn take(&mut self, round: Round, rows: &mut Vec<Row>, routes: &Routes, world: &NameRegistry) {
        for row in rows.iter() {
            match (routes.of(row.target).apart, &row.whole) {
                (Some(ControlQuestion::Exposure), Some(recorded)) => self.exposure.take(recorded),
                (Some(ControlQuestion::Forbidden), _) => self.silence.somewhere(row, world),
                (Some(ControlQuestion::Exposure), None) | (None, _) => {}
            }
        }
        rows.retain(|row| routes.of(row.target).apart.is_none());
        for row in rows.iter() {
            self.answers.take(round, row, routes, world);
            self.silence.everywhere(row, world);
        }
    }

    /// Judges a round whose rows are all taken in.
    pub(crate) fn judge(
        &mut self,
        round: Round,
        topology: &Topology,
        (routes, world): (&Routes, &NameRegistry),
        settings: Settings,
    ) {
        self.answers.forget(round, routes, settings.interval);
        let end = round.end(settings.interval);
        self.exposure.forget(end, topology, settings);
        self.silence.forget(end, topology, settings);
        self.found = self.answers.findings(round, topology, world, settings.interval);
        self.found.extend(self.exposure.findings(topology));
        self.found.extend(self.silence.findings(topology));
        for finding in &mut self.found {
            Remedy::all_on(&mut finding.remedies, topology);
        }
        self.found
            .sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.id.cmp(&b.id)));
    }

    /// Rounds are others from now on: names are to be told anew. What was found stands until the next round is judged.
    pub(crate) fn start_over(&mut self) {
        self.answers.start_over();
    }

    /// Takes in the first topology.
    pub(crate) fn learn(&mut self, topology: &Topology) {
        self.answers.learn(topology);
    }

    /// Addresses that the old topology had and the new one has not are remembered with whose they were.
    pub(crate) fn replace_topology(&mut self, old: &Topology, new: &Topology, at: EventTime) {
        self.answers.replace_topology(old, new, at);
        self.found.retain(|finding| {
            finding.targets.is_empty() || finding.targets.iter().any(|t| new.targets().contains_key(t))
        });
    }

    /// Addresses that a Service had until lately and no other one has now, each with its end.
    pub(crate) fn former_addresses(&self) -> BTreeMap<IpAddr, EventTime> {
        self.answers.former_addresses()
    }

    /// Addresses that Services had until a time after `since`, each with that time.
    pub(crate) fn former_since(
        &self,
        since: EventTime,
    ) -> impl Iterator<Item = (IpAddr, (&ServiceKey, EventTime))> {
        self.answers.former_since(since)
    }

    /// Takes in an address that a Service had until a time, as another process saw it.
    pub(crate) fn remember_former(&mut self, address: IpAddr, service: ServiceKey, until: EventTime) {
        self.answers.remember_former(address, service, until);
    }

    pub(crate) fn list(&self) -> Vec<Finding> {
        self.found.clone()
    }

    pub(crate) fn names(&self, topology: &Topology, world: &NameRegistry) -> Vec<NameView> {
        self.answers.names(topology, world)
    }

    pub(crate) fn exposures(&self, topology: &Topology) -> Vec<ExposureView> {
        self.exposure.views(topology)
    }

    pub(crate) fn forbidden(&self, topology: &Topology) -> Vec<ForbiddenView> {
        self.silence.views(topology)
    }

    /// What answers say that hazards rest on.
    pub(crate) fn teach(&self, facts: &mut ObservedFacts, world: &NameRegistry) {
        self.answers.teach(facts, world);
    }
}

/// "2 of 4 nodes (n3 and n4)".
pub(crate) fn of_nodes(nodes: &BTreeSet<NodeName>, all: usize) -> String {
    let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    if nodes.len() == all && all > 1 {
        return format!("all {all} nodes");
    }
    format!(
        "{} of {} ({})",
        nodes.len(),
        crate::wording::plural(all, "node"),
        crate::wording::listed(&names)
    )
}

#[cfg(test)]
mod tests;
