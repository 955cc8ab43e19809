//! Validates `Target` objects: which are probed, and why others are not. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use kube::{ResourceExt, api::DynamicObject};
use parallax_diagnosis::topology::Topology;
use parallax_kubernetes::topology_state::TargetPublishers;
use parallax_model::{HostName, ProbeSpec, ReservedRange, Scope, Target, TargetId, TargetSpec};

use super::{
    objects::Key,
    tenant_options::{MAX_TARGETS, TenantOptions},
    tenant_rules::{refused_probe, service_namespace},
    tenant_scope::tenant_scope,
};

/// `Target` objects by namespace and name.
pub(crate) type TargetObjects = BTreeMap<Key, DynamicObject>;

/// What Targets are judged by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TargetRules<'a> {
    /// The topology without Targets.
    pub(crate) topology: &'a Topology,
    /// The objects that publish targets.
    pub(crate) publishers: &'a TargetPublishers,
    /// The scope of runs.
    pub(crate) scope: &'a Scope,
    /// The limits of Targets.
    pub(crate) options: &'a TenantOptions,
}

/// Result of validating one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TargetVerdict {
    Accepted(TargetId),
    Rejected { reason: &'static str, message: String },
}

/// Results of validating all objects.
#[derive(Debug, Clone, Default)]
pub(crate) struct TargetJudgement {
    pub(crate) verdicts: BTreeMap<Key, TargetVerdict>,
    pub(crate) accepted: Vec<TargetSpec>,
    /// The scope of each target that a Target object defines.
    pub(crate) scopes: BTreeMap<TargetId, Arc<Scope>>,
}

/// Target objects with the result of validating each of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct TargetReview {
    pub(crate) objects: Arc<TargetObjects>,
    pub(crate) judgement: TargetJudgement,
}

/// Validates each object on its own. Of duplicates, that of a namespace that publishes the host is accepted, otherwise
/// the oldest.
pub(crate) fn validate(objects: &TargetObjects, rules: TargetRules<'_>) -> TargetJudgement {
    let mut judged = TargetJudgement::default();
    let mut owners: BTreeMap<TargetId, &Key> = BTreeMap::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut scopes: BTreeMap<&str, Arc<Scope>> = BTreeMap::new();
    let publishing = publishing_namespaces(rules);
    let mut ordered: Vec<_> = objects
        .iter()
        .map(|(key, object)| {
            let scope = scopes.entry(key.0.as_str()).or_insert_with(|| {
                Arc::new(tenant_scope(rules.topology, rules.scope, rules.options, &key.0))
            });
            let parsed = parse(object, rules, key, scope);
            let publishes = parsed.as_ref().is_ok_and(|(_, target)| {
                let host = target.probe.host().map(normalized);
                host.is_some_and(|host| publishing.contains(&(host, key.0.as_str())))
            });
            let created = object.creation_timestamp().map(|time| time.0);
            ((!publishes, created, key), parsed)
        })
        .collect();
    ordered.sort_by_key(|(order, _)| *order);
    for ((_, _, key), parsed) in ordered {
        let refused = |reason, message: String| TargetVerdict::Rejected { reason, message };
        let count = counts.entry(&key.0).or_default();
        let most = rules.options.max_targets(&key.0);
        let verdict = match parsed {
            Err((reason, message)) => refused(reason, message),
            Ok((_, target)) if let Some(message) = conflict(rules.topology, &target) => {
                refused("AlreadyProbed", message)
            }
            Ok((_, target)) if owners.contains_key(&target.id) => {
                let (namespace, name) = owners[&target.id];
                refused(
                    "Duplicate",
                    format!(
                        "{} is already probed by Target {namespace}/{name}, which is older or whose namespace publishes the host",
                        target.id
                    ),
                )
            }
            Ok(_) if *count >= most || judged.accepted.len() >= MAX_TARGETS => refused(
                "TooMany",
                format!(
                    "the limit of {most} Targets for this namespace or {MAX_TARGETS} in total is reached; remove some, \
                     or ask the operator to raise tenants.namespaces.{}.maxTargets",
                    key.0
                ),
            ),
            Ok((spec, target)) => {
                *count += 1;
                judged.accepted.push(spec);
                let scope = &scopes[key.0.as_str()];
                let questions = target.forbidden_probes.iter().map(|question| question.id.clone());
                judged.scopes.extend(questions.map(|id| (id, Arc::clone(scope))));
                // A target that the cluster publishes keeps its own scope even if a Target adds a check to it.
                if !rules.topology.targets().contains_key(&target.id) {
                    judged.scopes.insert(target.id.clone(), Arc::clone(scope));
                }
                owners.insert(target.id.clone(), key);
                TargetVerdict::Accepted(target.id)
            }
        };
        judged.verdicts.insert(key.clone(), verdict);
    }
    judged
}

/// Returns the published hosts, each with a namespace whose objects publish it.
fn publishing_namespaces(rules: TargetRules<'_>) -> BTreeSet<(String, &str)> {
    let published = rules.publishers.iter().filter_map(|(id, publisher)| {
        let host = rules.topology.targets().get(id)?.target.probe.host()?;
        Some((normalized(host), publisher.namespace.as_str()))
    });
    published.collect()
}

fn normalized(host: &HostName) -> String {
    host.as_str().trim_end_matches('.').to_ascii_lowercase()
}

fn parse(
    object: &DynamicObject,
    rules: TargetRules<'_>,
    (namespace, _): &Key,
    scope: &Scope,
) -> Result<(TargetSpec, Target), (&'static str, String)> {
    let spec: TargetSpec = serde_json::from_value(object.data["spec"].clone())
        .map_err(|error| ("Invalid", format!("spec: {error}")))?;
    let target = Target::try_from(spec.clone()).map_err(|error| ("Invalid", format!("spec.{error}")))?;
    if let Some(message) = refused_probe(&spec, rules.options, namespace) {
        return Err(("NotPermitted", message));
    }
    if let Some(message) = other_service(rules, &target, namespace) {
        return Err(("Forbidden", message));
    }
    let resolver = target.probe.resolver().map(|resolver| resolver.ip());
    let literal = |host: Option<&HostName>| host.and_then(|host| host.as_str().parse::<IpAddr>().ok());
    let url = literal(target.probe.host()).filter(|_| !matches!(target.probe, ProbeSpec::Dns(_)));
    let proxy = literal(target.probe.proxy().map(|proxy| &proxy.host));
    let named = [("url", url), ("resolver", resolver), ("httpProxy", proxy)];
    let named = named
        .iter()
        .filter_map(|(field, address)| Some((*field, address.as_ref()?)));
    let mut named = named.chain(
        spec.must_not_answer_at
            .iter()
            .map(|address| ("mustNotAnswerAt", address)),
    );
    let refused = named.find_map(|(field, address)| Some((field, address, scope.refusal(*address)?)));
    if let Some((field, address, reason)) = refused {
        let words = match reason {
            ReservedRange::Listed => {
                "an address of the API server, a node or another namespace's Service, or one that runs.refuse lists"
            }
            other => other.description(),
        };
        return Err((
            "Forbidden",
            format!(
                "spec.{field}: {address} is {words}, which a Target must not contain; use an address of this namespace's own Services, \
                 or ask the operator to list it in tenants.namespaces.{namespace}.allow"
            ),
        ));
    }
    Ok((spec, target))
}

/// Returns why a Target names a Service of another namespace, whose Pods it would reach past that namespace's rules.
fn other_service(rules: TargetRules<'_>, target: &Target, namespace: &str) -> Option<String> {
    // A DNS query connects to a resolver only.
    if matches!(target.probe, ProbeSpec::Dns(_)) || !rules.options.allowed_addresses(namespace).is_empty() {
        return None;
    }
    let proxy = target.probe.proxy().map(|proxy| ("httpProxy", &proxy.host));
    let mut hosts = target
        .probe
        .host()
        .map(|host| ("url", host))
        .into_iter()
        .chain(proxy);
    hosts.find_map(|(field, host)| foreign_service(rules, field, host, namespace))
}

fn foreign_service(rules: TargetRules<'_>, field: &str, host: &HostName, namespace: &str) -> Option<String> {
    let text = normalized(host);
    let services = &rules.topology.spec().services;
    // NAME.NAMESPACE, which the search list completes.
    let short = || {
        let (name, other) = text.split_once('.')?;
        let known = services
            .iter()
            .any(|service| service.name.as_str() == name && service.namespace.as_str() == other);
        known.then(|| other.to_owned())
    };
    let other = service_namespace(host).or_else(short)?;
    (other != namespace).then(|| {
        format!(
            "spec.{field}: {host} is a Service of namespace {other}, and a Target reaches Services of its own namespace only; \
             create it there, or ask the operator to list the addresses in tenants.namespaces.{namespace}.allow"
        )
    })
}

/// Returns why a Target conflicts with a target of the cluster or the configuration. `mustNotAnswerAt` may be added to
/// such a target.
fn conflict(topology: &Topology, target: &Target) -> Option<String> {
    let mut known = topology.targets().get(&target.id)?.target.clone();
    if target.forbidden_probes.is_empty() {
        return Some(format!(
            "{} is published by the cluster or listed in the configuration, which determine how it is probed",
            target.id
        ));
    }
    if target
        .forbidden_probes
        .iter()
        .any(|question| question.address.is_none())
    {
        // Otherwise any user who may create a Target could stop other users' hosts from being probed.
        return Some(format!(
            "{} is published by the cluster or listed in the configuration, which determine who gets an answer; only \
             mustNotAnswerAt may be set here",
            target.id
        ));
    }
    known.add_forbidden(target).err()
}
