//! While the cluster cannot be read, what only the plan of before still asks for may be gone.
#![expect(
    clippy::unwrap_used,
    reason = "what does not parse fails the test that made it"
)]

use crate::mesh::{INTERVAL, Mesh, Probe, cluster};
use parallax_diagnosis::{replay::Replay, view::View};
use parallax_model::EventTime;
use serde_json::{Value, json};

type Outcome = Option<(&'static str, &'static str)>;

fn healthy(_: &Probe) -> Outcome {
    None
}

/// The pod is gone, and kube-proxy knows it: whoever dials its address is refused, nobody else meets it.
fn gone(probe: &Probe) -> Outcome {
    (probe.channel == "direct" && probe.entry.as_deref() == Some("ingress-2"))
        .then_some(("connect", "refused"))
}

/// The pod is broken and everybody goes on sending there.
fn broken(probe: &Probe) -> Outcome {
    (probe.entry.as_deref() == Some("ingress-2")).then_some(("connect", "refused"))
}

/// The node left, with all that ran there.
fn left(probe: &Probe) -> Outcome {
    (probe.channel == "mesh" && probe.node.as_deref() == Some("n4")).then_some(("connect", "connect_timeout"))
}

/// Three good rounds, then the API server is away.
fn unread(nodes: usize) -> Mesh {
    let mut mesh = Mesh::new(cluster(nodes, &[1, 2, 3], 1, "Cluster"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    mesh.engine.topology_unread(Some(EventTime(2 * INTERVAL)));
    mesh
}

fn rounds(mesh: &mut Mesh, of: std::ops::Range<i64>, fault: &dyn Fn(&Probe) -> Outcome) -> View {
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
    let mut mesh = unread(4);
    let view = rounds(&mut mesh, 3..9, &gone);
    assert_eq!(regions(&view), [""; 0]);
    let said = &view.investigating[0].sentence;
    // From the tenth second, when it was last known, to the end of the ninth round.
    assert!(
        said.ends_with("; but the topology is 35 s old: the endpoint ingress-2 may be gone"),
        "{said}"
    );
    mesh.engine.topology_unread(None);
    let view = rounds(&mut mesh, 9..11, &gone);
    assert_eq!(regions(&view), ["backend ingress-2"]);
    // What was named while it could be read is not taken back when it cannot.
    mesh.engine.topology_unread(Some(EventTime(10 * INTERVAL)));
    let view = rounds(&mut mesh, 11..13, &gone);
    assert_eq!(regions(&view), ["backend ingress-2"]);
    assert_eq!(view.investigating, []);
}

#[test]
fn an_endpoint_that_fails_those_who_come_through_the_address_is_named_at_once() {
    let mut mesh = unread(4);
    let view = rounds(&mut mesh, 3..9, &broken);
    assert_eq!(regions(&view), ["backend ingress-2"]);
}

#[test]
fn a_node_that_only_the_mesh_misses_may_have_left() {
    let mut mesh = unread(4);
    let view = rounds(&mut mesh, 3..9, &left);
    assert_eq!(regions(&view), [""; 0]);
    assert!(
        view.investigating[0].sentence.contains("the node n4 may be gone"),
        "{:?}",
        view.investigating
    );
    mesh.engine.topology_unread(None);
    let view = rounds(&mut mesh, 9..11, &left);
    assert_eq!(view.incidents[0].verdict.region.members, ["n4"]);
}

#[test]
fn a_replay_knows_while_the_cluster_could_not_be_read() {
    let mut mesh = unread(4);
    rounds(&mut mesh, 3..9, &gone);
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
        let sent = mesh.sent.iter().map(|recorded| {
            let mut line = serde_json::to_value(recorded).unwrap();
            line["type"] = json!("observation");
            line
        });
        lines.extend(sent);
        let mut out = Vec::new();
        for (i, line) in lines.iter().enumerate() {
            out.extend(replay.line(i + 1, &line.to_string()));
        }
        out.extend(replay.finish());
        let verdicts = out.iter().filter(|line| line.contains(r#""type":"verdict""#));
        verdicts.count()
    };
    assert_eq!((lines(true), lines(false)), (0, 1));
}
