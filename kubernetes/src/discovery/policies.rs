//! `NetworkPolicies` that restrict ingress to a Service's Pods.
//!
//! Application Pods are not watched. Their labels include at least the Service's selector, so a policy
//! certainly selects them if it requires no other labels, and certainly does not if it requires another value
//! for one of these labels.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::ObjectName;

use crate::{
    cluster::ClusterState,
    objects::{Key, NetworkPolicy, Service},
};

/// The policies that restrict ingress, by namespace.
pub(super) type IngressPolicies<'a> = BTreeMap<&'a str, Vec<&'a NetworkPolicy>>;

/// Collects the policies that restrict ingress.
pub(super) fn by_namespace(cluster: &ClusterState) -> IngressPolicies<'_> {
    let mut all: IngressPolicies<'_> = BTreeMap::new();
    for policy in cluster
        .policies
        .values()
        .filter(|policy| isolates_ingress(policy))
    {
        all.entry(policy.metadata.namespace.as_str())
            .or_default()
            .push(policy);
    }
    all
}

/// The policies that select a Service's Pods, or `None` if that is unknown.
pub(super) fn selecting_policies(
    policies: &IngressPolicies<'_>,
    key: &Key,
    service: &Service,
) -> Option<BTreeSet<ObjectName>> {
    let in_namespace = policies
        .get(key.namespace.as_str())
        .map_or(&[][..], Vec::as_slice);
    let mut certain = BTreeSet::new();
    let mut perhaps = false;
    for policy in in_namespace {
        match selects(policy, &service.spec.selector) {
            Some(true) => certain.extend(ObjectName::new(policy.metadata.name.as_str())),
            Some(false) => {}
            None => perhaps = true,
        }
    }
    (!perhaps || !certain.is_empty()).then_some(certain)
}

/// Whether the policy isolates its Pods for ingress: not if it covers only egress or allows all traffic
/// (`NetworkPolicySpec.policyTypes`).
fn isolates_ingress(policy: &NetworkPolicy) -> bool {
    let types = &policy.spec.policy_types;
    let speaks = types.is_empty() || types.iter().any(|kind| kind == "Ingress");
    let open = policy
        .spec
        .ingress
        .iter()
        .any(|rule| rule.from.is_empty() && rule.ports.is_empty());
    speaks && !open
}

fn selects(policy: &NetworkPolicy, pods: &BTreeMap<String, String>) -> Option<bool> {
    let selector = &policy.spec.pod_selector;
    let mut certain = selector.match_expressions.is_empty();
    for (name, value) in &selector.match_labels {
        match pods.get(name) {
            Some(known) if known != value => return Some(false),
            Some(_) => {}
            None => certain = false,
        }
    }
    certain.then_some(true)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{objects::ClusterObject, objects::resource::ResourceKind};

    fn guarding(policies: &[Value]) -> Option<Vec<String>> {
        let mut cluster = ClusterState::default();
        for (n, spec) in policies.iter().enumerate() {
            let policy = json!({"metadata": {"namespace": "shop", "name": format!("p{n}")}, "spec": spec});
            cluster.put(ClusterObject::parse(ResourceKind::NetworkPolicies, policy).unwrap());
        }
        let service = json!({"metadata": {"namespace": "shop", "name": "web"},
            "spec": {"selector": {"app": "web", "tier": "front"}}});
        let Ok(ClusterObject::Service(service)) = ClusterObject::parse(ResourceKind::Services, service)
        else {
            panic!("a Service");
        };
        let names = selecting_policies(&by_namespace(&cluster), &service.metadata.key(), &service)?;
        Some(names.iter().map(ToString::to_string).collect())
    }

    fn labels(labels: &Value) -> Value {
        json!({"podSelector": {"matchLabels": labels}, "policyTypes": ["Ingress"]})
    }

    #[test]
    fn a_policy_that_asks_for_nothing_but_what_the_service_selects_by_is_about_its_pods() {
        assert_eq!(guarding(&[labels(&json!({}))]).unwrap(), ["p0"]);
        assert_eq!(
            guarding(&[labels(&json!({"app": "web"})), labels(&json!({"app": "db"}))]).unwrap(),
            ["p0"]
        );
        assert_eq!(
            guarding(&[json!({"podSelector": {}})]).unwrap(),
            ["p0"],
            "ingress is the default policy type"
        );
    }

    #[test]
    fn policies_for_other_pods_or_egress_or_open_to_all_do_not_restrict_ingress() {
        let egress = json!({"podSelector": {}, "policyTypes": ["Egress"]});
        let open = json!({"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}]});
        for policies in [&[][..], &[labels(&json!({"app": "db"}))], &[egress], &[open]] {
            assert_eq!(guarding(policies).unwrap(), [""; 0], "{policies:?}");
        }
    }

    #[test]
    fn whether_a_policy_by_other_labels_is_about_its_pods_is_not_known() {
        assert_eq!(guarding(&[labels(&json!({"zone": "dmz"}))]), None);
        let expressions =
            json!({"podSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}});
        assert_eq!(guarding(&[expressions]), None);
    }

    #[test]
    fn a_rule_with_ports_only_is_not_open() {
        let ports = json!({"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]});
        assert_eq!(guarding(&[ports]).unwrap(), ["p0"]);
    }
}
