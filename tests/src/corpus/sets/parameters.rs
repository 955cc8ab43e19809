//! What a set of trials chooses from.

/// How endpoints are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointLayout {
    /// On as many different nodes as there are.
    Spread,
    /// On random nodes; several may share one.
    Random,
    /// All on one node.
    OneNode,
}

/// Which channels run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelDraw {
    /// dns, vip, direct and mesh.
    All,
    /// Like a simple monitor.
    VipOnly,
    /// Each of dns, direct and mesh is missing in every fifth trial.
    Drawn,
}

/// Severity of a fault: the share of probes in its region that fail.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FaultSeverity {
    /// Always this.
    Fixed(f64),
    /// Uniform between the two.
    Uniform(f64, f64),
}

/// Number of faults of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FaultCount {
    /// This many.
    Exactly(usize),
    /// None, one or two, with these weights.
    Weighted([f64; 3]),
}

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputForm {
    /// The recorded stream of one target.
    Stream,
    /// The product's own recording format: many fronts and hosts, vantages outside.
    Mesh {
        /// Fronts.
        fronts: usize,
        /// Hosts of each front.
        hosts: usize,
        /// Vantages outside the cluster.
        outside: usize,
        /// Whether the front's endpoints are the probers themselves.
        echo: bool,
    },
}

/// Movement of endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointChurn {
    /// Never.
    Never,
    /// An endpoint moves; a fault, if the trial has one, starts with the move.
    Moves,
}
