//! The topology as its source last said it, and the state of that source.

use std::{collections::BTreeMap, fmt, sync::Arc};

use parallax_diagnosis::topology::Topology;
use parallax_model::{EventTime, Micros, TargetId};
use serde::Serialize;

/// The last topology that could be read, and what has been wrong with its source since.
#[derive(Debug, Clone)]
pub struct TopologyState {
    /// The last topology that could be read.
    pub topology: Arc<Topology>,
    /// How rounds and probes are timed, where the configuration says so anew since the start.
    pub timing: Option<ProbeTiming>,
    /// Counts the changes; the `n` of a plan's revision.
    pub number: u64,
    /// Why the source cannot be read at present. The topology above is then the last-known one.
    pub trouble: Option<SourceError>,
    /// What was found odd in the source's objects, in order.
    pub notes: Arc<[SourceNote]>,
    /// The objects that publish targets, where the source is a cluster.
    pub publishers: Arc<TargetPublishers>,
}

/// The object that publishes each target.
pub type TargetPublishers = BTreeMap<TargetId, TargetPublisher>;

/// An object that publishes a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetPublisher {
    /// The kind of the object.
    pub sort: PublisherKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What sort of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublisherKind {
    /// An Ingress.
    Ingress,
    /// An `HTTPRoute`.
    HttpRoute,
}

/// What the configuration says of rounds and probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeTiming {
    /// Length of a round, and how often what says nothing else is probed.
    pub interval: Micros,
    /// Deadline of a probe that has none of its own.
    pub timeout: Micros,
}

/// Something odd in the cluster's objects that keeps a target from being probed, or from being judged with placement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SourceNote {
    /// What it is about: `Ingress shop/web`.
    pub object: String,
    /// What was found and what was expected.
    pub text: String,
}

impl fmt::Display for SourceNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.text)
    }
}

/// The source cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceError {
    /// Every complaint, one a line.
    pub message: String,
    /// When the source was last known to be good.
    pub since: EventTime,
}

impl SourceError {
    /// Two troubles at once are one, as old as the older.
    #[must_use]
    pub fn both(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) => Some(Self {
                message: format!("{}\n{}", one.message, other.message),
                since: one.since.min(other.since),
            }),
            (one, other) => one.or(other),
        }
    }
}

impl TopologyState {
    /// The state of a source that was just read without an error.
    #[must_use]
    pub fn new(topology: Arc<Topology>) -> Self {
        Self {
            topology,
            timing: None,
            number: 0,
            trouble: None,
            notes: Arc::from([]),
            publishers: Arc::default(),
        }
    }

    /// How long ago the topology was last known to be what its source says; zero while the source is good.
    #[must_use]
    pub fn age(&self, now: EventTime) -> Micros {
        self.trouble
            .as_ref()
            .map_or(Micros(0), |trouble| now - trouble.since)
    }

    /// The source was read again: clears the error and replaces the topology.
    pub fn heal(&mut self, topology: Topology) {
        self.trouble = None;
        self.replace(topology);
    }

    /// Takes another topology; one that is the same makes no new revision.
    pub fn replace(&mut self, topology: Topology) {
        if *self.topology != topology {
            self.topology = Arc::new(topology);
            self.number += 1;
        }
    }

    /// Takes another timing; returns whether it is another. Plans change with it.
    pub fn time(&mut self, timing: Option<ProbeTiming>) -> bool {
        let changed = self.timing != timing;
        if changed {
            self.timing = timing;
            self.number += 1;
        }
        changed
    }

    /// The source could not be read; it was last known to be good at `last_good`.
    pub fn fail(&mut self, message: String, last_good: EventTime) {
        let since = self.trouble.as_ref().map_or(last_good, |trouble| trouble.since);
        self.trouble = Some(SourceError { message, since });
    }
}

#[cfg(test)]
mod tests {
    use parallax_diagnosis::topology::{NodeFacts, NodeReadiness, NodeSpec, TopologySpec};

    use super::*;

    fn topology(nodes: &[&str]) -> Topology {
        let nodes = nodes.iter().map(|name| NodeSpec {
            name: name.parse().unwrap(),
            zone: None,
            addresses: Vec::new(),
            prober: None,
            readiness: NodeReadiness::default(),
            cordoned: false,
            facts: NodeFacts::default(),
        });
        let spec = TopologySpec {
            nodes: nodes.collect(),
            ..TopologySpec::default()
        };
        Topology::try_from(spec).unwrap()
    }

    #[test]
    fn a_text_that_changes_nothing_makes_no_new_revision() {
        let mut state = TopologyState::new(Arc::new(topology(&["n1"])));
        state.heal(topology(&["n1"]));
        assert_eq!(state.number, 0);
        state.heal(topology(&["n1", "n2"]));
        assert_eq!(state.number, 1);
    }

    #[test]
    fn the_age_counts_from_the_last_good_read_however_often_reading_fails() {
        let mut state = TopologyState::new(Arc::new(topology(&["n1"])));
        state.fail("first".to_owned(), EventTime(1_000));
        state.fail("second".to_owned(), EventTime(9_000));
        assert_eq!(state.age(EventTime(11_000)), Micros(10_000));
        assert_eq!(state.trouble.unwrap().message, "second");
    }
}
