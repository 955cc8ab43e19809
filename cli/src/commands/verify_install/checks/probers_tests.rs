use super::*;
use crate::commands::verify_install::checks::{
    CheckState,
    fixtures::{ago, facts, installed, node, prober, state, workload},
};

#[test]
fn a_report_from_every_selected_node_is_ok() {
    let mut facts = facts();
    assert_eq!(
        check(&facts).unwrap(),
        Finding::ok("3 of 3 nodes have a prober that reports")
    );
    // The DaemonSet does not select it.
    installed(&mut facts).nodes.push(node("virtual", None, false));
    assert_eq!(state(check, &facts), CheckState::Ok);
}

#[test]
fn a_pod_that_does_not_run_is_named_with_its_node_and_reason() {
    let mut facts = facts();
    workload(&mut facts, "prober").desired = Some(4);
    installed(&mut facts).nodes.push(node("n4", None, false));
    let mut pod = facts.cluster.pods.as_ref().unwrap()[0].clone();
    pod.name = "parallax-prober-x".to_owned();
    pod.node = Some("n4".to_owned());
    pod.problem = Some("Pending: ImagePullBackOff".to_owned());
    facts.cluster.pods.as_mut().unwrap().push(pod);
    let finding = check(&facts).unwrap();
    assert_eq!(finding.state, CheckState::NotOk);
    assert_eq!(finding.evidence, "3 of 4 nodes have a prober that reports");
    assert_eq!(
        finding.details,
        ["n4: Pod parallax-prober-x is Pending: ImagePullBackOff"]
    );
    assert!(finding.action.unwrap().contains("image.registry"));
}

#[test]
fn a_prober_without_reports_is_named() {
    let mut facts = facts();
    let probers = &mut installed(&mut facts).probers;
    probers[0].state = ReportState::Waiting;
    probers[0].last_report = None;
    probers[1].state = ReportState::Silent;
    probers[1].last_report = Some(ago(240));
    let finding = check(&facts).unwrap();
    assert_eq!(finding.state, CheckState::NotOk);
    assert_eq!(finding.evidence, "1 of 3 nodes have a prober that reports");
    assert_eq!(
        finding.details,
        [
            "n1/pod: no report yet",
            "n2/pod: silent; the last report came 4 min ago"
        ]
    );
}

#[test]
fn a_daemon_set_that_selects_more_nodes_than_report_is_not_ok_without_any_pod() {
    let mut facts = facts();
    workload(&mut facts, "prober").desired = Some(4);
    assert_eq!(state(check, &facts), CheckState::NotOk);
    workload(&mut facts, "prober").desired = Some(0);
    installed(&mut facts).probers.clear();
    let finding = check(&facts).unwrap();
    assert_eq!(
        (finding.state, finding.evidence.as_str()),
        (CheckState::NotOk, "none of 3 nodes has a prober")
    );
}

#[test]
fn without_the_api_server_a_node_without_a_prober_is_unknown() {
    let mut facts = facts();
    facts.cluster.workloads = Err("forbidden".to_owned());
    assert_eq!(state(check, &facts), CheckState::Ok, "every node has one");
    installed(&mut facts).nodes.push(node("n4", None, false));
    let finding = check(&facts).unwrap();
    assert_eq!(finding.state, CheckState::Unknown);
    assert_eq!(
        finding.details,
        ["n4: no prober; unknown whether the DaemonSet selects the node"]
    );
    installed(&mut facts).probers[0].state = ReportState::Silent;
    assert_eq!(state(check, &facts), CheckState::NotOk);
    facts.aggregator = Err("gone".to_owned());
    assert_eq!(state(check, &facts), CheckState::Unknown);
}

#[test]
fn other_vantages_must_report_too() {
    let mut facts = facts();
    installed(&mut facts).probers.push(prober("n1/host"));
    installed(&mut facts).probers.push(prober("internet:laptop"));
    assert_eq!(
        check(&facts).unwrap(),
        Finding::ok("3 of 3 nodes have a prober that reports, and 2 of 2 other vantages")
    );
    installed(&mut facts).probers[4].state = ReportState::Waiting;
    let finding = check(&facts).unwrap();
    assert_eq!(finding.state, CheckState::NotOk);
    assert_eq!(finding.details, ["internet:laptop: no report yet"]);
}

#[test]
fn without_a_cluster_every_vantage_counts() {
    let mut facts = facts();
    installed(&mut facts).in_cluster = false;
    installed(&mut facts).probers = vec![prober("vpc:local")];
    assert_eq!(
        check(&facts).unwrap(),
        Finding::ok("reports come from 1 of 1 vantage")
    );
    installed(&mut facts).probers.clear();
    let finding = check(&facts).unwrap();
    assert_eq!(finding.state, CheckState::NotOk);
    let advice = finding.action.unwrap();
    assert!(!advice.contains("kubectl"), "{advice}");
}
