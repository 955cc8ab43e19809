//! While the topology cannot be read, anything that only the old plan still probes may be gone.
#![expect(
    clippy::unwrap_used,
    reason = "an invalid fixture fails the test that uses it"
)]

use crate::simulated_mesh::{INTERVAL, Probe, SimulatedMesh, cluster};
use parallax_diagnosis::{replay::Replay, view::View};
use parallax_model::EventTime;
use serde_json::{Value, json};

type Outcome = Option<(&'static str, &'static str)>;

fn healthy(_: &Probe) -> Outcome {
    None
}

/// The Pod is gone and kube-proxy knows it: only direct connections to its address are refused.
fn pod_gone(probe: &Probe) -> Outcome {
    (probe.channel == "direct" && probe.entry.as_deref() == Some("ingress-2"))
        .then_some(("connect", "refused"))
}

/// The Pod is broken and still receives connections.
fn pod_broken(probe: &Probe) -> Outcome {
    (probe.entry.as_deref() == Some("ingress-2")).then_some(("connect", "refused"))
}

/// The node left the cluster with everything on it.
fn node_left(probe: &Probe) -> Outcome {
    (probe.channel == "mesh" && probe.node.as_deref() == Some("n4")).then_some(("connect", "connect_timeout"))
}

/// Three healthy rounds, then the API server becomes unreachable.
fn mesh_without_topology(nodes: usize) -> SimulatedMesh {
    let mut mesh = SimulatedMesh::new(cluster(nodes, &[1, 2, 3], 1, "Cluster"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    mesh.engine.set_topology_unreadable(Some(EventTime(2 * INTERVAL)));
    mesh
}

fn rounds(mesh: &mut SimulatedMesh, of: std::ops::Range<i64>, fault: &dyn Fn(&Probe) -> Outcome) -> View {
    let mut view = None;
    for round in of {
        view = Some(mesh.round(round, &fault));
    }
    view.unwrap()
}

fn regions(view: &View) -> Vec<String> {
    view.incidents
        .iter()
        .map(|incident| incident.verdict.region.to_string())
        .collect()
}

#[test]
fn an_endpoint_that_only_direct_probes_miss_is_named_once_the_cluster_can_be_read_and_still_has_it() {
    let mut mesh = mesh_without_topology(4);
    let view = rounds(&mut mesh, 3..9, &pod_gone);
    assert_eq!(regions(&view), [""; 0]);
    let sentence = &view.investigations[0].sentence;
    // From the tenth second, the last read of the topology, to the end of the ninth round.
    assert!(
        sentence.ends_with("; but the topology is 35 s old: the endpoint ingress-2 may be gone"),
        "{sentence}"
    );
    mesh.engine.set_topology_unreadable(None);
    let view = rounds(&mut mesh, 9..11, &pod_gone);
    assert_eq!(regions(&view), ["backend ingress-2"]);
    // A verdict that was named while the topology could be read stays when it cannot.
    mesh.engine
        .set_topology_unreadable(Some(EventTime(10 * INTERVAL)));
    let view = rounds(&mut mesh, 11..13, &pod_gone);
    assert_eq!(regions(&view), ["backend ingress-2"]);
    assert_eq!(view.investigations, []);
}

#[test]
fn an_endpoint_that_fails_those_who_come_through_the_address_is_named_at_once() {
    let mut mesh = mesh_without_topology(4);
    let view = rounds(&mut mesh, 3..9, &pod_broken);
    assert_eq!(regions(&view), ["backend ingress-2"]);
}

#[test]
fn a_node_that_only_the_mesh_misses_may_have_left() {
    let mut mesh = mesh_without_topology(4);
    let view = rounds(&mut mesh, 3..9, &node_left);
    assert_eq!(regions(&view), [""; 0]);
    assert!(
        view.investigations[0]
            .sentence
            .contains("the node n4 may be gone"),
        "{:?}",
        view.investigations
    );
    mesh.engine.set_topology_unreadable(None);
    let view = rounds(&mut mesh, 9..11, &node_left);
    assert_eq!(view.incidents[0].verdict.region.members, ["n4"]);
}

#[test]
fn a_replay_knows_while_the_cluster_could_not_be_read() {
    let mut mesh = mesh_without_topology(4);
    rounds(&mut mesh, 3..9, &pod_gone);
    let lines = |unread: bool| {
        let mut replay = Replay::new();
        let head = [
            json!({"type": "settings", "interval_us": 5_000_000, "timeout_us": 3_000_000}),
            json!({"type": "topology_spec", "t_us": 0, "spec": mesh.spec}),
        ];
        let mut lines: Vec<Value> = head.to_vec();
        if unread {
            lines.push(json!({"type": "topology_unread", "t_us": 0, "since_us": 0}));
        }
        let sent = mesh.observed.iter().map(|recorded| {
            let mut line = serde_json::to_value(recorded).unwrap();
            line["type"] = json!("observation");
            line
        });
        lines.extend(sent);
        let mut out = Vec::new();
        for (i, line) in lines.iter().enumerate() {
            out.extend(replay.read_line(i + 1, &line.to_string()));
        }
        out.extend(replay.finish());
        let verdicts = out.iter().filter(|line| line.contains(r#""type":"verdict""#));
        verdicts.count()
    };
    assert_eq!((lines(true), lines(false)), (0, 1));
}
