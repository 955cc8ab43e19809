//! Names in steps, looked up in the current state of the cluster.

use std::collections::BTreeMap;

use super::SuiteRun;
use crate::{
    cluster::PodView,
    install::{APPLICATION, NAMESPACE},
    observe::{PROBERS, aggregators},
    step::Names,
};

/// Names of one step: nodes stay the same while it runs, Pods are the current ones.
pub(super) struct LiveNames<'a> {
    pub(super) suite: &'a SuiteRun,
    pub(super) fixed: &'a BTreeMap<String, String>,
}

impl Names for LiveNames<'_> {
    fn look_up(&self, name: &str) -> Option<String> {
        if let Some(value) = self.fixed.get(name) {
            return Some(value.clone());
        }
        let pod = match name {
            "pod.aggregator" => self.suite.leader(),
            "pod.app" => self.suite.application_pods().into_iter().next(),
            "pod.prober" => {
                let node = self.fixed.get("node.free1")?;
                let probers = self.suite.cluster.pods.in_namespace(NAMESPACE, PROBERS);
                probers
                    .into_iter()
                    .find(|pod| &pod.node == node && !pod.terminating)
            }
            _ => None,
        };
        pod.map(|pod| pod.name)
    }
}

impl SuiteRun {
    /// Returns the aggregator that leads or is the only one.
    pub(super) fn leader(&self) -> Option<PodView> {
        let pods: Vec<PodView> = aggregators(&self.cluster)
            .into_iter()
            .filter(|pod| !pod.terminating)
            .collect();
        let timeline = self.observer.timeline.borrow();
        let newest = timeline.newest(self.observer.clock.now(), 5.0);
        let leads = |pod: &&PodView| {
            let state = newest.get(pod.name.as_str());
            state.is_some_and(|state| matches!(state.role.as_str(), "leads" | "alone"))
        };
        pods.iter().find(leads).or(pods.first()).cloned()
    }

    /// Returns ready Pods of the test application, by node.
    pub(super) fn application_pods(&self) -> Vec<PodView> {
        let pods = self
            .cluster
            .pods
            .in_namespace(APPLICATION, "app=shop")
            .into_iter();
        pods.filter(|pod| pod.running && !pod.terminating).collect()
    }

    /// Returns names that do not change while a step runs: nodes, and the cluster's settings.
    pub(super) fn fixed_names(&self) -> BTreeMap<String, String> {
        let settings = &self.cluster.settings;
        let dns = &settings.dns;
        let (ingress, hosts) = (&settings.ingress, &settings.hosts);
        let mut names: BTreeMap<String, String> = [
            ("dns.namespace", &dns.namespace),
            ("dns.deployment", &dns.deployment),
            ("dns.service", &dns.service),
            ("ingress.namespace", &ingress.namespace),
            ("ingress.deployment", &ingress.deployment),
            ("ingress.service", &ingress.service),
            ("ingress.class", &ingress.class),
            ("host.http", &hosts.http),
            ("host.https", &hosts.https),
            ("host.new", &hosts.new),
            ("image.suite", &self.application.image),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect();
        names.extend(self.cluster.balancer.clone());
        let taken: Vec<String> = aggregators(&self.cluster)
            .into_iter()
            .map(|pod| pod.node)
            .collect();
        let free = self.cluster.nodes.iter().filter(|node| !taken.contains(node));
        for (i, node) in free.enumerate() {
            names.insert(format!("node.free{}", i + 1), node.clone());
        }
        for (i, node) in self.cluster.nodes.iter().enumerate() {
            names.insert(format!("node.{}", i + 1), node.clone());
        }
        if let Some(leader) = self.leader() {
            names.insert("node.aggregator".to_owned(), leader.node);
        }
        names
    }
}
