//! Whether a prober reports from every node that the DaemonSet selects, and every other vantage, too.

use std::collections::{BTreeMap, BTreeSet};

use parallax_api::installation::{InstallationFacts, InstalledProber, ReportState};
use parallax_model::NodeName;

use super::{Answer, Finding, count, workloads::pod_action};
use crate::commands::verify_install::{
    facts::{Facts, is_node_prober},
    workloads::PodFacts,
};

/// Component of the probers in the Pod network.
const PROBER: &str = "prober";

pub(super) fn check(facts: &Facts) -> Answer<Finding> {
    let answer = facts.aggregator()?;
    let nodes = NodeCoverage::new(facts, answer);
    let other_vantages = answer.probers.iter().filter(|prober| !is_node_prober(prober));
    let silent_others: Vec<String> = other_vantages
        .clone()
        .filter(|prober| prober.state != ReportState::Reporting)
        .map(|prober| describe_silence(prober, answer))
        .collect();
    let others = match other_vantages.count() {
        0 => String::new(),
        all => format!(
            ", and {} of {}",
            all - silent_others.len(),
            count(all, "other vantage")
        ),
    };
    if !answer.in_cluster {
        let reporting = answer
            .probers
            .iter()
            .filter(|prober| prober.state == ReportState::Reporting);
        let text = format!(
            "reports come from {} of {}",
            reporting.count(),
            count(answer.probers.len(), "vantage")
        );
        return Ok(conclude(text, &nodes, silent_others));
    }
    // Without an answer of the API server, the nodes on which a prober is known to run.
    let selected = nodes.desired().unwrap_or(nodes.with_prober.len());
    let reporting = nodes.reporting.len();
    let covered = match (selected, answer.nodes.len()) {
        (0, 1) => "the only node has no prober".to_owned(),
        (0, all) => format!("none of {all} nodes has a prober"),
        (1, _) => format!("{reporting} of 1 node has a prober that reports"),
        (selected, _) => format!("{reporting} of {selected} nodes have a prober that reports"),
    };
    let text = format!("{covered}{others}");
    let finding = conclude(text, &nodes, silent_others);
    if !finding.details.is_empty() || reporting < selected || selected == 0 {
        return Ok(finding);
    }
    match nodes.desired {
        Ok(_) => Ok(finding),
        Err(_) if nodes.without_prober.is_empty() => Ok(finding),
        Err(reason) => {
            let uncovered = nodes.without_prober.iter();
            let uncovered = uncovered
                .map(|node| format!("{node}: no prober; unknown whether the DaemonSet selects the node"));
            Ok(Finding::unknown(format!("{}; {reason}", finding.evidence)).with_details(uncovered.collect()))
        }
    }
}

/// Judges the numbers of a text: not ok if a prober is missing, or if there is none at all.
fn conclude(text: String, nodes: &NodeCoverage<'_>, silent_others: Vec<String>) -> Finding {
    let mut details = nodes.problems.clone();
    details.extend(silent_others);
    let complete = nodes
        .desired()
        .is_none_or(|desired| nodes.reporting.len() >= desired);
    let any = nodes.any_vantage;
    if details.is_empty() && complete && any {
        return Finding::ok(text);
    }
    let finding = Finding::not_ok(text).with_details(details);
    match nodes.unready.first() {
        Some((pod, problem)) => finding.with_action(pod_action(pod, problem)),
        None => finding.with_action(nodes.advice.clone()),
    }
}

/// Nodes and their probers in the Pod network.
struct NodeCoverage<'a> {
    /// What to do if a prober does not report although its Pod runs.
    advice: String,
    /// Number of nodes that the DaemonSet selects, or why it is not known.
    desired: Answer<usize>,
    /// Nodes whose prober reports.
    reporting: BTreeSet<&'a str>,
    /// Nodes on which a prober Pod runs or is meant to run.
    with_prober: BTreeSet<&'a str>,
    without_prober: Vec<&'a str>,
    /// Each node whose prober does not report, with the reason.
    problems: Vec<String>,
    /// Prober Pods that are not ready.
    unready: Vec<(&'a PodFacts, &'a str)>,
    any_vantage: bool,
}

impl<'a> NodeCoverage<'a> {
    fn new(facts: &'a Facts, answer: &'a InstallationFacts) -> Self {
        let node_of = |prober: &'a InstalledProber| prober.vantage.node().map(NodeName::as_str);
        let probers: BTreeMap<&str, &InstalledProber> = answer
            .probers
            .iter()
            .filter(|prober| is_node_prober(prober))
            .filter_map(|prober| Some((node_of(prober)?, prober)))
            .collect();
        let reporting: BTreeSet<&str> = probers
            .iter()
            .filter(|(_, prober)| prober.state == ReportState::Reporting)
            .map(|(node, _)| *node)
            .collect();
        let unready: Vec<(&PodFacts, &str)> = facts
            .cluster
            .unready_pods()
            .filter(|(pod, _)| pod.component == PROBER)
            .collect();
        let unready_by_node: BTreeMap<&str, (&PodFacts, &str)> = unready
            .iter()
            .filter_map(|(pod, problem)| Some((pod.node.as_deref()?, (*pod, *problem))))
            .collect();
        let with_prober: BTreeSet<&str> = probers.keys().chain(unready_by_node.keys()).copied().collect();
        let missing = with_prober.difference(&reporting);
        let problems = missing.map(|node| match (unready_by_node.get(node), probers.get(node)) {
            (Some((pod, problem)), _) => format!("{node}: Pod {} is {problem}", pod.name),
            (None, Some(prober)) => describe_silence(prober, answer),
            (None, None) => format!("{node}: no report"),
        });
        let desired = facts.cluster.workload(PROBER).and_then(|set| {
            let desired = set.and_then(|set| set.desired);
            desired
                .and_then(|desired| usize::try_from(desired).ok())
                .ok_or_else(|| "the DaemonSet of the probers is not observed yet".to_owned())
        });
        let nodes = answer.nodes.iter().map(|node| node.name.as_str());
        Self {
            advice: if answer.in_cluster {
                format!(
                    "see: kubectl -n {} get pods -o wide -l app.kubernetes.io/component=prober, and the logs of the Pods of these nodes",
                    facts.namespace
                )
            } else {
                "start the probers of these vantages, and see their logs".to_owned()
            },
            desired: if answer.in_cluster {
                desired
            } else {
                Err("the aggregator watches no cluster".to_owned())
            },
            without_prober: nodes.filter(|node| !with_prober.contains(node)).collect(),
            problems: problems.collect(),
            any_vantage: !answer.probers.is_empty(),
            reporting,
            with_prober,
            unready,
        }
    }

    fn desired(&self) -> Option<usize> {
        self.desired.as_ref().ok().copied()
    }
}

/// Describes a vantage that does not report.
fn describe_silence(prober: &InstalledProber, answer: &InstallationFacts) -> String {
    let vantage = &prober.vantage;
    match (prober.state, prober.last_report) {
        (ReportState::Silent, Some(last)) => {
            format!(
                "{vantage}: silent; the last report came {} ago",
                (answer.at - last).humanize()
            )
        }
        (ReportState::Silent, None) => format!("{vantage}: silent"),
        _ => format!("{vantage}: no report yet"),
    }
}

#[cfg(test)]
#[path = "probers_tests.rs"]
mod tests;
