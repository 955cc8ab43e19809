//! Incidents of endpoints, and direct probes of them.

use super::*;

/// Found in the lab: a prober dials the former address of a moved Pod until its plan is updated.
#[test]
fn direct_probes_of_an_endpoint_that_is_gone_are_no_evidence_about_the_others() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1, 2], 1, "Local"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let stale: Vec<Probe> = mesh
        .probes(3)
        .into_iter()
        .filter(|p| p.channel == "direct" && p.node.as_deref() == Some("n2"))
        .collect();
    assert!(!stale.is_empty());
    mesh.change(cluster(3, &[1], 1, "Local"), 3 * INTERVAL);
    for probe in &stale {
        let recorded = mesh.record(probe, &|_| Some(("connect", "connect_timeout")));
        mesh.engine.observe(&recorded);
    }
    let mut view = None;
    for round in 3..6 {
        view = Some(mesh.round(round, &refused_without_local(&["n1"])));
    }
    let view = view.unwrap();
    let verdict = &view.incidents[0].verdict;
    assert_eq!(verdict.region.region, "nolocal");
    let direct = verdict
        .evidence
        .iter()
        .find(|row| row.clients.starts_with("direct connections"))
        .unwrap();
    assert!(direct.probes > 0 && direct.kinds.is_empty(), "{direct:?}");
}

#[test]
fn endpoints_that_forbid_direct_probes_are_left_out_not_blamed() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1, 2], 2, "Cluster"));
    for round in 0..8 {
        let view = mesh.round(round, &|p| {
            (p.channel == "direct").then_some(("connect", "connect_timeout"))
        });
        assert_eq!(view.incidents, []);
    }
}

/// Found in the lab: an ingress that requires the balancer's PROXY header closes connections without one.
#[test]
fn endpoints_that_close_every_direct_connection_are_not_blamed_while_the_front_works() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1, 2], 2, "Cluster"));
    for round in 0..8 {
        let view = mesh.round(round, &|p| {
            (p.channel == "direct").then_some(("first-byte", "eof"))
        });
        assert_eq!(view.incidents, []);
    }
    let mut view = None;
    for round in 8..14 {
        let closed = |p: &Probe| (matches!(p.channel, "direct" | "vip")).then_some(("first-byte", "eof"));
        view = Some(mesh.round(round, &closed));
    }
    let view = view.unwrap();
    let named: Vec<_> = view
        .incidents
        .iter()
        .map(|incident| {
            (
                incident.verdict.region.region.as_str(),
                incident.verdict.causes[0].id.as_str(),
            )
        })
        .collect();
    assert_eq!(named, [("proto-vip", "F9")]);
}

/// The usual remedy changes the placement of the failed clients, so no path of the region is left to prove
/// recovery.
#[test]
fn an_incident_ends_when_an_endpoint_on_every_node_is_the_remedy_and_not_while_its_clients_still_fail() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1], 1, "Local"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let refused = refused_without_local(&["n1"]);
    for round in 3..9 {
        mesh.round(round, &refused);
    }
    mesh.change(cluster(3, &[1, 2, 3], 1, "Local"), 9 * INTERVAL);
    let still = |p: &Probe| {
        let hit = p.front.as_deref() == Some("203.0.113.10:80") && p.client == "n3";
        hit.then_some(("connect", "refused"))
    };
    let mut view = None;
    for round in 9..16 {
        view = Some(mesh.round(round, &still));
    }
    let open = |view: &View| {
        let open = view
            .incidents
            .iter()
            .filter(|i| !matches!(i.state, IncidentState::Closed { .. }));
        open.count()
    };
    assert_ne!(open(&view.unwrap()), 0, "n3 still fails");
    let mut view = None;
    for round in 16..46 {
        view = Some(mesh.round(round, &healthy));
    }
    let view = view.unwrap();
    assert_eq!(open(&view), 0, "{:?}", view.incidents);
}

#[test]
fn an_endpoint_that_fails_everywhere_is_named_by_its_pod() {
    let mut mesh = SimulatedMesh::new(cluster(4, &[1, 2, 3], 2, "Cluster"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let mut view = None;
    for round in 3..8 {
        view = Some(mesh.round(round, &|p| {
            (p.entry.as_deref() == Some("ingress-2")).then_some(("connect", "refused"))
        }));
    }
    let view = view.unwrap();
    let found: Vec<_> = view
        .incidents
        .iter()
        .map(|i| i.verdict.region.to_string())
        .collect();
    assert_eq!(found, ["backend ingress-2"]);
}
