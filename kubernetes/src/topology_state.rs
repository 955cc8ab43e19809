//! The topology as its source describes it, and as every part of the aggregator sees it.
//!
//! ```text
//! cluster or file ─▶ SourceState ─┐
//!            enrolled vantages ───┼─▶ reducer ─▶ TopologyState (one revision)
//!             Target objects ─────┘
//! ```

use std::{collections::BTreeMap, fmt, sync::Arc};

use parallax_diagnosis::topology::Topology;
use parallax_model::{Assignment, EventTime, Micros, Scope, TargetId};
use serde::Serialize;

/// The state of a topology source: the last topology that could be read, and any error since.
#[derive(Debug, Clone)]
pub struct SourceState {
    /// The last topology that could be read.
    pub topology: Arc<Topology>,
    /// The timing of rounds and probes, if the configuration has changed since the start.
    pub timing: Option<ProbeTiming>,
    /// Why the source currently cannot be read. `topology` is then the last known one.
    pub error: Option<SourceError>,
    /// Problems of single objects of the source, in order.
    pub notes: Arc<[SourceNote]>,
    /// The objects that publish targets, if the source is a cluster.
    pub publishers: Arc<TargetPublishers>,
}

/// The topology with everything that the reducer merged into it. Only the reducer publishes it.
#[derive(Debug, Clone)]
pub struct TopologyState {
    /// The topology: that of the source, with enrolled vantages and accepted `Target` objects.
    pub topology: Arc<Topology>,
    /// The timing of rounds and probes, if the configuration has changed since the start.
    pub timing: Option<ProbeTiming>,
    /// Incremented on each change that a plan can depend on: topology, timing or scoped targets. It is the
    /// `n` of a plan's revision.
    pub revision: u64,
    /// Why the source currently cannot be read.
    pub error: Option<SourceError>,
    /// Problems of single objects of the source, in order.
    pub notes: Arc<[SourceNote]>,
    /// The objects that publish targets, if the source is a cluster.
    pub publishers: Arc<TargetPublishers>,
    /// Targets of `Target` objects and published hosts, whose probes stay within a scope.
    pub scoped: Arc<ScopedTargets>,
}

/// Targets that the operator of the mesh does not own, each with the addresses that its probes may connect to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScopedTargets(pub BTreeMap<TargetId, Arc<Scope>>);

impl ScopedTargets {
    /// Restricts the probe of a scoped target to its scope; returns other assignments unchanged.
    #[must_use]
    pub fn restrict(&self, assignment: Assignment) -> Assignment {
        let Some(scope) = self.0.get(&assignment.target) else {
            return assignment;
        };
        Assignment {
            probe: assignment.probe.with_scope(scope),
            ..assignment
        }
    }
}

/// The object that publishes each target.
pub type TargetPublishers = BTreeMap<TargetId, TargetPublisher>;

/// An object that publishes a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetPublisher {
    /// The object's kind.
    pub kind: PublisherKind,
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

/// The kind of an object that publishes targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublisherKind {
    /// An Ingress.
    Ingress,
    /// An `HTTPRoute`.
    HttpRoute,
}

/// Timing of rounds and probes from the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeTiming {
    /// Length of a round, and the default probe interval.
    pub interval: Micros,
    /// Default deadline of a probe.
    pub timeout: Micros,
}

/// A problem of a cluster object that prevents a target from being probed, or from being judged with
/// placement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SourceNote {
    /// The object, such as `Ingress shop/web`.
    pub object: String,
    /// What was found and what was expected.
    pub text: String,
}

impl fmt::Display for SourceNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.text)
    }
}

/// Why the source cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceError {
    /// All errors, one per line.
    pub message: String,
    /// When the source was last read successfully.
    pub since: EventTime,
}

impl SourceError {
    /// Merges two errors; the result is as old as the older one.
    #[must_use]
    pub fn merge(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) => Some(Self {
                message: format!("{}\n{}", one.message, other.message),
                since: one.since.min(other.since),
            }),
            (one, other) => one.or(other),
        }
    }
}

impl SourceState {
    /// Creates the state of a source that was read without an error.
    #[must_use]
    pub fn new(topology: Arc<Topology>) -> Self {
        Self {
            topology,
            timing: None,
            error: None,
            notes: Arc::from([]),
            publishers: Arc::default(),
        }
    }

    /// Replaces the topology; returns whether it differs.
    pub fn replace(&mut self, topology: Topology) -> bool {
        let changed = *self.topology != topology;
        if changed {
            self.topology = Arc::new(topology);
        }
        changed
    }

    /// Replaces the timing; returns whether it differs.
    pub fn set_timing(&mut self, timing: Option<ProbeTiming>) -> bool {
        std::mem::replace(&mut self.timing, timing) != timing
    }

    /// Records that the source could not be read; it was last known to be good at `last_good`.
    pub fn fail(&mut self, message: String, last_good: EventTime) {
        let since = self.error.as_ref().map_or(last_good, |error| error.since);
        self.error = Some(SourceError { message, since });
    }
}

impl TopologyState {
    /// Creates the state with the first revision.
    #[must_use]
    pub fn new(topology: Arc<Topology>) -> Self {
        Self {
            topology,
            timing: None,
            revision: 0,
            error: None,
            notes: Arc::from([]),
            publishers: Arc::default(),
            scoped: Arc::default(),
        }
    }

    /// Time since the topology was last known to match its source; zero while the source can be read.
    #[must_use]
    pub fn age(&self, now: EventTime) -> Micros {
        self.error.as_ref().map_or(Micros(0), |error| now - error.since)
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
    fn a_text_that_changes_nothing_is_no_change() {
        let mut state = SourceState::new(Arc::new(topology(&["n1"])));
        assert!(!state.replace(topology(&["n1"])));
        assert!(state.replace(topology(&["n1", "n2"])));
    }

    #[test]
    fn the_age_counts_from_the_last_good_read_however_often_reading_fails() {
        let mut source = SourceState::new(Arc::new(topology(&["n1"])));
        source.fail("first".to_owned(), EventTime(1_000));
        source.fail("second".to_owned(), EventTime(9_000));
        assert_eq!(source.error.as_ref().unwrap().message, "second");
        let state = TopologyState {
            error: source.error,
            ..TopologyState::new(source.topology)
        };
        assert_eq!(state.age(EventTime(11_000)), Micros(10_000));
    }
}
