//! The network between nodes.

use serde_json::json;

use crate::scripted_mesh::{NODES, ScriptedMesh, cluster, nodes};

const ALL: [usize; NODES] = [0, 1, 2, 3, 4, 5];

/// Seen on a real cluster with one node in each zone: the headline named "another cause", and a probe that no one can make.
#[test]
fn a_cut_between_two_nodes_that_are_alone_in_their_zones_has_one_cause_and_says_why_no_probe_decides() {
    let mut alone = nodes(NODES);
    for (i, node) in alone.iter_mut().enumerate() {
        node["zone"] = json!(format!("z{i}"));
    }
    let mut day = ScriptedMesh::new(cluster(&alone, &[]));
    let mut verdict = None;
    for round in 0..9 {
        let is_cut = |from: usize, to: usize| round >= 3 && from + to == 3 && from * to == 2;
        day.mesh(round, &ALL, |from, to| {
            is_cut(from, to).then_some(("connect", "connect_timeout"))
        });
        let view = day.close(round, &ALL);
        verdict = view.incidents.into_iter().next().map(|incident| incident.verdict);
    }
    let verdict = verdict.unwrap();
    assert_eq!(verdict.class.len(), 2, "{}", verdict.sentence);
    assert_eq!(
        verdict.headline(),
        "the network between nodes is down (overlay, routes or security group): n1 and n2"
    );
    assert_eq!(
        verdict.separating_probes,
        [
            "connections between nodes n1 and n2 cannot be separated from connections between zones z1 and z2: no possible \
          probe takes a path on which they differ"
        ]
    );
}
