use parallax_model::{Channel, FailureKind, Placement};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    catalogue::{
        self, ControllerPresence, CrossingClients,
        table::{ContingencyTable, TableRow},
    },
    inference::kind_profiles::KindProfile,
    regions::RegionKind,
    topology::{Topology, TopologySpec},
};

fn topology(platform: &str, ready: [bool; 2]) -> Topology {
    let spec: TopologySpec = serde_json::from_value(json!({
        "platform": platform,
        "nodes": [{"name": "n1", "readiness": "Ready"}, {"name": "n2", "readiness": "Ready"}],
        "services": [{"namespace": "shop", "name": "web", "clusterIPs": ["10.96.0.7"],
            "ports": [{"port": 80, "targetPort": 8080}], "endpoints": [
                {"pod": "web-1", "address": "10.244.1.10", "node": "n1", "ready": ready[0]},
                {"pod": "web-2", "address": "10.244.2.10", "node": "n2", "ready": ready[1]}]}],
    }))
    .unwrap();
    Topology::try_from(spec).unwrap()
}

fn flag() -> impl Strategy<Value = Option<bool>> {
    prop::option::of(any::<bool>())
}

/// A row as the engine creates it: at least one probe, and at most as many failures as probes.
fn row() -> impl Strategy<Value = TableRow> {
    let reach = prop::sample::select(vec![
        PredictedFailure::Certain,
        PredictedFailure::Possible,
        PredictedFailure::Outside,
    ]);
    let placement = prop::option::of(prop::sample::select(vec![
        Placement::NoLocal,
        Placement::SameNode,
    ]));
    let channel = prop::sample::select(Channel::ALL.to_vec());
    let part = prop::sample::select(vec![TablePart::Own, TablePart::Everywhere]);
    let members = (flag(), flag(), flag());
    (part, channel, reach, placement, members, 1_u64..40, 0_u64..40).prop_map(
        |(part, channel, reach, placement, (from_member, to_member, within), probes, failures)| TableRow {
            key: RowKey {
                part,
                channel,
                prediction: reach,
                placement,
                from_member,
                to_member,
                within_node: within,
            },
            probes,
            failures: failures.min(probes),
            kinds: Vec::new(),
        },
    )
}

fn kind() -> impl Strategy<Value = (FailureKind, Option<u16>)> {
    prop::sample::select(vec![
        (FailureKind::ConnectTimeout, None),
        (FailureKind::Refused, None),
        (FailureKind::Status, Some(503)),
        (FailureKind::Status, Some(404)),
        (FailureKind::RedirectLoop, Some(301)),
        (FailureKind::CertificateExpired, None),
        (FailureKind::NotTls, None),
        (FailureKind::ResolveTimeout, None),
        (FailureKind::NxDomain, None),
    ])
}

/// Checks phrases against the rows they require, independent of the claims.
fn check_phrases(sentence: &str, s: &CauseContext<'_>) -> Result<(), String> {
    let own = |meant: &dyn Fn(&RowKey) -> bool| {
        let rows = s.table.rows.iter();
        let rows = rows.filter(|row| row.key.part == TablePart::Own && meant(&row.key));
        rows.fold((0, 0), |(probes, failures), row| {
            (probes + row.probes, failures + row.failures)
        })
    };
    let direct = own(&|key| key.channel == Channel::Direct);
    let passes = |(probes, failures): (u64, u64)| probes > 0 && failures < probes;
    let usable = s.service.is_some_and(|service| !service.usable().is_empty());
    let checks = [
        ("endpoints answer", passes(direct)),
        ("the endpoints behind it do", passes(direct)),
        ("reaches the endpoints directly", passes(direct)),
        ("endpoints fail alike", direct.0 > 0 && direct.0 == direct.1),
        (
            "no connection to the ready Pods",
            direct.0 > 0 && direct.0 == direct.1 && usable,
        ),
        ("reports the Pods as ready", usable),
        ("it is ready nevertheless", usable),
        (
            "the controller answers",
            s.controller == ControllerPresence::Present,
        ),
        (
            "the controller cannot reach",
            s.controller == ControllerPresence::Present,
        ),
        ("has no usable endpoint", !usable),
        (
            "while the others answer",
            passes(own(&|key| key.to_member == Some(false))),
        ),
        (
            "while the Pods on it answer",
            passes(own(&|key| {
                key.from_member == Some(true) && key.prediction == PredictedFailure::Outside
            })),
        ),
        (
            "traffic within a node is fine",
            passes(own(&|key| key.within_node == Some(true))),
        ),
        (
            "answer on the node itself",
            passes(own(&|key| {
                key.to_member == Some(true) && key.from_member == Some(true)
            })),
        ),
        (
            "on any node",
            s.clients.probing > 1 && s.clients.failing == s.clients.probing,
        ),
        ("over both UDP and TCP", s.resolver.symptoms.lost_over_tcp()),
    ];
    for (words, is_so) in checks {
        if sentence.contains(words) && !is_so {
            return Err(format!("{words:?} in {sentence:?}"));
        }
    }
    Ok(())
}

proptest! {
    /// Each clause of each cause, in each of its regions, claims only what a row or the topology shows. No
    /// sentence or remedy contains an unfilled placeholder.
    #[test]
    fn no_cause_says_more_than_its_table(
        rows in prop::collection::vec(row(), 0..6),
        failures in prop::collection::vec((kind(), 1_u32..20), 1..4),
        ready in any::<[bool; 2]>(),
        with_service in any::<bool>(),
        routed in prop::sample::select(vec![ControllerPresence::Present, ControllerPresence::Absent, ControllerPresence::Unknown]),
        (probing, failing) in (1_usize..4, 1_usize..4),
        kubernetes in any::<bool>(),
    ) {
        let topology = topology(if kubernetes { "kubernetes" } else { "none" }, ready);
        let service = topology.services().values().next().filter(|_| with_service);
        for cause in catalogue::all() {
            for region in cause.regions {
                let members = match region {
                    RegionKind::Backend => vec!["web-1".to_owned()],
                    RegionKind::Pair | RegionKind::Zone => vec!["n1".to_owned(), "n2".to_owned()],
                    RegionKind::DnsName => vec!["shop.example.test".to_owned()],
                    _ => vec!["n1".to_owned()],
                };
                let mut situation = CauseContext {
                    region: *region,
                    service,
                    controller: routed,
                    members,
                    failures_by_class: KindProfile::default(),
                    table: ContingencyTable { rows: rows.clone() },
                    clients: CrossingClients { probing, failing: failing.min(probing) },
                    ..CauseContext::new(&topology)
                };
                for ((kind, status), count) in &failures {
                    situation.failures_by_class[crate::ids::class_index(kind.class(*status))] += f64::from(*count);
                    *situation.failures_by_kind.entry((kind.clone(), *status)).or_default() += f64::from(*count);
                }
                if (cause.weight)(&situation) <= 0.0 {
                    continue;
                }
                let clauses = (cause.mechanism)(&situation);
                for clause in &clauses {
                    prop_assert!(
                        clause.claims.iter().all(|claim| claim.holds(&situation)),
                        "{} says {:?}",
                        cause.id,
                        clause
                    );
                }
                let sentence = join_clauses(&clauses);
                prop_assert_eq!(check_phrases(&sentence, &situation), Ok(()), "{} in {}", cause.id, region);
                prop_assert!(!sentence.trim_end().ends_with([':', ',', ';']), "{}: {:?}", cause.id, sentence);
                for remedy in catalogue::remedies(&[(cause, 1.0)], &situation) {
                    let command = remedy.command.unwrap_or_default();
                    prop_assert!(kubernetes || !command.contains("kubectl"), "{}: {}", cause.id, command);
                    for text in [&command, &remedy.action] {
                        for hole in ["NAMESPACE", "ADDRESS", "NODE", "POD", "<", "{}", "  "] {
                            let hole_is_there = text.contains(hole) && !text.contains("</dev/null");
                            prop_assert!(!hole_is_there, "{}: {:?} in {}", cause.id, hole, text);
                        }
                    }
                }
            }
        }
    }
}
