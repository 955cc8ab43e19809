//! Writes a run as the recorded stream of one target.

use serde_json::{Value, json};

use super::{
    region::{ProbeApproach, ProbeClient},
    simulate::{INTERVAL_US, SimulatedProbe, SimulatedTrial, TIMEOUT_US},
    world::SimulatedCluster,
};

/// Returns the lines of the run, without line ends.
#[must_use]
pub fn lines(run: &SimulatedTrial, trial: usize) -> Vec<String> {
    let mut lines = vec![first_line(&run.plan.world, trial)];
    let mut epoch = 0;
    lines.extend(probe_lines(&run.plan.world, trial, &run.probes, &mut epoch));
    lines.push(last_line(trial));
    lines
}

/// Returns the first line.
#[must_use]
pub fn first_line(world: &SimulatedCluster, trial: usize) -> String {
    topology(world, trial, 0).to_string()
}

/// Returns the lines of further probes; `epoch` is that of the last topology written.
pub fn probe_lines(
    world: &SimulatedCluster,
    trial: usize,
    shots: &[SimulatedProbe],
    epoch: &mut usize,
) -> Vec<String> {
    let mut lines = Vec::new();
    for shot in shots {
        if world.epoch(shot.round) > *epoch {
            *epoch = world.epoch(shot.round);
            lines.push(topology(world, trial, *epoch).to_string());
        }
        lines.push(observation(world, trial, shot).to_string());
    }
    lines
}

/// Returns the last line.
#[must_use]
pub fn last_line(trial: usize) -> String {
    json!({"type": "end", "trial": trial}).to_string()
}

fn topology(world: &SimulatedCluster, trial: usize, epoch: usize) -> Value {
    let nodes: Vec<Value> = (0..world.zones.len())
        .map(|node| {
            json!({"name": world.node_name(node), "zone": SimulatedCluster::zone_name(world.zones[node]),
                "prober": world.probers[node]})
        })
        .collect();
    let backends: Vec<Value> = world
        .endpoints(epoch, 0)
        .iter()
        .map(|pod| {
            let node = world.pods[*pod].node;
            json!({"pod": world.pods[*pod].name, "node": world.node_name(node),
                "ip": format!("10.{}.{}.{}", 244 + node / 256, node % 256, 10 + pod)})
        })
        .collect();
    let channels = [
        ("dns", world.channels.dns),
        ("vip", true),
        ("direct", world.channels.direct),
        ("mesh", world.channels.mesh),
        ("proxied", world.channels.proxied),
    ];
    let channels: Vec<&str> = channels
        .iter()
        .filter(|(_, on)| *on)
        .map(|(name, _)| *name)
        .collect();
    let facts = &world.facts;
    json!({
        "type": "topology", "trial": trial, "interval_s": whole_millis(INTERVAL_US), "timeout_ms": TIMEOUT_US / 1000,
        "channels": channels, "nodes": nodes,
        "target": {
            "name": world.names[0], "type": facts.service_type, "externalTrafficPolicy": facts.external,
            "internalTrafficPolicy": facts.internal, "proxyMode": facts.proxy_mode, "ipMode": facts.ip_mode,
            "sessionAffinity": "None", "front": "l4", "identifies_backend": world.identifies,
        },
        "backends": backends,
    })
}

fn observation(world: &SimulatedCluster, trial: usize, shot: &SimulatedProbe) -> Value {
    let path = &shot.path;
    let client = match path.client {
        ProbeClient::Node(node) => world.node_name(node),
        ProbeClient::Outside(n) => format!("outside-{n}"),
    };
    let target = match path.way {
        ProbeApproach::Dns => path.name.map(|name| world.names[name].clone()),
        ProbeApproach::Mesh => None,
        ProbeApproach::Vip | ProbeApproach::Direct | ProbeApproach::Proxied => Some(world.names[0].clone()),
    };
    let known = path.way == ProbeApproach::Direct || (world.identifies && shot.failure.is_none());
    let mut line = json!({
        "type": "obs", "trial": trial, "t": whole_millis(shot.at_us), "node": client, "channel": path.way.word(),
        "target": target,
        "backend": path.pod.filter(|_| known).map(|pod| world.pods[pod].name.clone()),
        "dst_node": path.node.filter(|_| path.way == ProbeApproach::Mesh).map(|node| world.node_name(node)),
        "ok": shot.failure.is_none(), "kind": shot.failure.map(super::kinds::DrawnFailure::word),
        "latency_ms": f64::from(u32::try_from(shot.took_us / 10).unwrap_or(u32::MAX)) / 100.0,
    });
    if let Some(assignment) = &shot.assignment {
        line["assignment"] = json!(assignment);
    }
    line
}

/// Converts microseconds to seconds with three decimal places.
fn whole_millis(us: i64) -> f64 {
    f64::from(i32::try_from(us / 1000).unwrap_or(i32::MAX)) / 1000.0
}
