//! Attribution: each phase is evidence about its own subject. Turns a closed round of observations into cells.
//!
//! | phase | subject |
//! |---|---|
//! | resolve | the name |
//! | connect | the front, once per client and round for all its hosts; `direct`: the endpoint |
//! | TLS, request, first byte | the front (or endpoint) if nine in ten probes through it failed before the first byte; else the target |
//! | certificate | the front (or endpoint) if the same holds for more than one host; else the target |
//! | body, check | the target |
//!
//! The third row separates a fault of the front that shows after the handshake (a missing PROXY header) from one host
//! whose application hangs or whose certificate is wrong: a front affects all of its hosts alike. A certificate
//! therefore belongs to its host, also if that is the only one; server names are not a subject of their own in this version.
//!
//! A phase that was not reached is not observed.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{Channel, EventTime, FailureKind, KindClass, Phase};

use super::{
    block::{CellBlock, EvidenceKind},
    cells::{Destination, OpenCells},
    ledger::{Ledger, OutcomeSplit},
    routes::Routes,
    row::{Failure, ProbeEnd, Row},
};
use crate::ids::{NameRegistry, ServiceIx, TargetIx};

/// The Service that selects the endpoints of a host, and their port.
type HostEntry = (ServiceIx, u16);

/// When each object was last restarted.
pub(crate) type RestartTimes = BTreeMap<EvidenceKind, EventTime>;

/// A probe past name resolution, before a missing first byte is attributed.
#[derive(Debug, Clone, Copy)]
struct ResolvedProbe {
    kind: EvidenceKind,
    dest: Destination,
    channel: Channel,
    target: TargetIx,
    stage: ProbeStage,
}

#[derive(Debug, Clone, Copy)]
enum ProbeStage {
    /// Failed while connecting.
    Connecting(Failure),
    /// Connected, and failed before the first byte.
    NoFirstByte(Failure),
    /// Got a wrong response.
    WrongResponse(Failure),
    /// Succeeded.
    Succeeded,
}

impl ProbeStage {
    const fn failure(self) -> Option<Failure> {
        match self {
            Self::Connecting(failure) | Self::NoFirstByte(failure) | Self::WrongResponse(failure) => {
                Some(failure)
            }
            Self::Succeeded => None,
        }
    }
}

/// Folds rows of a round into cells; rows of one client must be adjacent. Rows that started before their block was
/// restarted are left out. `worked` are the blocks in which any probe ever succeeded.
pub(crate) fn attribute_rows<'r>(
    rows: impl Iterator<Item = &'r Row>,
    routes: &Routes,
    world: &mut NameRegistry,
    split: OutcomeSplit,
    restarted: &RestartTimes,
    worked: &BTreeSet<CellBlock>,
    into: &mut BTreeMap<CellBlock, OpenCells>,
) {
    let mut attribution = ClientAttribution::default();
    let mut rows = rows.peekable();
    while let Some(row) = rows.next() {
        attribution.add_row(row, routes, world, split, restarted);
        if rows.peek().is_none_or(|next| next.client != row.client) {
            attribution.settle(world, routes, worked);
            attribution.ledger.flush(row.client, split, into);
        }
    }
}

/// State of one client's round.
#[derive(Debug, Default)]
struct ClientAttribution {
    ledger: Ledger,
    reached: Vec<ResolvedProbe>,
    /// Entry and origin of the hosts whose lookups were not answered.
    unresolved_hosts: BTreeSet<(HostEntry, ServiceIx)>,
}

impl ClientAttribution {
    fn add_row(
        &mut self,
        row: &Row,
        routes: &Routes,
        world: &mut NameRegistry,
        split: OutcomeSplit,
        restarted: &RestartTimes,
    ) {
        if row.outcome == ProbeEnd::NotAsked {
            return;
        }
        let failure = row.failure();
        let kind = failure.map(|(_, failure)| failure);
        match row.channel {
            Channel::Mesh => {
                let Some(peer) = row.peer else { return };
                // The plan of a client is older than the peer's Pod, as during an upgrade.
                if row.entry.is_some_and(|pod| routes.is_former_prober(peer, pod)) {
                    return;
                }
                self.ledger
                    .record(EvidenceKind::Mesh, Channel::Mesh, Destination::Peer(peer), kind);
            }
            Channel::Dns if split == OutcomeSplit::PerPhase => {
                self.attribute_lookup(row, kind, routes, world);
            }
            Channel::Dns => {
                let name = name_of(row, routes, world);
                self.ledger.record(EvidenceKind::Dns, Channel::Dns, name, kind);
            }
            Channel::Vip | Channel::Proxied | Channel::NodePort | Channel::Direct => {
                let stuck =
                    failure.filter(|(phase, _)| *phase == Phase::Resolve && split == OutcomeSplit::PerPhase);
                if row.has_lookup || stuck.is_some() {
                    self.attribute_lookup(row, stuck.map(|(_, failure)| failure), routes, world);
                }
                if stuck.is_none() {
                    self.attribute_connection(row, routes, world, split, restarted);
                } else {
                    self.record_unresolved(row, kind, routes, world);
                }
            }
        }
    }

    /// Records the outcome of a lookup on the name, unless a negative answer is expected or may come from a cache.
    fn attribute_lookup(
        &mut self,
        row: &Row,
        failure: Option<Failure>,
        routes: &Routes,
        world: &mut NameRegistry,
    ) {
        let name = name_of(row, routes, world);
        let absent = is_absent(failure, world);
        if absent && name.name().is_some_and(|name| routes.may_be_cached(name, row.at)) {
            return;
        }
        if absent && row.channel != Channel::Dns && routes.has_no_endpoints(row.target) {
            // The fault is a missing endpoint.
            let block = CellBlock::failures(EvidenceKind::Target(row.target));
            self.ledger.record_in_group(
                block,
                Channel::Vip,
                Destination::Unknown,
                failure,
                Some(Destination::Unknown),
            );
            return;
        }
        self.ledger.record(EvidenceKind::Dns, Channel::Dns, name, failure);
    }

    /// Records a host that could not be asked because its lookup was not answered. A name that does not exist is no such host: it
    /// may be missing for good.
    fn record_unresolved(
        &mut self,
        row: &Row,
        failure: Option<Failure>,
        routes: &Routes,
        world: &NameRegistry,
    ) {
        if is_absent(failure, world) {
            return;
        }
        let host = routes.entry(row.target).zip(routes.origin(row.target));
        self.unresolved_hosts.extend(host);
    }

    fn attribute_connection(
        &mut self,
        row: &Row,
        routes: &Routes,
        world: &NameRegistry,
        split: OutcomeSplit,
        restarted: &RestartTimes,
    ) {
        let fresh = |of| restarted.get(&of).is_none_or(|at| row.at >= *at);
        let Some((of, dest)) = row.connection_evidence(routes) else {
            return;
        };
        // Front, endpoints and answers of one target restart together.
        if !fresh(of) || !fresh(EvidenceKind::Target(row.target)) {
            return;
        }
        if split == OutcomeSplit::PerChannel {
            let failure = row.failure().map(|(_, failure)| failure);
            self.ledger.record(of, row.channel, dest, failure);
            return;
        }
        self.reached.push(ResolvedProbe {
            kind: of,
            dest,
            // The name of a headless Service leads straight to an endpoint.
            channel: if matches!(of, EvidenceKind::Direct(..)) {
                Channel::Direct
            } else {
                row.channel
            },
            target: row.target,
            stage: stage_of(row, world),
        });
    }

    /// Drops refusals of PROXY headers by fronts that work without one. A PROXY header is tried if probes without one fail;
    /// if any of them succeeds, or fails after the server has parsed what it received, the refusal is our own doing, not a
    /// failure of the front.
    fn drop_refused_headers(&mut self, world: &NameRegistry) {
        let (mut failing, mut parsing) = (BTreeSet::new(), BTreeSet::new());
        for probe in self.reached.iter().filter(|probe| probe.channel == Channel::Vip) {
            let is_parsed = probe
                .stage
                .failure()
                .is_none_or(|(kind, status)| world.kinds.name(kind).proves_header_accepted(status));
            let fronts = if is_parsed { &mut parsing } else { &mut failing };
            fronts.insert(probe.kind);
        }
        self.reached.retain(|probe| {
            let refused = probe.channel == Channel::Proxied && probe.stage.failure().is_some();
            !refused || failing.contains(&probe.kind) && !parsing.contains(&probe.kind)
        });
    }

    /// Attributes missing first bytes, and records every probe on its subjects.
    fn settle(&mut self, world: &NameRegistry, routes: &Routes, worked: &BTreeSet<CellBlock>) {
        self.drop_refused_headers(world);
        self.reached.sort_by_key(|probe| probe.kind);
        let fronts = || self.reached.chunk_by(|a, b| a.kind == b.kind);
        // Silent fronts, whichever address of their Service was used.
        let silenced: BTreeSet<EvidenceKind> = fronts()
            .filter(|probes| mostly_silent(probes.iter()))
            .filter_map(|probes| match probes[0].kind {
                EvidenceKind::Vip(front) => routes.endpoints_behind(&front),
                _ => None,
            })
            .collect();
        for probes in fronts() {
            let of = probes[0].kind;
            let direct = matches!(of, EvidenceKind::Direct(..));
            // An endpoint is compared with itself only, because another endpoint's silence is not evidence about it.
            // A response with a PROXY header or through another port does not make a front less silent.
            let silent_throughout = |probe: &ResolvedProbe| {
                let compared =
                    |p: &&ResolvedProbe| p.channel == probe.channel && (!direct || p.dest == probe.dest);
                let origin = routes.origin(probe.target);
                let is_shared = || {
                    let mut compared = probes.iter().filter(compared);
                    compared.all(|other| routes.origin(other.target) == origin)
                };
                // Hosts of one origin say nothing about an endpoint that forwards their requests to it, nor about a front if
                // those of other origins were asked for and not resolved.
                let entry = routes.entry(probe.target);
                let others_unresolved = || {
                    let mut hosts = self.unresolved_hosts.iter();
                    hosts.any(|(of, other)| Some(*of) == entry && Some(*other) != origin)
                };
                let is_about_origin = origin.is_some() && (direct || others_unresolved()) && is_shared();
                let is_only_host = || {
                    let mut compared = probes.iter().filter(compared);
                    compared.all(|other| other.target == probe.target)
                };
                let is_about_host = presents_certificate(probe, world) && is_only_host();
                !is_about_origin && !is_about_host && mostly_silent(probes.iter().filter(compared))
            };
            // If the front also leads users to other endpoints, a silent endpoint shows as failing answers. Endpoints
            // that never answered directly show nothing of what users see (they may require a PROXY header).
            let shows = direct && !silenced.contains(&of) && worked.contains(&CellBlock::failures(of));
            let refusal = if direct { None } else { refusal_of(probes, world) };
            for probe in probes {
                let (front, target) = match probe.stage {
                    ProbeStage::Connecting((kind, _))
                        if *world.kinds.name(kind) == FailureKind::ConnectTimeout =>
                    {
                        (refusal.or(probe.stage.failure()), None)
                    }
                    ProbeStage::Connecting(failure) => (Some(failure), None),
                    ProbeStage::NoFirstByte(failure) if silent_throughout(probe) => {
                        (Some(failure), shows.then_some(Some(failure)))
                    }
                    ProbeStage::NoFirstByte(failure) | ProbeStage::WrongResponse(failure) => {
                        (None, Some(Some(failure)))
                    }
                    ProbeStage::Succeeded => (None, Some(None)),
                };
                let group = direct.then_some(probe.dest);
                let (channel, dest) = (probe.channel, probe.dest);
                self.ledger
                    .record_in_group(CellBlock::failures(of), channel, dest, front, group);
                if let Some(failure) = target {
                    let block = CellBlock::failures(EvidenceKind::Target(probe.target));
                    self.ledger
                        .record_in_group(block, channel, dest, failure, Some(dest));
                }
            }
        }
        self.reached.clear();
        self.unresolved_hosts.clear();
    }
}

/// Reports whether a lookup was answered: the name does not exist.
fn is_absent(failure: Option<Failure>, world: &NameRegistry) -> bool {
    failure.is_some_and(|(kind, _)| world.class_of(kind, None) == KindClass::NxDomain)
}

/// Returns how far a probe got that was past name resolution.
fn stage_of(row: &Row, world: &NameRegistry) -> ProbeStage {
    match row.failure() {
        None => ProbeStage::Succeeded,
        // The front is the proxy's address. It answered, so the failure is one of the target behind it.
        Some((_, failure)) if world.kinds.name(failure.0).is_refusal_of_proxy() => {
            ProbeStage::WrongResponse(failure)
        }
        Some((Phase::Resolve | Phase::Connect | Phase::ProxyHeader, failure)) => {
            ProbeStage::Connecting(failure)
        }
        Some((Phase::Tls, failure)) => ProbeStage::NoFirstByte(failure),
        Some((Phase::Request | Phase::FirstByte, failure)) => {
            if matches!(
                world.kinds.name(failure.0),
                FailureKind::Eof | FailureKind::Reset | FailureKind::FirstByteTimeout
            ) {
                ProbeStage::NoFirstByte(failure)
            } else {
                ProbeStage::WrongResponse(failure)
            }
        }
        Some((Phase::Body | Phase::Check, failure)) => ProbeStage::WrongResponse(failure),
    }
}

/// Reports whether a probe got a certificate, though a wrong one.
fn presents_certificate(probe: &ResolvedProbe, world: &NameRegistry) -> bool {
    let failure = probe.stage.failure();
    failure.is_some_and(|(kind, _)| world.kinds.name(kind).is_wrong_certificate())
}

/// Reports whether at least nine in ten probes were silent: few faults affect every probe.
fn mostly_silent<'p>(probes: impl Iterator<Item = &'p ResolvedProbe>) -> bool {
    let (mut silent, mut all) = (0, 0);
    for probe in probes {
        silent += usize::from(matches!(
            probe.stage,
            ProbeStage::Connecting(_) | ProbeStage::NoFirstByte(_)
        ));
        all += 1;
    }
    silent * 10 >= all * 9
}

/// Returns a refusal among a client's attempts at one front, if any was refused.
///
/// The kernel limits how many ICMP errors it sends to one address (`net.ipv4.icmp_ratelimit`, about one a second
/// after a burst of six): if fifty hosts share a front, a few attempts get "port unreachable" and the others get no
/// response. One refusal explains the timeouts of the others.
fn refusal_of(probes: &[ResolvedProbe], world: &NameRegistry) -> Option<Failure> {
    probes.iter().find_map(|probe| match probe.stage {
        ProbeStage::Connecting(failure) if *world.kinds.name(failure.0) == FailureKind::Refused => {
            Some(failure)
        }
        _ => None,
    })
}

/// Returns the name that a probe resolved, or else the target's id as a name.
pub(crate) fn name_of(row: &Row, routes: &Routes, world: &mut NameRegistry) -> Destination {
    let name = row.name(routes).unwrap_or_else(|| {
        let target = world.targets.name(row.target).to_string();
        world.names.intern(&target)
    });
    row.resolver_destination(name, routes)
}
