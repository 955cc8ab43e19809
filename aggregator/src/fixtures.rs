//! Views made by hand: what the engine says in states that page and metrics must show well.

use parallax_diagnosis::{
    findings::{self, AffectedClients, Finding, FindingKind, Hazard, HazardKind},
    verdict::{
        EvidenceRow, Fact, Incident, IncidentState, NamedCause, NotExcluded, RegionRef, Remedy, RuledOut,
        Subject, Verdict,
    },
    view::{CellState, Counters, Investigation, MatrixCell, MatrixRow, VantageState, VantageView, View},
};
use parallax_model::{Channel, EventTime, Front, Micros, Placement, Probability, Round, Vantage};

pub(crate) const NOW: EventTime = EventTime(1_795_179_600_000_000);

pub(crate) fn ago(seconds: u64) -> EventTime {
    NOW.minus(Micros::from_secs(seconds))
}

pub(crate) fn vantage(name: &str, state: VantageState) -> VantageView {
    VantageView {
        vantage: name.parse().unwrap(),
        last_seen: match state {
            VantageState::Waiting => None,
            VantageState::Reporting => Some(ago(2)),
            VantageState::Silent => Some(ago(187)),
        },
        state,
    }
}

pub(crate) fn cell(vantage: usize, state: CellState, placement: Placement) -> MatrixCell {
    let (probes, failures) = match state {
        CellState::Unknown => (0, 0),
        CellState::Ok => (12, 0),
        CellState::Flaky => (12, 5),
        CellState::Failing => (12, 12),
    };
    MatrixCell {
        vantage,
        state,
        placement,
        last: (state != CellState::Unknown).then(|| ago(3)),
        probes,
        failures,
        failure: (failures > 0).then(|| "connection refused in connect".to_owned()),
    }
}

pub(crate) fn row(target: &str, front: Option<&str>, states: &[CellState]) -> MatrixRow {
    MatrixRow {
        target: target.parse().unwrap(),
        fronts: front.iter().map(|f| f.parse::<Front>().unwrap()).collect(),
        never_ok: false,
        new: false,
        pending: false,
        baseline: Vec::new(),
        cells: states
            .iter()
            .enumerate()
            .map(|(vantage, state)| cell(vantage, *state, Placement::NoLocal))
            .collect(),
    }
}

/// Four nodes that wait, three targets.
pub(crate) fn waiting() -> View {
    let names = ["n1/pod", "n2/pod", "n3/pod", "n4/pod"];
    View {
        at: NOW,
        interval: Micros::from_secs(5),
        judged: None,
        vantages: names
            .iter()
            .map(|name| vantage(name, VantageState::Waiting))
            .collect(),
        matrix: [
            "http://a.example.test/",
            "http://b.example.test/",
            "tcp://db.example.test:5432",
        ]
        .iter()
        .map(|target| row(target, None, &[CellState::Unknown; 4]))
        .collect(),
        incidents: Vec::new(),
        investigating: Vec::new(),
        findings: Vec::new(),
        hazards: Vec::new(),
        not_excluded: Vec::new(),
        names: Vec::new(),
        exposures: Vec::new(),
        forbidden: Vec::new(),
        asks: Vec::new(),
        counters: Counters::default(),
    }
}

/// The same four nodes, and all is well.
pub(crate) fn healthy() -> View {
    let mut view = waiting();
    for vantage in &mut view.vantages {
        vantage.state = VantageState::Reporting;
        vantage.last_seen = Some(ago(1));
    }
    for row in &mut view.matrix {
        row.fronts = vec!["203.0.113.10:80".parse().unwrap()];
        row.cells = (0..4)
            .map(|i| cell(i, CellState::Ok, Placement::CrossNode))
            .collect();
    }
    view.judged = Some(Round(NOW.0 / 5_000_000 - 1));
    view.counters.counted = 48_210;
    view
}

/// Fifty hosts behind a balancer with policy Local: nodes without an ingress pod are refused.
pub(crate) fn outage() -> View {
    use CellState::{Failing, Ok};
    let mut view = healthy();
    view.vantages = [
        "n1/pod",
        "n2/pod",
        "n3/pod",
        "n4/pod",
        "n5/pod",
        "internet:laptop",
    ]
    .iter()
    .map(|name| vantage(name, VantageState::Reporting))
    .collect();
    let hosts: Vec<_> = (0..50)
        .map(|i| format!("http://shop-{i:02}.example.test/"))
        .collect();
    view.matrix = hosts
        .iter()
        .map(|host| {
            row(
                host,
                Some("203.0.113.10:80"),
                &[Ok, Failing, Failing, Ok, Failing, Ok],
            )
        })
        .collect();
    for (target, front) in [
        ("http://10.96.0.50:80/", "10.96.0.50:80"),
        ("dns://kubernetes.default.svc", "10.96.0.10:53/udp"),
        ("tcp://db.example.test:5432", "198.51.100.7:5432"),
    ] {
        view.matrix.push(row(target, Some(front), &[Ok; 6]));
    }
    let mut never = row(
        "https://new.example.test/",
        Some("203.0.113.10:443"),
        &[Failing; 6],
    );
    never.never_ok = true;
    view.matrix.push(never);
    view.incidents = vec![local_policy(&hosts)];
    view
}

fn local_policy(hosts: &[String]) -> Incident {
    Incident {
        id: "i-5f3a9c01".to_owned(),
        state: IncidentState::Open,
        since: ago(252),
        opened: ago(240),
        occurrences: 2,
        departed: None,
        verdict: Verdict {
            subject: Subject::Front("203.0.113.10:80".parse().unwrap()),
            region: region("nolocal", &[]),
            class: vec![region("nolocal", &[])],
            probability: Probability::new(0.9812).unwrap(),
            causes: vec![
                cause("F1", "externalTrafficPolicy: Local on a node without an endpoint", 0.91),
                cause("F3", "stale IPVS entry after the endpoint moved", 0.07),
            ],
            sentence: "clients on nodes without an ingress pod are refused by their own node: 203.0.113.10:80 has \
                       externalTrafficPolicy: Local and kube-proxy drops what it cannot deliver locally"
                .to_owned(),
            evidence: vec![
                evidence(
                    "through 203.0.113.10:80 from nodes without an endpoint (n2, n3, n5)",
                    (Channel::Vip, Placement::NoLocal),
                    (150, 150),
                    Some("refused"),
                ),
                evidence(
                    "through 203.0.113.10:80 from nodes with an endpoint (n1, n4)",
                    (Channel::Vip, Placement::SameNode),
                    (100, 0),
                    None,
                ),
                evidence(
                    "straight to the ingress pods from n2, n3 and n5",
                    (Channel::Direct, Placement::NoLocal),
                    (90, 1),
                    Some("connect_timeout"),
                ),
                evidence("from outside the cluster", (Channel::Vip, Placement::Outside), (50, 0), None),
            ],
            locality: vec![
                "n2 answers for 203.0.113.10 itself: the refusal arrived with an untouched TTL of 64".to_owned(),
            ],
            ruled_out: vec![
                RuledOut {
                    region: region("client", &["n2"]),
                    because: "n3 and n5 fail alike, and n2 reaches every pod directly (89 of 90)".to_owned(),
                },
                RuledOut {
                    region: region("backend", &["ingress-1"]),
                    because: "clients on n1 and n4 reach it in 100 of 100 probes".to_owned(),
                },
            ],
            separating: Vec::new(),
            decided_by: None,
            answers: Vec::new(),
            facts: vec![
                Fact {
                    text: "Service ingress/nginx has externalTrafficPolicy: Local".to_owned(),
                    multiplier: 8.0,
                    cause: None,
                },
                Fact {
                    text: "2 of 5 nodes have a ready endpoint".to_owned(),
                    multiplier: 3.0,
                    cause: None,
                },
                Fact {
                    text: "no node was added within the last hour".to_owned(),
                    multiplier: 0.5,
                    cause: None,
                },
            ],
            remedies: vec![
                Remedy {
                    action: "Run an ingress pod on every node".to_owned(),
                    command: Some("kubectl -n ingress patch deployment nginx --type=json -p '[{\"op\":\"replace\",\"path\":\"/spec/replicas\",\"value\":5}]'".to_owned()),
                    price: "three more pods; the client's address stays visible".to_owned(),
                    not_when: Some("the other nodes carry taints".to_owned()),
                },
                Remedy {
                    action: "Let every node pass traffic on".to_owned(),
                    command: Some("kubectl -n ingress patch service nginx -p '{\"spec\":{\"externalTrafficPolicy\":\"Cluster\"}}'".to_owned()),
                    price: "the ingress sees node addresses instead of client addresses".to_owned(),
                    not_when: None,
                },
            ],
            not_excluded: Vec::new(),
            targets: hosts.iter().map(|host| host.parse().unwrap()).collect(),
        },
    }
}

/// All targets are reachable, and there is something to say all the same.
pub(crate) fn warned() -> View {
    let mut view = healthy();
    let remedy = || Remedy {
        action: "do something about <it>".to_owned(),
        command: Some("kubectl get nodes".to_owned()),
        price: "a minute".to_owned(),
        not_when: Some("nothing can be done".to_owned()),
    };
    view.findings = vec![Finding {
        id: "exposed:http://wiki.example.test/#at=203.0.113.10:80".to_owned(),
        kind: FindingKind::Exposed,
        severity: findings::Severity::Critical,
        subject: "wiki.example.test at 203.0.113.10:80".to_owned(),
        vantages: vec!["n1/pod".parse().unwrap()],
        sentence: "wiki.example.test of ingress class inner is served by 203.0.113.10:80 of class public"
            .to_owned(),
        evidence: vec!["n1/pod: answered 200, the same body as at its own front".to_owned()],
        remedies: vec![remedy()],
        targets: vec!["http://wiki.example.test/".parse().unwrap()],
        since: ago(90),
    }];
    view.hazards = vec![Hazard {
        id: "local-policy:ingress/nginx".to_owned(),
        kind: HazardKind::LocalPolicy,
        severity: findings::Severity::Warning,
        subject: "Service ingress/nginx".to_owned(),
        who: AffectedClients {
            nodes: vec!["n3".parse().unwrap()],
            of: 4,
            words: "pods on 1 of 4 nodes (n3)".to_owned(),
        },
        sentence: "pods on 1 of 4 nodes (n3) would be refused at 203.0.113.10".to_owned(),
        evidence: vec!["kube-proxy runs in IPVS mode".to_owned()],
        remedies: vec![remedy()],
    }];
    view.not_excluded = vec![NotExcluded {
        id: "F8".to_owned(),
        title: "the balancer's health checks come from its own address".to_owned(),
        needed: "a vantage outside the cluster that reports".to_owned(),
    }];
    view
}

/// An honest tie, an open question, a silent node, closed incidents.
pub(crate) fn troubled() -> View {
    use CellState::{Failing, Flaky, Ok, Unknown};
    let mut view = outage();
    view.vantages[3] = vantage("n4/pod", VantageState::Silent);
    view.matrix = vec![
        row(
            "http://a.example.test/",
            Some("203.0.113.10:80"),
            &[Ok, Flaky, Ok, Unknown, Ok, Ok],
        ),
        row(
            "https://a.example.test/",
            Some("203.0.113.10:443"),
            &[Ok, Flaky, Flaky, Unknown, Ok, Ok],
        ),
        row(
            "tcp://db.example.test:5432",
            Some("198.51.100.7:5432"),
            &[Failing, Failing, Failing, Unknown, Failing, Ok],
        ),
    ];
    let mut tie = local_policy(&[
        "http://a.example.test/".to_owned(),
        "https://a.example.test/".to_owned(),
    ]);
    tie.id = "i-0badcafe".to_owned();
    tie.occurrences = 1;
    tie.verdict.sentence =
        "n2 loses packets to more than one front; whether on its way out or on the way back \
                            cannot be told yet"
            .to_owned();
    tie.verdict.subject = Subject::Node("n2".parse().unwrap());
    tie.verdict.region = region("client", &["n2"]);
    tie.verdict.class = vec![region("client", &["n2"]), region("pair", &["n2", "n1"])];
    tie.verdict.probability = Probability::new(0.74).unwrap();
    tie.verdict.causes.clear();
    tie.verdict.facts.clear();
    tie.verdict.remedies.clear();
    tie.verdict.separating =
        vec!["ask n2 for an entry on a third node; there is none while n4 is silent".to_owned()];
    tie.verdict.evidence.truncate(2);
    let mut closed = local_policy(&["http://b.example.test/".to_owned()]);
    closed.id = "i-77aa01ff".to_owned();
    closed.state = IncidentState::Closed { closed: ago(4_000) };
    closed.since = ago(8_000);
    view.incidents = vec![tie, closed];
    view.investigating = vec![Investigation {
        subject: Subject::Front("198.51.100.7:5432".parse().unwrap()),
        sentence: "no answer to the connection attempt from every node, fine from outside".to_owned(),
        since: ago(9),
        excused: false,
    }];
    view.counters = Counters {
        counted: 120_344,
        late: 17,
        unknown: 2,
        implausible: 0,
        own_faults: 41,
    };
    view
}

/// Forty vantages with long names.
pub(crate) fn wide() -> View {
    let mut view = outage();
    view.vantages = (0..40)
        .map(|i| {
            vantage(
                &format!("ip-10-0-{i}-17.eu-central-1/pod"),
                VantageState::Reporting,
            )
        })
        .collect();
    for row in &mut view.matrix {
        let cells = row.cells.clone();
        row.cells = (0..40)
            .map(|vantage| MatrixCell {
                vantage,
                ..cells[vantage % cells.len()].clone()
            })
            .collect();
    }
    view
}

/// Five hundred nodes, of which twenty-five ask for each target; those without an endpoint fail at the first front.
pub(crate) fn sampled() -> View {
    let mut view = outage();
    view.vantages = (0..500)
        .map(|i| vantage(&format!("node-{i:03}/pod"), VantageState::Reporting))
        .collect();
    for (n, row) in view.matrix.iter_mut().enumerate() {
        let broken = row.cells.iter().any(|cell| cell.state == CellState::Failing);
        row.cells = (0..25)
            .map(|i| {
                let placement = if i < 3 {
                    Placement::SameNode
                } else {
                    Placement::NoLocal
                };
                let failing = broken && placement == Placement::NoLocal;
                let state = if failing {
                    CellState::Failing
                } else {
                    CellState::Ok
                };
                cell(n + i * 17, state, placement)
            })
            .collect();
    }
    view
}

pub(crate) fn region(name: &str, members: &[&str]) -> RegionRef {
    RegionRef {
        region: name.to_owned(),
        members: members.iter().map(ToString::to_string).collect(),
    }
}

fn cause(id: &str, title: &str, probability: f64) -> NamedCause {
    NamedCause {
        id: id.to_owned(),
        title: title.to_owned(),
        probability: Probability::new(probability).unwrap(),
    }
}

fn evidence(
    who: &str,
    (channel, placement): (Channel, Placement),
    (probes, failures): (u64, u64),
    kind: Option<&str>,
) -> EvidenceRow {
    EvidenceRow {
        who: who.to_owned(),
        channel,
        placement: Some(placement),
        probes,
        failures,
        kinds: kind.map(|kind| (kind.to_owned(), failures)).into_iter().collect(),
        predicted: failures * 2 > probes,
    }
}

/// A vantage by its written form.
pub(crate) fn named(text: &str) -> Vantage {
    text.parse().unwrap()
}
