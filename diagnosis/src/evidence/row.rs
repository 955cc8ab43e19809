//! Rows: observations with ids for names, reduced to what cells need.
//!
//! A mesh of five thousand nodes sends a hundred thousand observations per round; each becomes a row on arrival.
//! Names that are new are interned when their round closes, in the order of its fold, so ids do not depend on the
//! order of arrival. Rules that depend on the topology are also applied at the close, with the topology of that time.

use parallax_model::{
    AssignmentId, Channel, DnsAnswer, EventTime, FailureKind, Front, Micros, NodeName, Observation, Outcome,
    Phase, PodName, Recorded,
};

use super::{cells::Destination, routes::Routes};
use crate::ids::{KindIx, NameIx, NameRegistry, NodeIx, PodIx, TargetIx, VantageIx};

/// A failure kind and the status that came with it.
pub(crate) type Failure = (KindIx, Option<u16>);

/// How a probe ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeEnd {
    /// Success.
    Ok,
    /// Failure in a phase.
    Failed(Phase, Failure),
    /// Not made, because of a fault of the prober itself.
    NotAsked,
}

/// One observation.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) at: EventTime,
    pub(crate) client: VantageIx,
    pub(crate) target: TargetIx,
    pub(crate) channel: Channel,
    /// The front it connected to, if reported.
    pub(crate) front: Option<Front>,
    /// The endpoint it was made for.
    pub(crate) entry: Option<PodIx>,
    /// The endpoint that answered.
    pub(crate) responder: Option<PodIx>,
    /// The node it was made for, or that answered.
    pub(crate) peer: Option<NodeIx>,
    /// The name it resolved, if the target does not define one.
    pub(crate) name: Option<NameIx>,
    /// Whether it resolved a name.
    pub(crate) has_lookup: bool,
    pub(crate) outcome: ProbeEnd,
    pub(crate) times: PhaseDurations,
    /// Whether it belongs to an assignment.
    pub(crate) has_assignment: bool,
    /// The DNS answer.
    pub(crate) dns: Option<Box<DnsAnswer>>,
    /// The whole observation, if more than its cells is needed.
    pub(crate) full_observation: Option<Box<Recorded>>,
}

/// Durations of the judged phases.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PhaseDurations {
    pub(crate) resolve: Option<Micros>,
    pub(crate) connect: Option<Micros>,
    pub(crate) first_byte: Option<Micros>,
    pub(crate) total: Option<Micros>,
    pub(crate) late: Option<Micros>,
}

/// Source of ids.
trait IdSource {
    fn target(&mut self, recorded: &Recorded) -> Option<TargetIx>;
    fn node(&mut self, node: &NodeName) -> Option<NodeIx>;
    fn pod(&mut self, pod: &PodName) -> Option<PodIx>;
    fn name(&mut self, name: &str) -> Option<NameIx>;
    fn kind(&mut self, kind: &FailureKind) -> Option<KindIx>;
}

/// Ids of interned names only.
struct KnownIds<'a>(&'a NameRegistry);

/// Ids of interned names, and new ones for others.
struct NewIds<'a>(&'a mut NameRegistry);

impl IdSource for KnownIds<'_> {
    fn target(&mut self, recorded: &Recorded) -> Option<TargetIx> {
        self.0.targets.get(&recorded.observation.target)
    }
    fn node(&mut self, node: &NodeName) -> Option<NodeIx> {
        self.0.nodes.get(node)
    }
    fn pod(&mut self, pod: &PodName) -> Option<PodIx> {
        self.0.pods.get(pod)
    }
    fn name(&mut self, name: &str) -> Option<NameIx> {
        self.0.names.get(name)
    }
    fn kind(&mut self, kind: &FailureKind) -> Option<KindIx> {
        self.0.kinds.get(kind)
    }
}

impl IdSource for NewIds<'_> {
    fn target(&mut self, recorded: &Recorded) -> Option<TargetIx> {
        Some(self.0.targets.intern(&recorded.observation.target))
    }
    fn node(&mut self, node: &NodeName) -> Option<NodeIx> {
        Some(self.0.nodes.intern(node))
    }
    fn pod(&mut self, pod: &PodName) -> Option<PodIx> {
        Some(self.0.pods.intern(pod))
    }
    fn name(&mut self, name: &str) -> Option<NameIx> {
        Some(self.0.names.intern(name))
    }
    fn kind(&mut self, kind: &FailureKind) -> Option<KindIx> {
        Some(self.0.kinds.intern(kind))
    }
}

impl Row {
    /// Returns the row of an observation, or `None` if one of its names is not interned yet.
    pub(crate) fn of(
        recorded: &Recorded,
        client: VantageIx,
        world: &NameRegistry,
        routes: &Routes,
    ) -> Option<Self> {
        build_row(recorded, client, &mut KnownIds(world), routes)
    }

    /// Returns the row of an observation and interns its names.
    pub(crate) fn interned(
        recorded: &Recorded,
        client: VantageIx,
        world: &mut NameRegistry,
        routes: &Routes,
    ) -> Option<Self> {
        build_row(recorded, client, &mut NewIds(world), routes)
    }

    /// Returns the failure and its phase.
    pub(crate) const fn failure(&self) -> Option<(Phase, Failure)> {
        match self.outcome {
            ProbeEnd::Failed(phase, failure) => Some((phase, failure)),
            ProbeEnd::Ok | ProbeEnd::NotAsked => None,
        }
    }

    /// Returns the assignment it fulfils, if it is a follow-up probe.
    pub(crate) fn requested(&self) -> Option<&AssignmentId> {
        let assignment = self.full_observation.as_ref()?.observation.assignment.as_ref();
        assignment.filter(|id| id.is_requested())
    }

    /// Returns the endpoint at the other end, as planned or observed.
    pub(crate) fn endpoint(&self) -> Option<Destination> {
        self.entry.or(self.responder).map(Destination::Entry)
    }

    /// Returns the front it went to: as reported, or else as the topology gives it for the target.
    pub(crate) fn front(&self, routes: &Routes) -> Option<Front> {
        self.front.or_else(|| routes.of(self.target).front)
    }

    /// Returns the name it resolved, if known.
    pub(crate) fn name(&self, routes: &Routes) -> Option<NameIx> {
        routes.of(self.target).name.or(self.name)
    }

    /// Returns the destination of its questions for a name.
    pub(crate) fn resolver_destination(&self, name: NameIx, routes: &Routes) -> Destination {
        let is_single = || self.requested().is_some() || !routes.of(self.target).searches;
        if self.channel == Channel::Dns && is_single() {
            Destination::Name(name)
        } else {
            Destination::Lookup(name)
        }
    }

    /// Returns its planned destination, as known before the probe was made.
    pub(crate) fn planned_destination(&self, routes: &Routes) -> Option<Destination> {
        match self.channel {
            Channel::Mesh => self.peer.map(Destination::Peer),
            Channel::Dns => {
                let name = self.name(routes)?;
                Some(self.resolver_destination(name, routes))
            }
            Channel::Direct => self.entry.map(Destination::Entry),
            Channel::Vip | Channel::Proxied | Channel::NodePort => Some(Destination::Unknown),
        }
    }
}

fn build_row(
    recorded: &Recorded,
    client: VantageIx,
    numbers: &mut impl IdSource,
    routes: &Routes,
) -> Option<Row> {
    let observation = &recorded.observation;
    let echo = observation.echo.as_ref();
    let target = numbers.target(recorded)?;
    let end = match &observation.outcome {
        Outcome::Ok { .. } => ProbeEnd::Ok,
        Outcome::NotProbed { .. } => ProbeEnd::NotAsked,
        Outcome::Failed { phase, kind, status } => ProbeEnd::Failed(*phase, (numbers.kind(kind)?, *status)),
    };
    let peer = match (&observation.dst_node, echo) {
        (Some(node), _) => Some(numbers.node(node)?),
        (None, Some(echo)) => Some(numbers.node(&echo.node)?),
        (None, None) => match named_peer(observation) {
            Some(node) => Some(numbers.node(&node)?),
            None => None,
        },
    };
    let mut pod = |pod: Option<&PodName>| match pod {
        Some(pod) => numbers.pod(pod).map(Some),
        None => Some(None),
    };
    let entry = pod(observation.entry.as_ref())?;
    let answered = pod(echo.map(|echo| &echo.pod))?;
    let times = &observation.times;
    let resolved = observation.dns.is_some() || times.resolve.is_some();
    let asks =
        resolved || observation.channel == Channel::Dns || matches!(end, ProbeEnd::Failed(Phase::Resolve, _));
    let name = if !asks || routes.of(target).name.is_some() {
        None
    } else {
        let name = observation.dns.as_ref().map(|answer| answer.name.as_str());
        Some(numbers.name(name.unwrap_or(observation.target.as_str()))?)
    };
    Some(Row {
        at: observation.started,
        client,
        target,
        channel: observation.channel,
        front: observation.front,
        entry,
        responder: answered,
        peer,
        name,
        has_lookup: resolved,
        outcome: end,
        times: PhaseDurations {
            resolve: times.resolve,
            connect: times.connect,
            first_byte: times.first_byte,
            total: times.total,
            late: times.delay,
        },
        has_assignment: observation.assignment.is_some(),
        dns: observation.dns.clone().map(Box::new),
        full_observation: needs_full_observation(observation, routes.of(target).must_not_answer.is_some())
            .then(|| Box::new(recorded.clone())),
    })
}

/// Reports whether more than the cells of an observation is needed: results of follow-up probes, and fingerprints of the
/// server.
fn needs_full_observation(observation: &Observation, apart: bool) -> bool {
    apart
        || observation.fingerprint.is_some()
        || observation
            .assignment
            .as_ref()
            .is_some_and(AssignmentId::is_requested)
}

/// Returns the node named by the target of a mesh probe.
fn named_peer(observation: &Observation) -> Option<NodeName> {
    (observation.channel == Channel::Mesh)
        .then(|| observation.target.as_str().strip_prefix("echo://")?.parse().ok())
        .flatten()
}
