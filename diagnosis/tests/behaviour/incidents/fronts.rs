//! Incidents of a front and of its hosts.

use super::*;

#[test]
fn fifty_hosts_on_one_front_are_one_incident_with_fifty_members() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1], 50, "Local"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let mut view = None;
    for round in 3..6 {
        view = Some(mesh.round(round, &refused_without_local(&["n1"])));
    }
    let view = view.unwrap();
    assert_eq!(view.incidents.len(), 1);
    let verdict = &view.incidents[0].verdict;
    assert_eq!(verdict.region.region, "nolocal");
    assert_eq!(verdict.targets.len(), 50);
    let row = verdict.evidence.iter().find(|row| row.predicted).unwrap();
    // Two clients in three rounds: a front counts once per client and round, however many hosts share it.
    assert_eq!((row.probes, row.failures), (6, 6));
}

/// The client's node sends only some of its refusals: the kernel rate-limits ICMP errors per destination.
#[test]
fn one_refusal_says_what_the_silence_of_the_other_hosts_on_the_front_is() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1], 50, "Local"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let refused = refused_without_local(&["n1"]);
    let mut view = None;
    for round in 3..6 {
        view = Some(mesh.round(round, &|p| {
            let (phase, kind) = refused(p)?;
            let aloud = p.target == "http://h7.example.test/";
            Some((phase, if aloud { kind } else { "connect_timeout" }))
        }));
    }
    let view = view.unwrap();
    let verdict = &view.incidents[0].verdict;
    assert_eq!(verdict.causes[0].id, "F1");
    assert!(verdict.sentence.contains("are refused"), "{}", verdict.sentence);
    let row = verdict.evidence.iter().find(|row| row.predicted).unwrap();
    assert_eq!(row.kinds, [("refused".to_owned(), 6)]);
}

#[test]
fn an_error_of_one_host_never_blames_the_front() {
    let mut mesh = SimulatedMesh::new(cluster(4, &[1, 2], 5, "Cluster"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let mut view = None;
    for round in 3..8 {
        view = Some(mesh.round(round, &|p| {
            (p.target == "http://h3.example.test/").then_some(("check", "status"))
        }));
    }
    let view = view.unwrap();
    let found: Vec<_> = view
        .incidents
        .iter()
        .map(|i| {
            (
                i.verdict.subject.to_string(),
                i.verdict
                    .class
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [(
            "http://h3.example.test/".to_owned(),
            // Its own probes cannot separate it from the address; other hosts on the address can.
            vec!["target".to_owned()]
        )]
    );
}

#[test]
fn a_front_that_closes_before_the_first_byte_for_all_hosts_is_the_fronts_fault() {
    let mut mesh = SimulatedMesh::new(cluster(4, &[1, 2], 5, "Cluster"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let mut view = None;
    for round in 3..8 {
        view = Some(mesh.round(round, &|p| {
            (p.front.as_deref() == Some("203.0.113.10:80")).then_some(("first-byte", "eof"))
        }));
    }
    let view = view.unwrap();
    assert_eq!(view.incidents.len(), 1);
    let verdict = &view.incidents[0].verdict;
    assert_eq!(verdict.subject.to_string(), "203.0.113.10:80");
    assert_eq!(verdict.region.region, "proto-vip");
    assert!(verdict.class.iter().any(|region| region.region == "vip"));
    assert_eq!(verdict.causes[0].id, "F9");
    assert_eq!(verdict.targets.len(), 5);
}

/// Found in the lab: "the port does not speak TLS" (P17) of a port with which clients outside spoke TLS.
#[test]
fn a_port_that_speaks_tls_with_clients_outside_is_not_said_to_lack_it() {
    let mut spec = cluster(4, &[1, 2], 1, "Cluster");
    spec["vantages"] = json!(["internet:laptop"]);
    let mut mesh = SimulatedMesh::new(spec);
    let mut view = None;
    for round in 0..24 {
        view = Some(mesh.round(round, &|p| {
            let inside = !p.client.starts_with("internet:");
            let plaintext = match p.channel {
                // The balancer holds the certificate; the endpoints serve plain HTTP.
                "direct" => true,
                _ => inside && p.front.as_deref() == Some("203.0.113.10:80") && round >= 4,
            };
            plaintext.then_some(("tls", "not_tls"))
        }));
    }
    let view = view.unwrap();
    assert_eq!(view.incidents.len(), 1);
    let verdict = &view.incidents[0].verdict;
    assert!(
        verdict.class.iter().any(|region| region.region == "vip"),
        "{}",
        verdict.sentence
    );
    let causes: Vec<&str> = verdict.causes.iter().map(|cause| cause.id.as_str()).collect();
    assert_eq!(causes[0], "F10", "{causes:?}");
    assert!(!causes.contains(&"P17"), "{causes:?}");
}
