//! An ingress controller in the host network: names resolve to node addresses, and each of these is a front of its
//! own.

use parallax_model::Placement;

use super::*;
use crate::verdict::{Incident, Subject};

const DNS: &str = "10.96.0.10:53";
const NODES: [&str; 3] = ["n1/pod", "n2/pod", "n3/pod"];

/// The same cluster with its controller on bare metal: on n1 and n2, without a balancer.
fn bare_metal() -> Value {
    let mut spec = cluster();
    let service = &mut spec["services"][0];
    service["type"] = json!("ClusterIP");
    service["loadBalancer"] = json!([]);
    service["ports"][0]["targetPort"] = json!(80);
    service["endpoints"][0]["address"] = json!("192.168.0.1");
    service["endpoints"][1]["address"] = json!("192.168.0.2");
    spec
}

#[test]
fn what_a_resolver_says_leads_to_a_front_and_the_front_to_the_entry_on_that_node() {
    let mut stage = FindingsFixture::new(&bare_metal());
    for (vantage, address) in NODES
        .into_iter()
        .zip(["192.168.0.1", "192.168.0.1", "192.168.0.2"])
    {
        stage.tell(0, vantage, "a.example.test", DNS, &[address]);
    }
    let view = stage.close(0);
    assert_eq!(view.findings, []);
    let meanings: Vec<&str> = view.names[0].answers.iter().map(|a| a.meaning.as_str()).collect();
    assert_eq!(
        meanings,
        ["a node on which a Pod of Service ingress/nginx listens"; 2]
    );
    let row = view
        .matrix
        .iter()
        .find(|row| row.target.as_str() == "http://a.example.test/")
        .unwrap();
    let fronts: Vec<String> = row.fronts.iter().map(ToString::to_string).collect();
    assert_eq!(fronts, ["192.168.0.1:80", "192.168.0.2:80"]);
    let placements: Vec<Placement> = row.cells.iter().map(|cell| cell.placement).collect();
    assert_eq!(
        placements,
        [Placement::SameNode, Placement::NoLocal, Placement::NoLocal]
    );
}

/// Every client probes a.… at n1 and b.… at n2, and the echoes of its neighbours.
fn rounds(stage: &mut FindingsFixture, rounds: std::ops::Range<i64>, first: &Value) -> View {
    let mut view = None;
    for round in rounds {
        for (i, vantage) in NODES.into_iter().enumerate() {
            let ok = json!({"result": "ok", "status": 200});
            for (host, front, outcome) in [("a", "192.168.0.1:80", first), ("b", "192.168.0.2:80", &ok)] {
                let mut line = outcome.clone();
                line["target"] = json!(format!("http://{host}.example.test/"));
                line["channel"] = json!("vip");
                line["front"] = json!(front);
                stage.observe(round, vantage, line);
            }
            let peer = format!("n{}", (i + 1) % 3 + 1);
            let mesh = json!({"target": format!("echo://{peer}"), "channel": "mesh", "dst_node": peer, "result": "ok"});
            stage.observe(round, vantage, mesh);
        }
        view = Some(stage.close(round));
    }
    view.unwrap()
}

#[test]
fn a_node_whose_pod_refuses_is_one_incident_of_its_own_front_and_no_affair_of_a_policy() {
    let mut stage = FindingsFixture::new(&bare_metal());
    let ok = json!({"result": "ok", "status": 200});
    rounds(&mut stage, 0..6, &ok);
    let refused = json!({"result": "failed", "phase": "connect", "kind": "refused"});
    let view = rounds(&mut stage, 6..20, &refused);
    let open: Vec<&Incident> = view.incidents.iter().collect();
    assert_eq!(open.len(), 1, "{:?}", view.incidents);
    let verdict = &open[0].verdict;
    assert_eq!(
        verdict.subject,
        Subject::Front("192.168.0.1:80".parse().unwrap()),
        "{}",
        verdict.sentence
    );
    assert!(!verdict.class.iter().any(|region| region.to_string() == "nolocal"));
    assert!(
        verdict
            .facts
            .iter()
            .all(|fact| !fact.text.contains("TrafficPolicy")),
        "{:?}",
        verdict.facts
    );
    assert!(
        verdict
            .evidence
            .iter()
            .any(|row| row.clients.contains("192.168.0.1:80 of node n1")),
        "{:?}",
        verdict.evidence
    );
}

#[test]
fn addresses_of_nodes_count_as_questions_once_somebody_went_there() {
    // Enough targets to divide the residual doubt.
    let mut spec = bare_metal();
    let many = (0..40).map(|i| json!({"url": format!("http://h{i}.example.test/")}));
    spec["targets"].as_array_mut().unwrap().extend(many);
    let mut stage = FindingsFixture::new(&spec);
    let front = crate::inference::judgement_unit::JudgementUnit::Front("192.168.0.1:80".parse().unwrap());
    let ok = json!({"result": "ok", "status": 200});
    stage.close(0);
    let subjects = |stage: &FindingsFixture| {
        let topology = &stage.topology;
        topology.fronts().len() + topology.targets().len()
    };
    // The smallest residual doubt per subject with so many subjects.
    let least = |subjects: usize| 0.01 * 20.0 / f64::from(u32::try_from(subjects).unwrap());
    let listed = subjects(&stage);
    assert!(
        stage
            .engine
            .residual_doubt(&front)
            .permits_verdict(least(listed) * 0.999)
    );
    rounds(&mut stage, 1..2, &ok);
    assert!(
        !stage
            .engine
            .residual_doubt(&front)
            .permits_verdict(least(listed) * 0.999),
        "two more are probed"
    );
    assert!(
        stage
            .engine
            .residual_doubt(&front)
            .permits_verdict(least(listed + 2) * 0.999)
    );
}
