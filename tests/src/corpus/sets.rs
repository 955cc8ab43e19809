//! The named sets of trials, as data: what is drawn, from which ranges, and how often.

mod parameters;

pub use self::parameters::{
    ChannelDraw, EndpointChurn, EndpointLayout, FaultCount, FaultSeverity, OutputForm,
};
use super::region::RegionShape;

/// One named set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialSet {
    /// Its name.
    pub name: &'static str,
    /// Its description.
    pub description: &'static str,
    /// Trials in a full report.
    pub trials: usize,
    /// Number of nodes, from and to.
    pub nodes: (usize, usize),
    /// Number of endpoints of each front, from and to.
    pub backends: (usize, usize),
    /// Layouts to draw from.
    pub layouts: &'static [EndpointLayout],
    /// Channels.
    pub channels: ChannelDraw,
    /// Probability that responses identify their endpoint.
    pub identifies: f64,
    /// Probability that a node has no prober.
    pub missing_probers: f64,
    /// Severity of a fault.
    pub theta1: FaultSeverity,
    /// Background failure probabilities to draw from.
    pub theta0: &'static [f64],
    /// Probabilities of a stalled client-round to draw from; a stalled probe fails with probability .7.
    pub stalls: &'static [f64],
    /// Rounds before a fault, from and to.
    pub lead_in: (usize, usize),
    /// Rounds with the fault (all rounds of a healthy trial).
    pub rounds: usize,
    /// Probability that the fault ends, and the number of rounds afterwards.
    pub recovery: (f64, usize),
    /// Number of faults.
    pub faults: FaultCount,
    /// Causes, used in turn.
    pub kinds: &'static [RegionShape],
    /// Probability that the configuration contradicts the fault.
    pub contradiction: f64,
    /// Movement of endpoints.
    pub churn: EndpointChurn,
    /// Output format.
    pub form: OutputForm,
    /// Whether requested probes are made, in a closed loop with the engine. Only for streams.
    pub closed_loop: bool,
}

/// The causes of the simulations that the design is based on.
pub const CLASSIC: &[RegionShape] = &[
    RegionShape::Target,
    RegionShape::Vip,
    RegionShape::Backend,
    RegionShape::Bnode,
    RegionShape::Client,
    RegionShape::ClientVip,
    RegionShape::Pair,
    RegionShape::NoLocal,
    RegionShape::Cross,
    RegionShape::Same,
    RegionShape::SameVip,
];

/// Everything that the stream of one target can express. `self` needs the prober's own Service: set `self-echo`.
pub const ALL: &[RegionShape] = &[
    RegionShape::Target,
    RegionShape::Vip,
    RegionShape::Backend,
    RegionShape::Bnode,
    RegionShape::BnodeRemote,
    RegionShape::Client,
    RegionShape::ClientVip,
    RegionShape::Pair,
    RegionShape::NoLocal,
    RegionShape::Cross,
    RegionShape::Same,
    RegionShape::SameVip,
    RegionShape::Zone,
    RegionShape::ProtoVip,
    RegionShape::DnsClient,
    RegionShape::DnsAll,
    RegionShape::DnsName,
];

/// Causes that affect a balancer with many hosts.
const FRONT: &[RegionShape] = &[
    RegionShape::Vip,
    RegionShape::NoLocal,
    RegionShape::Backend,
    RegionShape::ClientVip,
    RegionShape::SameVip,
    RegionShape::Target,
];

const BASE: TrialSet = TrialSet {
    name: "",
    description: "",
    trials: 330,
    nodes: (12, 12),
    backends: (3, 3),
    layouts: &[EndpointLayout::Random],
    channels: ChannelDraw::All,
    identifies: 1.0,
    missing_probers: 0.0,
    theta1: FaultSeverity::Fixed(0.98),
    theta0: &[0.002],
    stalls: &[0.0],
    lead_in: (0, 3),
    rounds: 6,
    recovery: (0.0, 0),
    faults: FaultCount::Exactly(1),
    kinds: CLASSIC,
    contradiction: 0.0,
    churn: EndpointChurn::Never,
    form: OutputForm::Stream,
    closed_loop: false,
};

/// All sets of the report, in its order.
pub const SETS: &[TrialSet] = &[
    TrialSet {
        name: "hard-12",
        description: "12 nodes, 3 endpoints, nearly every probe of the region fails, 6 rounds",
        ..BASE
    },
    TrialSet {
        name: "soft-12",
        description: "the same with 30 % loss, 24 rounds",
        theta1: FaultSeverity::Fixed(0.3),
        rounds: 24,
        ..BASE
    },
    TrialSet {
        name: "wide-30",
        description: "30 nodes, 4 endpoints, hard, 6 rounds",
        trials: 220,
        nodes: (30, 30),
        backends: (4, 4),
        ..BASE
    },
    TrialSet {
        name: "vip-only",
        description: "as hard-12, but only the virtual address is probed: most causes cannot be told apart",
        channels: ChannelDraw::VipOnly,
        ..BASE
    },
    TrialSet {
        name: "recovery-12",
        description: "as hard-12, the fault ends after 8 rounds and 40 good rounds follow",
        trials: 110,
        rounds: 8,
        recovery: (1.0, 40),
        ..BASE
    },
    TrialSet {
        name: "healthy-quiet",
        description: "nothing is wrong, background failures .02 % to .2 %, 48 rounds",
        trials: 200,
        theta0: &[0.0002, 0.0005, 0.002],
        rounds: 48,
        faults: FaultCount::Exactly(0),
        ..BASE
    },
    TrialSet {
        name: "healthy-noisy",
        description: "nothing is wrong, background failures 1 % and 3 %, 48 rounds",
        trials: 200,
        theta0: &[0.01, 0.03],
        rounds: 48,
        faults: FaultCount::Exactly(0),
        ..BASE
    },
    TrialSet {
        name: "healthy-stalls",
        description: "nothing is wrong, 2 % of client-rounds stall, 48 rounds",
        trials: 200,
        stalls: &[0.02],
        rounds: 48,
        faults: FaultCount::Exactly(0),
        ..BASE
    },
    TrialSet {
        name: "two-faults-12",
        description: "two hard faults at once, neither inside the other, 24 rounds",
        trials: 150,
        rounds: 24,
        faults: FaultCount::Exactly(2),
        ..BASE
    },
    TrialSet {
        name: "wide-30-ask",
        description: "as wide-30, with the probes that the engine requests made in the next round",
        trials: 220,
        nodes: (30, 30),
        backends: (4, 4),
        closed_loop: true,
        ..BASE
    },
    TrialSet {
        name: "two-faults-12-ask",
        description: "as two-faults-12, with the probes that the engine requests made in the next round",
        trials: 150,
        rounds: 24,
        faults: FaultCount::Exactly(2),
        closed_loop: true,
        ..BASE
    },
    TrialSet {
        name: "soft-12-ask",
        description: "as soft-12, with the probes that the engine requests made in the next round",
        theta1: FaultSeverity::Fixed(0.3),
        rounds: 24,
        closed_loop: true,
        ..BASE
    },
    TrialSet {
        name: "dns",
        description: "name faults, with the control name queried every second round, 12 rounds",
        trials: 120,
        nodes: (5, 12),
        rounds: 12,
        kinds: &[RegionShape::DnsClient, RegionShape::DnsAll, RegionShape::DnsName],
        ..BASE
    },
    TrialSet {
        name: "mixed",
        description: "everything drawn: 3 to 40 nodes, 1 to 12 endpoints, channels and probers missing, severity .15 to 1, \
                stalls, background to 3 %, contradicting configuration, two faults, recovery",
        trials: 255,
        nodes: (3, 40),
        backends: (1, 12),
        layouts: &[
            EndpointLayout::Spread,
            EndpointLayout::Random,
            EndpointLayout::OneNode,
        ],
        channels: ChannelDraw::Drawn,
        identifies: 0.5,
        missing_probers: 0.08,
        theta1: FaultSeverity::Uniform(0.15, 1.0),
        theta0: &[0.0002, 0.001, 0.005, 0.01, 0.03],
        stalls: &[0.0, 0.0, 0.02],
        lead_in: (0, 8),
        rounds: 24,
        recovery: (0.25, 24),
        faults: FaultCount::Weighted([0.15, 0.7, 0.15]),
        kinds: ALL,
        contradiction: 0.1,
        ..BASE
    },
    TrialSet {
        name: "huge",
        description: "100 to 200 nodes, 10 to 50 endpoints, hard, 8 rounds",
        trials: 11,
        nodes: (100, 200),
        backends: (10, 50),
        rounds: 8,
        ..BASE
    },
    TrialSet {
        name: "many-hosts",
        description: "one balancer with 50 hosts, two vantages outside; records of a running mesh",
        trials: 48,
        nodes: (6, 12),
        layouts: &[EndpointLayout::Spread],
        identifies: 0.0,
        rounds: 8,
        kinds: &[
            RegionShape::Vip,
            RegionShape::NoLocal,
            RegionShape::Backend,
            RegionShape::ClientVip,
            RegionShape::SameVip,
            RegionShape::Target,
            RegionShape::OutsideAll,
            RegionShape::Client,
        ],
        form: OutputForm::Mesh {
            fronts: 1,
            hosts: 50,
            outside: 2,
            echo: false,
        },
        ..BASE
    },
    TrialSet {
        name: "many-fronts",
        description: "20 balancers with 2 hosts each: one bad node, or one bad balancer",
        trials: 40,
        layouts: &[EndpointLayout::Spread],
        backends: (2, 2),
        identifies: 0.0,
        rounds: 8,
        kinds: &[
            RegionShape::Client,
            RegionShape::Bnode,
            RegionShape::Pair,
            RegionShape::Vip,
            RegionShape::NoLocal,
        ],
        form: OutputForm::Mesh {
            fronts: 20,
            hosts: 2,
            outside: 0,
            echo: false,
        },
        ..BASE
    },
    TrialSet {
        name: "churn",
        description: "an endpoint moves to another node; in two of three trials a fault of the balancer starts with it",
        trials: 60,
        nodes: (5, 12),
        backends: (1, 3),
        layouts: &[EndpointLayout::Spread],
        identifies: 0.0,
        lead_in: (6, 12),
        rounds: 12,
        faults: FaultCount::Weighted([0.34, 0.66, 0.0]),
        kinds: FRONT,
        churn: EndpointChurn::Moves,
        form: OutputForm::Mesh {
            fronts: 2,
            hosts: 3,
            outside: 0,
            echo: false,
        },
        ..BASE
    },
    TrialSet {
        name: "self-echo",
        description: "the target is the probers' own Service: only a client that is forwarded to itself fails",
        trials: 30,
        nodes: (3, 6),
        identifies: 0.0,
        rounds: 24,
        kinds: &[RegionShape::SelfPod, RegionShape::SelfVip],
        form: OutputForm::Mesh {
            fronts: 1,
            hosts: 1,
            outside: 0,
            echo: true,
        },
        ..BASE
    },
];

impl TrialSet {
    /// Returns the set with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        SETS.iter().find(|set| set.name == name)
    }

    /// Reports whether it never has a fault.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.faults == FaultCount::Exactly(0)
    }
}
