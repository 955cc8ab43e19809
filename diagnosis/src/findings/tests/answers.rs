//! Incident I3: DNS answers for each name, and which differences are findings.

mod cached;

use serde_json::json;

use super::*;
use crate::findings::FindingKind;

const DNS: &str = "10.96.0.10:53";
const NODE_LOCAL: &str = "169.254.20.10:53";
const PUBLIC: &str = "198.51.100.1:53";
const BALANCER: &str = "203.0.113.10";
const CLUSTER_IP: &str = "10.96.0.50";
const NODES: [&str; 3] = ["n1/pod", "n2/pod", "n3/pod"];

/// In each round, every vantage gets the answer that `script` returns for it.
fn rounds(
    stage: &mut FindingsFixture,
    rounds: std::ops::Range<i64>,
    script: impl Fn(i64, &str, &mut FindingsFixture),
) -> View {
    let mut view = None;
    for round in rounds {
        for vantage in NODES {
            script(round, vantage, stage);
        }
        view = Some(stage.close(round));
    }
    view.unwrap()
}

#[test]
fn a_name_that_is_the_same_everywhere_is_no_finding_and_shown_with_its_meaning() {
    let mut stage = FindingsFixture::new(&cluster());
    let view = rounds(&mut stage, 0..4, |round, vantage, stage| {
        stage.tell(round, vantage, "a.example.test", DNS, &[BALANCER]);
        stage.tell(round, vantage, "a.example.test", PUBLIC, &[BALANCER]);
    });
    assert_eq!(view.findings, []);
    let name = &view.names[0];
    assert_eq!((name.name.as_str(), name.answers.len()), ("a.example.test", 2));
    assert_eq!(
        name.answers[0].meaning,
        "the load balancer of Service ingress/nginx"
    );
    assert_eq!(name.answers[0].vantages, vantages(&NODES));
    assert!(name.answers[1].public && !name.answers[0].public);
}

#[test]
fn an_override_that_every_resolver_inside_has_is_no_finding() {
    let mut stage = FindingsFixture::new(&cluster());
    let view = rounds(&mut stage, 0..4, |round, vantage, stage| {
        stage.tell(round, vantage, "a.example.test", DNS, &[CLUSTER_IP]);
        stage.tell(round, vantage, "a.example.test", PUBLIC, &[BALANCER]);
    });
    assert_eq!(view.findings, []);
}

#[test]
fn an_override_missing_on_one_nodes_resolver_names_resolver_and_node_after_two_rounds() {
    let mut spec = cluster();
    spec["platform"] = json!("kubernetes");
    let mut stage = FindingsFixture::new(&spec);
    let script = |round: i64, vantage: &str, stage: &mut FindingsFixture| {
        let answer = if vantage == "n3/pod" { BALANCER } else { CLUSTER_IP };
        stage.tell(round, vantage, "a.example.test", NODE_LOCAL, &[answer]);
        stage.tell(round, vantage, "a.example.test", PUBLIC, &[BALANCER]);
    };
    assert_eq!(kinds(&rounds(&mut stage, 0..1, script)), [""; 0]);
    let view = rounds(&mut stage, 1..2, script);
    assert_eq!(kinds(&view), ["missing-override"]);
    let finding = &view.findings[0];
    assert_eq!(finding.vantages, vantages(&["n3/pod"]));
    assert_eq!(finding.subject, "a.example.test at 169.254.20.10:53");
    assert!(
        finding
            .sentence
            .starts_with("the node-local resolver 169.254.20.10 gives n3/pod"),
        "{}",
        finding.sentence
    );
    let remedy = &finding.remedies[0];
    assert_eq!(
        remedy.command.as_deref(),
        Some("kubectl -n kube-system edit configmap node-local-dns")
    );
    assert!(
        remedy
            .action
            .contains("rewrite stop name exact a.example.test nginx.ingress.svc.cluster.local answer auto"),
        "{}",
        remedy.action
    );
    assert!(remedy.ineffective_when.is_some());
    assert_eq!(
        finding.targets.len(),
        2,
        "the host and the dns target of its name"
    );
}

#[test]
fn an_override_missing_on_one_of_two_resolvers_is_one_finding_with_all_who_are_told_so() {
    let mut stage = FindingsFixture::new(&cluster());
    let view = rounds(&mut stage, 0..3, |round, vantage, stage| {
        stage.tell(round, vantage, "a.example.test", DNS, &[CLUSTER_IP]);
        stage.tell(round, vantage, "a.example.test", "10.96.0.11:53", &[BALANCER]);
    });
    assert_eq!(kinds(&view), ["missing-override"]);
    assert_eq!(view.findings[0].vantages, vantages(&NODES));
    assert!(view.findings[0].subject.ends_with("10.96.0.11:53"));
}

#[test]
fn a_name_left_out_where_all_its_siblings_are_led_inside_lacks_its_override() {
    let mut stage = FindingsFixture::new(&cluster());
    let view = rounds(&mut stage, 0..3, |round, vantage, stage| {
        stage.tell(round, vantage, "a.example.test", DNS, &[CLUSTER_IP]);
        stage.tell(round, vantage, "b.example.test", DNS, &[CLUSTER_IP]);
        stage.tell(round, vantage, "c.example.test", DNS, &[BALANCER]);
    });
    assert_eq!(kinds(&view), ["missing-override"]);
    assert_eq!(view.findings[0].subject, "c.example.test at 10.96.0.10:53");
    assert!(
        view.findings[0]
            .evidence
            .iter()
            .any(|line| line.contains("a.example.test and b.example.test"))
    );
}

#[test]
fn an_answer_that_leads_to_another_service_shadows_the_name() {
    let mut stage = FindingsFixture::new(&cluster());
    let view = rounds(&mut stage, 0..3, |round, vantage, stage| {
        stage.tell(round, vantage, "a.example.test", DNS, &["10.96.0.60"]);
    });
    assert_eq!(kinds(&view), ["shadowed-name"]);
    assert!(
        view.findings[0]
            .evidence
            .iter()
            .any(|line| line.contains("not to Service shop/other"))
    );
}

#[test]
fn an_answer_that_is_neither_the_public_one_nor_a_front_shadows_the_name() {
    let mut stage = FindingsFixture::new(&cluster());
    let view = rounds(&mut stage, 0..3, |round, vantage, stage| {
        stage.tell(round, vantage, "a.example.test", DNS, &["192.0.2.99"]);
        stage.tell(round, vantage, "a.example.test", PUBLIC, &[BALANCER]);
    });
    assert_eq!(kinds(&view), ["shadowed-name"]);
}

#[test]
fn rotation_and_subsets_of_one_pool_are_no_difference() {
    let pool = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"];
    let mut stage = FindingsFixture::new(&cluster());
    let view = rounds(&mut stage, 0..12, |round, vantage, stage| {
        let turn = usize::try_from(round).unwrap() + vantage.len();
        let node = usize::from(vantage == "n2/pod");
        stage.tell(round, vantage, "a.example.test", DNS, &[pool[(turn + node) % 4]]);
        stage.tell(
            round,
            vantage,
            "a.example.test",
            PUBLIC,
            &[pool[(turn + 2) % 4], pool[(turn + 3) % 4]],
        );
    });
    assert_eq!(view.findings, []);
}

#[test]
fn a_name_served_from_elsewhere_in_the_world_is_never_compared_with_itself() {
    let mut stage = FindingsFixture::new(&cluster());
    let view = rounds(&mut stage, 0..6, |round, vantage, stage| {
        // GeoDNS: each resolver gets the nearest edge.
        stage.tell(round, vantage, "a.example.test", DNS, &["192.0.2.1"]);
        stage.tell(round, vantage, "a.example.test", "10.96.0.11:53", &["192.0.2.77"]);
        stage.tell(round, vantage, "a.example.test", PUBLIC, &["192.0.2.200"]);
    });
    assert_eq!(view.findings, []);
}

#[test]
fn answers_that_change_their_nature_back_and_forth_are_flapping() {
    let mut stage = FindingsFixture::new(&cluster());
    let view = rounds(&mut stage, 0..6, |round, vantage, stage| {
        let answer = if round % 2 == 0 { BALANCER } else { CLUSTER_IP };
        stage.tell(round, vantage, "a.example.test", DNS, &[answer]);
    });
    assert_eq!(kinds(&view), ["flapping-answer"]);
    assert_eq!(view.findings[0].vantages, vantages(&NODES));
}

#[test]
fn one_move_from_one_place_to_another_is_no_flapping() {
    let mut stage = FindingsFixture::new(&cluster());
    let view = rounds(&mut stage, 0..8, |round, vantage, stage| {
        let answer = if round < 4 { BALANCER } else { CLUSTER_IP };
        stage.tell(round, vantage, "a.example.test", DNS, &[answer]);
    });
    assert_eq!(view.findings, []);
}

#[test]
fn two_inside_answers_for_a_name_of_nobody_here_differ_after_four_rounds() {
    let mut stage = FindingsFixture::new(&cluster());
    let script = |round: i64, vantage: &str, stage: &mut FindingsFixture| {
        let answer = if vantage == "n1/pod" {
            "10.20.30.40"
        } else {
            "10.20.30.41"
        };
        stage.tell(round, vantage, "db.example.test", NODE_LOCAL, &[answer]);
    };
    assert_eq!(kinds(&rounds(&mut stage, 0..3, script)), [""; 0]);
    let view = rounds(&mut stage, 3..4, script);
    assert_eq!(kinds(&view), ["differing-answers"]);
}

#[test]
fn a_private_address_in_the_public_answer_is_said_to_be_out_of_the_cas_reach() {
    let mut stage = FindingsFixture::new(&cluster());
    let view = rounds(&mut stage, 0..2, |round, vantage, stage| {
        stage.tell(round, vantage, "a.example.test", PUBLIC, &["10.0.0.7"]);
    });
    assert_eq!(kinds(&view), ["private-published"]);
    assert_eq!(FindingKind::PrivatePublished.catalogue(), "F29");
}

#[test]
fn a_name_that_does_not_exist_on_one_resolver_and_leads_inside_on_another_lacks_its_override() {
    let mut stage = FindingsFixture::new(&cluster());
    let script = |round: i64, vantage: &str, stage: &mut FindingsFixture| {
        stage.tell(round, vantage, "a.example.test", DNS, &[CLUSTER_IP]);
        stage.tell(round, vantage, "a.example.test", "10.96.0.11:53", &[]);
    };
    let soon = rounds(&mut stage, 0..6, script);
    assert_eq!(kinds(&soon), [""; 0], "a cache may hold the absence for 30 s");
    let view = rounds(&mut stage, 6..12, script);
    assert_eq!(kinds(&view), ["missing-override"]);
    assert!(
        view.findings[0].sentence.contains("(no address)"),
        "{}",
        view.findings[0].sentence
    );
}

#[test]
fn a_finding_goes_when_its_evidence_is_too_old() {
    let mut stage = FindingsFixture::new(&cluster());
    let view = rounds(&mut stage, 0..3, |round, vantage, stage| {
        stage.tell(round, vantage, "a.example.test", DNS, &["10.96.0.60"]);
    });
    assert_eq!(kinds(&view), ["shadowed-name"]);
    let view = rounds(&mut stage, 3..40, |round, vantage, stage| {
        stage.tell(round, vantage, "b.example.test", DNS, &[BALANCER]);
    });
    assert_eq!(view.findings, []);
    assert_eq!(view.names.len(), 1, "no target uses the other name now");
}

#[test]
fn the_order_of_answers_within_a_round_does_not_matter() {
    let lines = |round: i64| -> Vec<(&str, Value)> {
        vec![
            ("n1/pod", told("a.example.test", DNS, &[CLUSTER_IP])),
            ("n2/pod", told("a.example.test", DNS, &[BALANCER])),
            ("n2/pod", told("b.example.test", DNS, &["10.96.0.60"])),
            (
                "n3/pod",
                told(
                    "a.example.test",
                    DNS,
                    if round % 2 == 0 {
                        &["10.9.9.9"]
                    } else {
                        &[BALANCER]
                    },
                ),
            ),
            ("n3/pod", told("db.example.test", DNS, &[])),
        ]
    };
    let run = |backwards: bool| {
        let mut stage = FindingsFixture::new(&cluster());
        let mut view = None;
        for round in 0..6 {
            let mut all: Vec<_> = lines(round)
                .into_iter()
                .map(|(vantage, line)| stage.record(round, vantage, line))
                .collect();
            if backwards {
                all.reverse();
            }
            for recorded in &all {
                stage.engine.observe(recorded);
            }
            view = Some(stage.close(round));
        }
        let view = view.unwrap();
        (view.findings, view.names)
    };
    assert_eq!(run(false), run(true));
    assert!(!run(false).0.is_empty());
}
