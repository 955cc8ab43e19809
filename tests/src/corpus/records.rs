//! Writes a run in the product's own recording format: settings, topologies, observations and progress of a whole mesh.

use parallax_model::{
    Channel, DnsAnswer, EventTime, Front, Incarnation, Micros, Observation, Outcome, PhaseTimes, Recorded,
    ReportSeq, TargetId, Vantage,
};
use serde_json::{Value, json};

use super::{
    draw::DrawnFault,
    region::{ProbeApproach, ProbeClient, Region, RegionShape},
    sets::OutputForm,
    simulate::{INTERVAL_US, SimulatedProbe, SimulatedTrial, TIMEOUT_US},
    world::SimulatedCluster,
};

/// Returns the lines of the run, without line ends.
#[must_use]
pub fn lines(run: &SimulatedTrial) -> Vec<String> {
    let world = &run.plan.world;
    let mut lines = vec![
        json!({"type": "settings", "interval_us": INTERVAL_US, "timeout_us": TIMEOUT_US}).to_string(),
        topology(world, 0, 0),
    ];
    let mut seq = 0;
    let mut shots = run.probes.iter().peekable();
    for round in 0..run.plan.rounds {
        let start = i64::try_from(round).unwrap_or(0) * INTERVAL_US;
        if round > 0 && world.epoch(round) != world.epoch(round - 1) {
            lines.push(topology(world, world.epoch(round), start));
        }
        while let Some(shot) = shots.next_if(|shot| shot.round == round) {
            // A successful name resolution is part of the probe that follows it.
            if shot.path.way == ProbeApproach::Dns && shot.failure.is_none() {
                continue;
            }
            if let Some(recorded) = recorded(world, shot, seq) {
                seq += 1;
                lines.push(tagged("observation", &recorded));
            }
        }
        for vantage in vantages(world) {
            lines.push(
                json!({"type": "progress", "vantage": vantage, "t_us": start + INTERVAL_US}).to_string(),
            );
        }
    }
    lines
}

fn vantages(world: &SimulatedCluster) -> Vec<String> {
    let inside = world.clients().map(ProbeClient::Node);
    inside
        .chain((0..world.outside).map(ProbeClient::Outside))
        .map(|client| vantage(world, client))
        .collect()
}

fn vantage(world: &SimulatedCluster, client: ProbeClient) -> String {
    match client {
        ProbeClient::Node(node) => format!("{}/pod", world.node_name(node)),
        ProbeClient::Outside(n) => format!("internet:site-{n}"),
    }
}

fn tagged(tag: &str, value: &impl serde::Serialize) -> String {
    let mut value = serde_json::to_value(value).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.insert("type".to_owned(), tag.into());
    }
    value.to_string()
}

fn front_ip(front: usize) -> String {
    format!("203.0.113.{}", 10 + front)
}

fn target_id(world: &SimulatedCluster, front: usize, host: usize) -> String {
    format!("http://{}/", world.names[world.host_name(front, host)])
}

/// Returns the subject of the correct verdict on a fault; `None` if it concerns no front, or if more than one subject
/// is correct.
#[must_use]
pub fn subject(run: &SimulatedTrial, fault: &DrawnFault) -> Option<Value> {
    if run.form == OutputForm::Stream
        || !fault.region.kind().is_local()
        || fault.region.kind() == RegionShape::Backend
    {
        return None;
    }
    let front = fault.scope.front;
    match (fault.region, fault.scope.host) {
        (Region::Target, Some(host)) => {
            Some(json!({"type": "target", "name": target_id(&run.plan.world, front, host)}))
        }
        (Region::Target, None) => None,
        _ => Some(json!({"type": "front", "name": format!("{}:80", front_ip(front))})),
    }
}

fn topology(world: &SimulatedCluster, epoch: usize, at_us: i64) -> String {
    let nodes: Vec<Value> = (0..world.zones.len())
        .map(|node| {
            let mut value = json!({"name": world.node_name(node), "zone": SimulatedCluster::zone_name(world.zones[node]),
                "addresses": [format!("192.0.2.{}", node + 1)]});
            if world.probers[node] {
                value["prober"] =
                    json!({"pod": format!("prober-{node}"), "address": format!("10.244.{node}.5:9095")});
            }
            value
        })
        .collect();
    let services: Vec<Value> = (0..world.fronts())
        .map(|front| {
            let endpoints: Vec<Value> = world
                .endpoints(epoch, front)
                .iter()
                .map(|pod| {
                    let node = world.pods[*pod].node;
                    json!({"pod": world.pods[*pod].name, "address": pod_ip(world, *pod),
                        "node": world.node_name(node)})
                })
                .collect();
            json!({"namespace": "ingress", "name": format!("front-{front}"), "type": "LoadBalancer",
                "loadBalancer": [{"ip": front_ip(front), "ipMode": world.facts.ip_mode}],
                "externalTrafficPolicy": world.facts.external,
                "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
                "endpoints": endpoints})
        })
        .collect();
    let ingresses: Vec<Value> = (0..world.fronts())
        .map(|front| {
            let hosts: Vec<&String> = (0..world.hosts)
                .map(|host| &world.names[world.host_name(front, host)])
                .collect();
            json!({"namespace": "apps", "name": format!("ingress-{front}"),
                "service": format!("ingress/front-{front}"), "hosts": hosts})
        })
        .collect();
    // The recording format has no value for replacements of kube-proxy.
    let proxy_mode = if world.facts.proxy_mode == "cilium" {
        "unknown"
    } else {
        world.facts.proxy_mode
    };
    let outside: Vec<String> = (0..world.outside)
        .map(|n| vantage(world, ProbeClient::Outside(n)))
        .collect();
    json!({"type": "topology_spec", "t_us": at_us,
        "spec": {"proxyMode": proxy_mode, "nodes": nodes, "services": services, "ingresses": ingresses,
            "vantages": outside}})
    .to_string()
}

fn pod_ip(world: &SimulatedCluster, pod: usize) -> String {
    format!("10.244.{}.{}", world.pods[pod].node, 10 + pod)
}

/// Builds an observation in the model's own type, so that a change of the wire format fails here first.
fn recorded(world: &SimulatedCluster, shot: &SimulatedProbe, seq: u64) -> Option<Recorded> {
    let path = &shot.path;
    let known = path.way == ProbeApproach::Direct || (world.identifies && shot.failure.is_none());
    // A failed name resolution ends the user's probe.
    let channel = match path.way {
        ProbeApproach::Dns | ProbeApproach::Vip => Channel::Vip,
        ProbeApproach::Direct => Channel::Direct,
        ProbeApproach::Mesh => Channel::Mesh,
        ProbeApproach::Proxied => Channel::Proxied,
    };
    let front_host = path
        .front
        .or_else(|| path.name.map(|name| (name / world.hosts, name % world.hosts)));
    let target = match (path.way, front_host, path.node) {
        (ProbeApproach::Mesh, _, Some(peer)) => format!("echo://{}", world.node_name(peer)),
        (_, Some((front, host)), _) => target_id(world, front, host),
        _ => return None,
    };
    let front = match (path.way, path.front, path.pod, path.node) {
        (ProbeApproach::Vip | ProbeApproach::Proxied, Some((front, _)), _, _) => {
            Some(format!("{}:80", front_ip(front)))
        }
        (ProbeApproach::Direct, _, Some(pod), _) => Some(format!("{}:8080", pod_ip(world, pod))),
        (ProbeApproach::Mesh, _, _, Some(node)) => Some(format!("10.244.{node}.5:9095")),
        _ => None,
    };
    let resolved = matches!(path.way, ProbeApproach::Vip | ProbeApproach::Proxied);
    let micros = |us: u64| Some(Micros(us));
    let user_name = path.way == ProbeApproach::Dns;
    Some(Recorded {
        vantage: vantage(world, path.client).parse::<Vantage>().ok()?,
        incarnation: Incarnation::new(format!(
            "i-{}",
            vantage(world, path.client).replace(['/', ':'], "-")
        ))
        .ok()?,
        observation: Observation {
            seq: ReportSeq(seq),
            started: EventTime(shot.at_us),
            assignment: None,
            target: TargetId::new(target).ok()?,
            channel,
            front: front.and_then(|front| front.parse::<Front>().ok()),
            entry: path
                .pod
                .filter(|_| known)
                .and_then(|pod| world.pods[pod].name.parse().ok()),
            dst_node: path
                .node
                .filter(|_| matches!(path.way, ProbeApproach::Mesh | ProbeApproach::Direct))
                .and_then(|node| world.node_name(node).parse().ok()),
            outcome: shot.failure.map_or(Outcome::Ok { status: Some(200) }, |failure| {
                failure.outcome(path.way)
            }),
            times: PhaseTimes {
                resolve: if user_name {
                    micros(shot.took_us)
                } else {
                    resolved.then_some(Micros(400))
                },
                total: micros(shot.took_us),
                ..PhaseTimes::default()
            },
            dns: user_name.then(|| DnsAnswer {
                resolver: std::net::SocketAddr::from(([10, 96, 0, 10], 53)),
                name: path
                    .name
                    .map_or_else(String::new, |name| world.names[name].clone()),
                addresses: Vec::new(),
                ttl_s: None,
                tcp: false,
                unanswered: None,
            }),
            echo: None,
            ttl: None,
            server: None,
            fingerprint: None,
            challenge: None,
            names: None,
        },
    })
}
