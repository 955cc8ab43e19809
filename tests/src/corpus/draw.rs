//! Draws one trial: the cluster, and its faults.

use super::{
    kinds::{self, FailureMix},
    region::{ProbeApproach, ProbeClient, Region, RegionShape, Scope, TruePath},
    rng::Rng,
    sets::{ChannelDraw, EndpointChurn, EndpointLayout, FaultCount, FaultSeverity, OutputForm, TrialSet},
    world::{EndpointEpoch, Pod, ProbeChannels, SimulatedCluster, StaticFacts},
};

/// A drawn fault.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawnFault {
    /// Its region.
    pub region: Region,
    /// Its scope, for regions of one front.
    pub scope: Scope,
    /// Probability that it fails a probe in the region.
    pub theta1: f64,
    /// Its first round.
    pub start: usize,
    /// The first round after it.
    pub end: Option<usize>,
    /// Its failure kinds.
    pub mix: FailureMix,
}

impl DrawnFault {
    /// Reports whether it is active in a round.
    #[must_use]
    pub fn active(&self, round: usize) -> bool {
        round >= self.start && self.end.is_none_or(|end| round < end)
    }

    /// Reports whether it breaks a path.
    #[must_use]
    pub fn breaks(&self, path: &TruePath, world: &SimulatedCluster) -> bool {
        self.region.breaks(path, self.scope, world)
    }
}

/// A trial before it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The cluster.
    pub world: SimulatedCluster,
    /// The faults.
    pub faults: Vec<DrawnFault>,
    /// Total number of rounds.
    pub rounds: usize,
    /// Background failure probability.
    pub theta0: f64,
    /// Probability of a stalled client-round.
    pub stall: f64,
}

/// Draws a trial. The causes of a set take turns, so that each gets its share of trials.
#[must_use]
pub fn plan(set: &TrialSet, trial: usize, rng: &mut Rng) -> Plan {
    let count = match set.faults {
        FaultCount::Exactly(n) => n,
        FaultCount::Weighted([none, one, two]) => rng.weighted(&[(0, none), (1, one), (2, two)]),
    };
    let wanted = set.kinds[trial % set.kinds.len()];
    let lead_in = rng.in_range(set.lead_in);
    let recovers = rng.chance(set.recovery.0);
    let rounds = lead_in + set.rounds + if recovers { set.recovery.1 } else { 0 };
    let mut world = world(set, (count > 0).then_some(wanted), lead_in, rng);
    let mut faults = Vec::new();
    let mut kind = wanted;
    // Some causes do not exist in some clusters (for example no node without an endpoint): another one takes the turn.
    for attempt in 1..=400 {
        if faults.len() == count {
            break;
        }
        let start = if set.churn == EndpointChurn::Moves {
            lead_in
        } else {
            rng.in_range((lead_in, lead_in + faults.len() * 2))
        };
        let fault = region(kind, &world, start, rng).map(|region| (region, scope(set, region, &world, rng)));
        let fault = fault.map(|(region, scope)| DrawnFault {
            region,
            scope,
            theta1: match set.theta1 {
                FaultSeverity::Fixed(theta1) => theta1,
                FaultSeverity::Uniform(low, high) => rng.range(low, high),
            },
            start,
            end: recovers.then_some(lead_in + set.rounds),
            mix: kinds::draw(kind, scope.host.is_some(), &world.facts, rng),
        });
        if let Some(fault) = fault.filter(|fault| fits(fault, &faults, &world)) {
            faults.push(fault);
            kind = *rng.pick(set.kinds);
        } else if attempt % 20 == 0 {
            kind = *rng.pick(set.kinds);
        }
    }
    // A Service whose policy keeps traffic local is a fault; without that fault it is not configured so. With it, it is:
    // the configuration is drawn for the first cause only, and no node forwards differently under policy Cluster.
    if !faults.iter().any(|fault| fault.region == Region::NoLocal) {
        world.facts.internal = "Cluster";
    } else if wanted != RegionShape::NoLocal {
        world.facts.keep_local();
    }
    Plan {
        world,
        faults,
        rounds,
        theta0: *rng.pick(set.theta0),
        stall: *rng.pick(set.stalls),
    }
}

fn world(set: &TrialSet, kind: Option<RegionShape>, lead_in: usize, rng: &mut Rng) -> SimulatedCluster {
    let nodes = rng.in_range(set.nodes);
    let zones: Vec<usize> = (0..nodes).map(|_| rng.below(SimulatedCluster::ZONES)).collect();
    let mut probers: Vec<bool> = (0..nodes).map(|_| !rng.chance(set.missing_probers)).collect();
    // At least two probers, otherwise there is no mesh and no comparison.
    probers[0] = true;
    probers[1] = true;
    let (fronts, hosts, outside, echo) = match set.form {
        OutputForm::Stream => (1, 1, 0, false),
        OutputForm::Mesh {
            fronts,
            hosts,
            outside,
            echo,
        } => (fronts, hosts, outside, echo),
    };
    let layout = *rng.pick(set.layouts);
    let mut pods = Vec::new();
    let mut endpoints = Vec::new();
    for front in 0..fronts {
        let own = if echo {
            (0..nodes).filter(|node| probers[*node]).collect()
        } else {
            place(layout, nodes, rng.in_range(set.backends), rng)
        };
        let first = pods.len();
        for (i, node) in own.into_iter().enumerate() {
            let name = match set.form {
                OutputForm::Stream => format!("shop-{i}"),
                OutputForm::Mesh { .. } if echo => format!("prober-{node}"),
                OutputForm::Mesh { .. } => format!("ingress-{front}-{i}"),
            };
            pods.push(Pod {
                name,
                node,
                front,
                prober: echo,
            });
        }
        endpoints.push((first..pods.len()).collect::<Vec<_>>());
    }
    let mut epochs = vec![EndpointEpoch { from: 0, endpoints }];
    if set.churn == EndpointChurn::Moves {
        epochs.push(moved(&epochs[0], lead_in, nodes, &mut pods, rng));
    }
    let mut names: Vec<String> = (0..fronts * hosts)
        .map(|i| match set.form {
            OutputForm::Stream => "shop.example.test".to_owned(),
            OutputForm::Mesh { .. } => format!("host-{i}.example.test"),
        })
        .collect();
    names.push("kubernetes.default.svc.cluster.local".to_owned());
    SimulatedCluster {
        zones,
        probers,
        pods,
        epochs,
        hosts,
        outside,
        names,
        channels: channels(set, kind, rng),
        identifies: rng.chance(set.identifies),
        facts: facts(set, kind, rng),
        layout: match layout {
            EndpointLayout::Spread => "spread",
            EndpointLayout::Random => "random",
            EndpointLayout::OneNode => "one-node",
        },
    }
}

fn place(layout: EndpointLayout, nodes: usize, backends: usize, rng: &mut Rng) -> Vec<usize> {
    match layout {
        EndpointLayout::Spread => {
            let mut order: Vec<usize> = (0..nodes).collect();
            rng.shuffle(&mut order);
            (0..backends).map(|i| order[i % nodes]).collect()
        }
        EndpointLayout::Random => (0..backends).map(|_| rng.below(nodes)).collect(),
        EndpointLayout::OneNode => vec![rng.below(nodes); backends],
    }
}

/// Replaces one endpoint of the first front by a new one on another node.
fn moved(
    before: &EndpointEpoch,
    from: usize,
    nodes: usize,
    pods: &mut Vec<Pod>,
    rng: &mut Rng,
) -> EndpointEpoch {
    let mut endpoints = before.endpoints.clone();
    let index = rng.below(endpoints[0].len());
    let old = pods[endpoints[0][index]].node;
    let free: Vec<usize> = (0..nodes)
        .filter(|node| *node != old && endpoints[0].iter().all(|pod| pods[*pod].node != *node))
        .collect();
    let node = if free.is_empty() {
        (old + 1) % nodes
    } else {
        *rng.pick(&free)
    };
    pods.push(Pod {
        name: "ingress-0-new".to_owned(),
        node,
        front: 0,
        prober: false,
    });
    endpoints[0][index] = pods.len() - 1;
    EndpointEpoch { from, endpoints }
}

fn channels(set: &TrialSet, kind: Option<RegionShape>, rng: &mut Rng) -> ProbeChannels {
    let proxied = kind == Some(RegionShape::ProtoVip) && rng.chance(0.5);
    match set.channels {
        ChannelDraw::All => ProbeChannels {
            dns: true,
            direct: true,
            mesh: true,
            proxied,
        },
        ChannelDraw::VipOnly => ProbeChannels {
            dns: false,
            direct: false,
            mesh: false,
            proxied: false,
        },
        ChannelDraw::Drawn => {
            let names = matches!(
                kind,
                Some(RegionShape::DnsClient | RegionShape::DnsAll | RegionShape::DnsName)
            );
            ProbeChannels {
                dns: rng.chance(0.8) || names,
                direct: rng.chance(0.8),
                mesh: rng.chance(0.8),
                proxied,
            }
        }
    }
}

/// Draws a configuration that makes the fault likely, unless a contradiction is drawn.
fn facts(set: &TrialSet, kind: Option<RegionShape>, rng: &mut Rng) -> StaticFacts {
    let against = rng.chance(set.contradiction);
    let proxy_mode = *rng.pick(&["iptables", "ipvs", "nftables", "cilium"]);
    let cluster_ip = set.form == OutputForm::Stream && rng.chance(0.2);
    let nolocal = kind == Some(RegionShape::NoLocal);
    let external = if nolocal != against && nolocal || !nolocal && rng.chance(0.3) {
        "Local"
    } else {
        "Cluster"
    };
    let real_balancer = nolocal && matches!(proxy_mode, "iptables" | "nftables") && !against;
    StaticFacts {
        service_type: if cluster_ip { "ClusterIP" } else { "LoadBalancer" },
        external: if cluster_ip { "Cluster" } else { external },
        internal: if cluster_ip && nolocal && !against {
            "Local"
        } else {
            "Cluster"
        },
        proxy_mode,
        ip_mode: if real_balancer && rng.chance(0.7) || rng.chance(0.15) {
            "Proxy"
        } else {
            "VIP"
        },
    }
}

fn scope(set: &TrialSet, region: Region, world: &SimulatedCluster, rng: &mut Rng) -> Scope {
    let OutputForm::Mesh { fronts, hosts, .. } = set.form else {
        return Scope { front: 0, host: None };
    };
    Scope {
        front: match region {
            Region::Backend(pod) => world.pods[pod].front,
            _ if set.churn == EndpointChurn::Moves => 0,
            _ => rng.below(fronts),
        },
        host: (region == Region::Target && hosts > 1).then(|| rng.below(hosts)),
    }
}

/// Draws the members of a cause; `None` if the cluster has none.
fn region(kind: RegionShape, world: &SimulatedCluster, round: usize, rng: &mut Rng) -> Option<Region> {
    let epoch = world.epoch(round);
    let clients: Vec<usize> = world.clients().collect();
    let pods: Vec<usize> = (0..world.fronts())
        .flat_map(|front| world.endpoints(epoch, front).to_vec())
        .collect();
    let client = *rng.pick(&clients);
    // A node that holds an endpoint: a fault elsewhere has less effect on the target.
    let pod = *rng.pick(&pods);
    let node = world.pods[pod].node;
    Some(match kind {
        RegionShape::Target => Region::Target,
        RegionShape::Vip => Region::Vip,
        RegionShape::Backend => Region::Backend(pod),
        RegionShape::Bnode => Region::Bnode(node),
        RegionShape::BnodeRemote => Region::BnodeRemote(node),
        RegionShape::Client => Region::Client(client),
        RegionShape::ClientVip => Region::ClientVip(client),
        RegionShape::Pair if client != node => Region::Pair(client, node),
        RegionShape::NoLocal => Region::NoLocal,
        RegionShape::Cross => Region::Cross,
        RegionShape::Same => Region::Same,
        RegionShape::SameVip => Region::SameVip,
        RegionShape::SelfPod => Region::SelfPod,
        RegionShape::SelfVip => Region::SelfVip,
        RegionShape::Zone if world.zones[client] != world.zones[node] => {
            Region::Zone(world.zones[client], world.zones[node])
        }
        RegionShape::ProtoVip => Region::ProtoVip,
        RegionShape::DnsClient => Region::DnsClient(client),
        RegionShape::DnsAll => Region::DnsAll,
        RegionShape::DnsName => Region::DnsName(if rng.chance(0.8) { 0 } else { world.control_name() }),
        RegionShape::OutsideAll => Region::OutsideAll,
        RegionShape::Pair | RegionShape::Zone => return None,
    })
}

/// Reports whether the fault breaks something that is probed, and neither hides in another fault nor hides one.
fn fits(fault: &DrawnFault, others: &[DrawnFault], world: &SimulatedCluster) -> bool {
    let paths = every_path(world, world.epoch(fault.start));
    paths.iter().any(|path| fault.breaks(path, world))
        && others.iter().all(|other| {
            let only = |a: &DrawnFault, b: &DrawnFault| {
                paths.iter().any(|p| a.breaks(p, world) && !b.breaks(p, world))
            };
            only(fault, other) && only(other, fault)
        })
}

/// Returns every path that a probe may take.
fn every_path(world: &SimulatedCluster, epoch: usize) -> Vec<TruePath> {
    let mut paths = Vec::new();
    let clients = world
        .clients()
        .map(ProbeClient::Node)
        .chain((0..world.outside).map(ProbeClient::Outside));
    for client in clients {
        let inside = matches!(client, ProbeClient::Node(_));
        let bare = |way| TruePath {
            way,
            client,
            front: None,
            pod: None,
            node: None,
            name: None,
            no_local: false,
        };
        for front in 0..world.fronts() {
            let no_local = world.no_local(epoch, front, client);
            for pod in world.eligible(epoch, front, client) {
                let to = |way| TruePath {
                    front: Some((front, 0)),
                    pod: Some(pod),
                    node: Some(world.pods[pod].node),
                    no_local,
                    ..bare(way)
                };
                paths.extend((0..world.hosts).map(|host| TruePath {
                    front: Some((front, host)),
                    ..to(ProbeApproach::Vip)
                }));
                if inside && world.channels.direct {
                    paths.push(to(ProbeApproach::Direct));
                }
            }
        }
        if inside && world.channels.mesh {
            let peers = world.clients().filter(|peer| client != ProbeClient::Node(*peer));
            paths.extend(peers.map(|peer| TruePath {
                node: Some(peer),
                ..bare(ProbeApproach::Mesh)
            }));
        }
        if inside && world.channels.dns {
            paths.extend((0..world.names.len()).map(|name| TruePath {
                name: Some(name),
                ..bare(ProbeApproach::Dns)
            }));
        }
    }
    paths
}
