//! Validates `Target` objects: which are probed, and why others are not. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use kube::{ResourceExt, api::DynamicObject};
use parallax_diagnosis::topology::Topology;
use parallax_model::{ProbeSpec, Scope, Target, TargetId, TargetSpec};

use super::objects::Key;

/// `Target` objects by namespace and name.
pub(crate) type TargetObjects = BTreeMap<Key, DynamicObject>;

/// Maximum number of Targets per namespace and in total.
const MAX_TARGETS: (usize, usize) = (100, 1_000);

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
    pub(crate) restricted_ids: BTreeSet<TargetId>,
}

/// Target objects with the result of validating each of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct TargetReview {
    pub(crate) objects: Arc<TargetObjects>,
    pub(crate) judgement: TargetJudgement,
}

/// Validates each object on its own; of duplicates, the oldest is accepted.
pub(crate) fn validate(objects: &TargetObjects, bare: &Topology, scope: &Scope) -> TargetJudgement {
    let mut judged = TargetJudgement::default();
    let mut owners: BTreeMap<TargetId, &Key> = BTreeMap::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut oldest: Vec<(&Key, &DynamicObject)> = objects.iter().collect();
    oldest.sort_by_key(|(key, object)| (object.creation_timestamp().map(|time| time.0), *key));
    for (key, object) in oldest {
        let refused = |reason, message: String| TargetVerdict::Rejected { reason, message };
        let count = counts.entry(&key.0).or_default();
        let verdict = match parse(object, scope) {
            Err((reason, message)) => refused(reason, message),
            Ok((_, target)) if let Some(message) = conflict(bare, &target) => {
                refused("AlreadyProbed", message)
            }
            Ok((_, target)) if owners.contains_key(&target.id) => {
                let (namespace, name) = owners[&target.id];
                refused(
                    "Duplicate",
                    format!(
                        "{} is already probed by the older Target {namespace}/{name}",
                        target.id
                    ),
                )
            }
            Ok(_) if *count >= MAX_TARGETS.0 || judged.accepted.len() >= MAX_TARGETS.1 => refused(
                "TooMany",
                format!(
                    "the limit of {} Targets per namespace or {} in total is reached",
                    MAX_TARGETS.0, MAX_TARGETS.1
                ),
            ),
            Ok((spec, target)) => {
                *count += 1;
                judged.accepted.push(spec);
                let questions = target.forbidden_probes.iter().map(|question| question.id.clone());
                judged.restricted_ids.extend(questions);
                // A target that the cluster publishes stays unrestricted even if a Target adds a check to it.
                if !bare.targets().contains_key(&target.id) {
                    judged.restricted_ids.insert(target.id.clone());
                }
                owners.insert(target.id.clone(), key);
                TargetVerdict::Accepted(target.id)
            }
        };
        judged.verdicts.insert(key.clone(), verdict);
    }
    judged
}

fn parse(object: &DynamicObject, scope: &Scope) -> Result<(TargetSpec, Target), (&'static str, String)> {
    let spec: TargetSpec = serde_json::from_value(object.data["spec"].clone())
        .map_err(|error| ("Invalid", format!("spec: {error}")))?;
    let target = Target::try_from(spec.clone()).map_err(|error| ("Invalid", format!("spec.{error}")))?;
    let literal: Option<IpAddr> = match &target.probe {
        ProbeSpec::Dns(dns) => dns.resolver.map(|resolver| resolver.ip()),
        other => other.server().and_then(|(host, _)| host.as_str().parse().ok()),
    };
    let named = literal.iter().map(|address| ("url", address));
    let mut named = named.chain(
        spec.must_not_answer_at
            .iter()
            .map(|address| ("mustNotAnswerAt", address)),
    );
    let refused = named.find_map(|(field, address)| Some((field, address, scope.refusal(*address)?)));
    if let Some((field, address, reason)) = refused {
        let words = reason.description();
        return Err((
            "Forbidden",
            format!("spec.{field}: {address} is {words}, which a Target must not contain"),
        ));
    }
    Ok((spec, target))
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
