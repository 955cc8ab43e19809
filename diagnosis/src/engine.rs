//! The one door: topology and observations in, a view out.

use std::sync::Arc;

use parallax_model::{EventTime, Micros, Placement, Recorded, Vantage};

use crate::{topology::Topology, view::View};

/// What holds for the whole mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Length of a round; not zero.
    pub interval: Micros,
    /// Longest timeout of any probe.
    pub timeout: Micros,
}

/// What became of one observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Booked {
    /// It will be judged with its round.
    Counted {
        /// Where client and entry sit.
        placement: Placement,
    },
    /// Its round was judged already; history only.
    Late,
    /// The prober's own fault; says nothing about the target.
    OwnFault,
    /// Target or vantage are not in the topology.
    Unknown,
    /// The times cannot be.
    Implausible,
}

/// Rounds, cells, verdicts and incidents of one mesh.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    topology: Arc<Topology>,
}

impl Engine {
    /// An engine that knows nothing yet.
    #[must_use]
    pub fn new(settings: Settings, topology: Arc<Topology>) -> Self {
        Self { settings, topology }
    }

    /// Endpoints, nodes or targets changed. Only the cells they touch start over.
    pub fn replace_topology(&mut self, topology: Arc<Topology>, _at: EventTime) {
        self.topology = topology;
    }

    /// Books one observation into its round.
    pub fn observe(&mut self, _recorded: &Recorded) -> Booked {
        Booked::Unknown
    }

    /// A vantage says that everything it started before `complete` has been observed: the round may close early once
    /// every speaking vantage is past its end.
    pub fn progress(&mut self, _vantage: &Vantage, _complete: EventTime) {}

    /// Closes every round that is over at `now` and judges it. Returns whether anything was judged.
    pub fn advance(&mut self, _now: EventTime) -> bool {
        false
    }

    /// What is known at `now`.
    #[must_use]
    pub fn view(&self, now: EventTime) -> View {
        View {
            at: now,
            interval: self.settings.interval,
            judged: None,
            vantages: Vec::new(),
            matrix: Vec::new(),
            incidents: Vec::new(),
            investigating: Vec::new(),
            counters: crate::view::Counters::default(),
        }
    }
}
