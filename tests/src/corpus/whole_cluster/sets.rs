//! The named sets of whole-cluster trials, as data.

use super::fault::FaultKind;

/// How often a fault strikes the hops of its region.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Severity {
    /// Nearly always; loss between nodes in two of five cases, because more than that also cuts nearly all reports.
    Hard,
    /// Uniform between two rates.
    Between(f64, f64),
}

/// When faults are active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// Once, for so many seconds.
    Once(i64),
    /// Ten times, alternately 20 s on and 40 s off or, in every second trial, 40 s on and 20 s off.
    Flapping,
}

/// Which parts of a cluster are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victims {
    /// Any.
    Any,
    /// A node that hosts a resolver or an entry, or one of these Pods.
    Hosts,
}

/// One named set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WholeSet {
    /// Its name.
    pub name: &'static str,
    /// Its description.
    pub description: &'static str,
    /// Trials in a full report.
    pub trials: usize,
    /// Number of nodes.
    pub nodes: usize,
    /// Kinds of faults, used in turn; combined at random if a trial has several.
    pub kinds: &'static [FaultKind],
    /// Number of faults.
    pub faults: usize,
    /// Severity.
    pub severity: Severity,
    /// Timing.
    pub timing: Timing,
    /// Victims.
    pub victims: Victims,
    /// Probability that a probe fails without any fault.
    pub background: f64,
    /// Names that a lookup tries: that of the host, and before it one for each domain of the search list.
    pub names: usize,
}

/// Kinds that can be combined without hiding each other entirely.
const COMBINED: &[FaultKind] = &[
    FaultKind::Node,
    FaultKind::Client,
    FaultKind::Pair,
    FaultKind::Zones,
    FaultKind::Pod,
    FaultKind::App,
    FaultKind::Resolver,
    FaultKind::StaleProxy,
];

const BASE: WholeSet = WholeSet {
    name: "",
    description: "",
    trials: 120,
    nodes: 12,
    kinds: FaultKind::ALL,
    faults: 1,
    severity: Severity::Hard,
    timing: Timing::Once(120),
    victims: Victims::Any,
    background: 0.001,
    names: 1,
};

/// All sets, in the order of a report.
pub const WHOLE_SETS: &[WholeSet] = &[
    WholeSet {
        name: "hops-12",
        description: "12 nodes, one hard fault of each kind in turn, for two minutes",
        ..BASE
    },
    WholeSet {
        name: "hops-30",
        description: "the same with 30 nodes",
        nodes: 30,
        ..BASE
    },
    WholeSet {
        name: "two-faults-whole",
        description: "two hard faults of different kinds at once",
        kinds: COMBINED,
        faults: 2,
        ..BASE
    },
    WholeSet {
        name: "three-faults-12",
        description: "three hard faults of different kinds at once",
        kinds: COMBINED,
        faults: 3,
        ..BASE
    },
    WholeSet {
        name: "flapping",
        description: "a hard fault ten times, 20 s of 60 s or 40 s of 60 s",
        kinds: &[
            FaultKind::App,
            FaultKind::Pod,
            FaultKind::Node,
            FaultKind::Pair,
            FaultKind::Front,
            FaultKind::StaleProxy,
        ],
        timing: Timing::Flapping,
        ..BASE
    },
    WholeSet {
        name: "soft-long",
        description: "a fault that strikes 2 to 30 % of its hops, for six minutes",
        severity: Severity::Between(0.02, 0.3),
        timing: Timing::Once(360),
        ..BASE
    },
    WholeSet {
        name: "partition",
        description: "two zones cut from each other, or two nodes",
        kinds: &[FaultKind::Zones, FaultKind::Pair],
        ..BASE
    },
    WholeSet {
        name: "shadow",
        description: "a dead node or a broken Pod that hosts a resolver or an entry",
        kinds: &[FaultKind::Node, FaultKind::Pod, FaultKind::Resolver],
        victims: Victims::Hosts,
        ..BASE
    },
    WholeSet {
        name: "search-list",
        description: "the same, where a lookup tries three domains before the name of the host",
        kinds: &[FaultKind::Node, FaultKind::Pod, FaultKind::Resolver],
        victims: Victims::Hosts,
        names: 4,
        ..BASE
    },
    WholeSet {
        name: "healthy-whole",
        description: "no fault, for eight minutes",
        kinds: &[],
        faults: 0,
        timing: Timing::Once(240),
        ..BASE
    },
];

impl WholeSet {
    /// Returns the set with a name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        WHOLE_SETS.iter().find(|set| set.name == name)
    }
}
