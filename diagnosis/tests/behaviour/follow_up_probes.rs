//! Follow-up probes: what the engine requests while a cause is undecided, and how it reports the deciding result.

use std::collections::BTreeSet;

use crate::baselines::{probe_shop, shop_spec};
use crate::scripted_mesh::{ALL, ScriptedMesh, open_sentences, with_outcome};
use crate::simulated_mesh::{Fault, INTERVAL, Probe, SimulatedMesh, cluster, refused_without_local};
use parallax_diagnosis::{
    requests::{ProbeRequest, RequestDestination},
    view::View,
};
use parallax_model::{Channel, EventTime};
use serde_json::{Value, json};

const FRONT: &str = "203.0.113.10:80";

/// A mesh whose base plan contains only the probes that pass the filter, and which executes requested probes.
struct FollowUpSimulation<'a> {
    mesh: SimulatedMesh,
    planned: &'a dyn Fn(&Probe) -> bool,
    requests: Vec<Vec<ProbeRequest>>,
    base_probes: usize,
}

impl<'a> FollowUpSimulation<'a> {
    fn new(spec: Value, planned: &'a dyn Fn(&Probe) -> bool) -> Self {
        Self {
            mesh: SimulatedMesh::new(spec),
            planned,
            requests: Vec::new(),
            base_probes: 0,
        }
    }

    /// Runs one round: the base plan, and the probes requested after the previous round.
    fn round(&mut self, round: i64, fault: &Fault<'_>) -> View {
        let probes: Vec<Probe> = self
            .mesh
            .probes(round)
            .into_iter()
            .filter(|probe| (self.planned)(probe))
            .collect();
        self.base_probes = probes.len();
        for probe in probes {
            let recorded = self.mesh.record(&probe, fault);
            self.mesh.engine.observe(&recorded);
        }
        let asks = self.mesh.engine.probe_requests().to_vec();
        for ask in &asks {
            self.answer(ask, round, fault);
        }
        self.requests.push(asks);
        self.mesh.finish(round)
    }

    fn answer(&mut self, ask: &ProbeRequest, round: i64, fault: &Fault<'_>) {
        let node = |pod: &str| pod.replace("ingress-", "n");
        let (front, entry, node) = match &ask.destination {
            RequestDestination::Front(front) => (Some(front.to_string()), None, None),
            RequestDestination::Entry(pod) => (None, Some(pod.to_string()), Some(node(pod.as_str()))),
            RequestDestination::Peer(peer) => (None, None, Some(peer.to_string())),
            RequestDestination::Name(_) | RequestDestination::NodePort(_) => return,
        };
        let probe = Probe {
            client: ask
                .vantage
                .node()
                .map_or_else(|| ask.vantage.to_string(), ToString::to_string),
            channel: ask.channel.label(),
            target: ask.target.to_string(),
            front,
            entry,
            node,
            at_us: (round + 1) * INTERVAL - 100_000,
        };
        let mut recorded = self.mesh.record(&probe, fault);
        recorded.observation.assignment = Some(ask.id.clone());
        self.mesh.engine.observe(&recorded);
    }
}

fn vip_only(probe: &Probe) -> bool {
    probe.channel == "vip" && probe.front.as_deref() == Some(FRONT)
}

fn balancer_times_out(probe: &Probe) -> Option<(&'static str, &'static str)> {
    (probe.front.as_deref() == Some(FRONT)).then_some(("connect", "connect_timeout"))
}

#[test]
fn a_tie_between_the_address_and_the_endpoints_is_broken_by_direct_probes_and_the_verdict_says_so() {
    let mut run = FollowUpSimulation::new(cluster(4, &[1, 2], 1, "Cluster"), &vip_only);
    for round in 0..2 {
        let view = run.round(round, &|_| None);
        assert!(
            view.probe_requests.is_empty(),
            "nothing is undecided: {:?}",
            view.probe_requests
        );
    }
    let mut views = Vec::new();
    for round in 2..8 {
        views.push(run.round(round, &balancer_times_out));
    }
    // The view shows the requested probes and their purpose.
    let seen: Vec<String> = views
        .iter()
        .flat_map(|view| &view.probe_requests)
        .map(|ask| format!("{}: {}", ask.subject, ask.purpose()))
        .collect();
    assert!(
        seen.iter()
            .any(|ask| ask.starts_with("203.0.113.10:80: direct from n") && ask.contains(", would separate ")),
        "{seen:?}"
    );
    let direct = |asks: &Vec<ProbeRequest>| asks.iter().any(|ask| ask.channel == Channel::Direct);
    assert!(run.requests.iter().any(direct), "{:?}", run.requests);
    let last = views
        .last()
        .map(|view| view.incidents.clone())
        .unwrap_or_default();
    let [incident] = &last[..] else {
        panic!("one incident, got {last:?}")
    };
    assert_eq!(incident.verdict.region.region, "vip");
    let decided = incident.verdict.deciding_probe.clone().unwrap_or_default();
    assert!(
        decided.starts_with("follow-up probe direct from n") && decided.ends_with("target ruled out"),
        "{decided:?}"
    );
}

#[test]
fn nothing_is_said_to_have_decided_where_the_base_probes_would_have_done() {
    let mut run = FollowUpSimulation::new(cluster(4, &[1, 2], 1, "Local"), &|_| true);
    for round in 0..2 {
        run.round(round, &|_| None);
    }
    let fault = refused_without_local(&["n1", "n2"]);
    let mut decided = Vec::new();
    for round in 2..8 {
        let view = run.round(round, &fault);
        decided.extend(view.incidents.into_iter().map(|i| i.verdict.deciding_probe));
    }
    assert!(
        !decided.is_empty() && decided.iter().all(Option::is_none),
        "{decided:?}"
    );
}

/// Seen in the lab: outside the cluster a ClusterIP may be the private address of another host, which may respond
/// anything.
#[test]
fn a_vantage_outside_is_asked_for_no_address_that_its_own_plan_does_not_lead_to() {
    let mut spec = cluster(4, &[1, 2], 1, "Local");
    spec["vantages"] = json!(["internet:laptop"]);
    for pattern in 0_i64..32 {
        let mut run = FollowUpSimulation::new(spec.clone(), &|_| true);
        for round in 0..20 {
            let lost = round >= 4 && (pattern >> ((round - 4) % 5)) & 1 == 1;
            run.round(round, &|probe| {
                let laptop = probe.client.starts_with("internet:");
                let direct = probe.client == "n4" && probe.entry.as_deref() == Some("ingress-1");
                let chance = round == 4 && direct && probe.channel == "direct";
                match (
                    laptop && probe.front.as_deref() == Some("10.96.0.50:80"),
                    laptop && lost || chance,
                ) {
                    (true, _) => Some(("response", "status")),
                    (_, true) => Some(("connect", "connect_timeout")),
                    _ => None,
                }
            });
        }
        for ask in run.requests.iter().flatten() {
            let outside = ask.vantage.node().is_none();
            let own =
                matches!(&ask.destination, RequestDestination::Front(front) if front.to_string() == FRONT);
            assert!(!outside || own, "pattern {pattern:b}: {ask}");
        }
    }
}

#[test]
fn asked_probes_stay_within_a_tenth_of_the_base_and_end_with_the_question() {
    let mut run = FollowUpSimulation::new(cluster(9, &[1, 2, 3], 1, "Cluster"), &|probe| {
        probe.channel != "direct"
    });
    let dead = |probe: &Probe| {
        (probe.entry.as_deref() == Some("ingress-2")).then_some(("connect", "connect_timeout"))
    };
    for round in 0..2 {
        run.round(round, &|_| None);
    }
    for round in 2..10 {
        run.round(round, &dead);
        let requested = run.requests.last().map_or(0, Vec::len);
        assert!(
            requested * 10 <= run.base_probes,
            "{requested} requested probes next to {} planned ones",
            run.base_probes
        );
    }
    assert!(run.requests.iter().any(|asks| !asks.is_empty()));
    for round in 10..60 {
        run.round(round, &|_| None);
    }
    let view = run.mesh.engine.view(EventTime(60 * INTERVAL));
    assert!(view.probe_requests.is_empty(), "{:?}", view.probe_requests);
}

#[test]
fn where_no_probe_can_settle_a_tie_the_verdict_says_why() {
    let mut spec = cluster(4, &[4], 1, "Local");
    // No prober on the only node with an endpoint, and direct probes are blocked.
    if let Some(node) = spec["nodes"][3].as_object_mut() {
        node.remove("prober");
    }
    let mut run = FollowUpSimulation::new(spec, &|probe| {
        probe.channel != "mesh" || probe.node.as_deref() != Some("n4")
    });
    let forbidden = |probe: &Probe| (probe.channel == "direct").then_some(("connect", "connect_timeout"));
    for round in 0..3 {
        run.round(round, &forbidden);
    }
    let broken = |probe: &Probe| forbidden(probe).or_else(|| balancer_times_out(probe));
    let mut separating = Vec::new();
    for round in 3..9 {
        let view = run.round(round, &broken);
        separating = view
            .incidents
            .into_iter()
            .flat_map(|i| i.verdict.separating_probes)
            .collect();
    }
    let text = separating.join("\n");
    assert!(text.contains("cannot be requested"), "{text}");
    assert!(text.contains("no prober on n4"), "{text}");
}

#[test]
fn a_rejected_handshake_through_the_address_asks_for_a_proxy_header() {
    let mut run = FollowUpSimulation::new(cluster(4, &[1, 2], 1, "Cluster"), &|_| true);
    for round in 0..2 {
        run.round(round, &|_| None);
    }
    let headless = |probe: &Probe| {
        (probe.front.as_deref() == Some(FRONT) && probe.channel == "vip").then_some(("first-byte", "eof"))
    };
    let mut last = Vec::new();
    for round in 2..12 {
        last = run.round(round, &headless).incidents;
    }
    let proxied = |asks: &Vec<ProbeRequest>| asks.iter().any(|ask| ask.channel == Channel::Proxied);
    assert!(run.requests.iter().any(proxied), "{:?}", run.requests);
    let regions: Vec<String> = last.iter().map(|i| i.verdict.region.to_string()).collect();
    assert_eq!(json!(regions), json!(["proto-vip"]));
}

/// Probes of a host with a PROXY header, which its front refuses.
fn refused_headers(day: &mut ScriptedMesh, round: i64, nodes: &[usize], refusal: (&str, &str)) {
    for (turn, node) in (0..).zip(nodes) {
        let line = json!({"channel": "proxied", "target": "http://shop.example.test/", "front": "10.96.0.50:80",
            "assignment": format!("ask|{turn}")});
        day.probe(
            round,
            *node,
            2_000_000 + turn * 10_000,
            with_outcome(line, Some(refusal)),
        );
    }
}

#[test]
fn a_front_that_wants_no_proxy_header_is_not_broken_because_it_refuses_one() {
    let mut day = ScriptedMesh::new(shop_spec(&[("shop-1", 0), ("shop-2", 3)]));
    for round in 0..40 {
        probe_shop(&mut day, round, 200, None);
        if round >= 12 {
            refused_headers(&mut day, round, &[1, 1, 2, 4], ("first-byte", "eof"));
        }
        let view = day.close(round, &ALL);
        assert_eq!(open_sentences(&view), [""; 0], "round {round}");
        assert!(view.investigations.is_empty(), "{:?}", view.investigations);
    }
}

/// Found on a real cluster, with a certificate of a private CA: the probes with a header, which plain HTTP answered, were named as an
/// address that does not speak TLS.
#[test]
fn a_front_that_presents_a_wrong_certificate_wants_no_proxy_header() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1, 2], 1, "Cluster"));
    let untrusted = |probe: &Probe| match probe.channel {
        "vip" if probe.front.as_deref() == Some(FRONT) => Some(("tls", "certificate_untrusted")),
        "direct" => Some(("tls", "certificate_untrusted")),
        "proxied" => Some(("tls", "not_tls")),
        _ => None,
    };
    let mut named = BTreeSet::new();
    for round in 0..20 {
        let mut probes = mesh.probes(round);
        if (6..12).contains(&round) {
            let through: Vec<Probe> = probes.iter().filter(|probe| vip_only(probe)).cloned().collect();
            probes.extend(through.into_iter().map(|probe| Probe {
                channel: "proxied",
                ..probe
            }));
        }
        for probe in probes {
            let recorded = mesh.record(&probe, &|probe| untrusted(probe).filter(|_| round >= 5));
            mesh.engine.observe(&recorded);
        }
        let view = mesh.finish(round);
        let open = view.incidents.into_iter();
        let subjects = view.investigations.into_iter().map(|open| open.subject);
        named.extend(
            subjects
                .chain(open.map(|incident| incident.verdict.subject))
                .map(|subject| subject.to_string()),
        );
    }
    assert_eq!(named, BTreeSet::from(["http://h0.example.test/".to_owned()]));
}
