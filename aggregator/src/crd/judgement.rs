//! Which Targets are probed, and why the others are not. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use kube::{ResourceExt, api::DynamicObject};
use parallax_diagnosis::topology::Topology;
use parallax_model::{ProbeSpec, Scope, Target, TargetId, TargetSpec};

use super::objects::Key;

/// `Target` objects by namespace and name.
pub(crate) type TargetObjects = BTreeMap<Key, DynamicObject>;

/// Targets of one namespace, and of all.
const MOST: (usize, usize) = (100, 1_000);

/// What became of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TargetVerdict {
    Accepted(TargetId),
    Refused { reason: &'static str, message: String },
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct TargetJudgement {
    pub(crate) verdicts: BTreeMap<Key, TargetVerdict>,
    pub(crate) accepted: Vec<TargetSpec>,
    pub(crate) ids: BTreeSet<TargetId>,
}

/// Judges each alone; of two that mean the same the older one is taken.
pub(crate) fn judge(objects: &TargetObjects, bare: &Topology, scope: &Scope) -> TargetJudgement {
    let mut judged = TargetJudgement::default();
    let mut owners: BTreeMap<TargetId, &Key> = BTreeMap::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut oldest: Vec<(&Key, &DynamicObject)> = objects.iter().collect();
    oldest.sort_by_key(|(key, object)| (object.creation_timestamp().map(|time| time.0), *key));
    for (key, object) in oldest {
        let refused = |reason, message: String| TargetVerdict::Refused { reason, message };
        let count = counts.entry(&key.0).or_default();
        let verdict = match read(object, scope) {
            Err((reason, message)) => refused(reason, message),
            Ok((_, target)) if let Some(message) = already_probed(bare, &target) => {
                refused("AlreadyProbed", message)
            }
            Ok((_, target)) if owners.contains_key(&target.id) => {
                let (namespace, name) = owners[&target.id];
                refused(
                    "Duplicate",
                    format!(
                        "{} is the Target {namespace}/{name} already, which is older",
                        target.id
                    ),
                )
            }
            Ok(_) if *count >= MOST.0 || judged.accepted.len() >= MOST.1 => refused(
                "TooMany",
                format!(
                    "at most {} Targets of a namespace and {} in all are probed",
                    MOST.0, MOST.1
                ),
            ),
            Ok((spec, target)) => {
                *count += 1;
                judged.accepted.push(spec);
                let questions = target.forbidden.iter().map(|question| question.id.clone());
                judged.ids.extend(questions);
                // What the cluster publishes is the operator's, whoever adds a question to it.
                if !bare.targets().contains_key(&target.id) {
                    judged.ids.insert(target.id.clone());
                }
                owners.insert(target.id.clone(), key);
                TargetVerdict::Accepted(target.id)
            }
        };
        judged.verdicts.insert(key.clone(), verdict);
    }
    judged
}

fn read(object: &DynamicObject, scope: &Scope) -> Result<(TargetSpec, Target), (&'static str, String)> {
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
    let refused = named.find_map(|(field, address)| Some((field, address, scope.refuses(*address)?)));
    if let Some((field, address, why)) = refused {
        let words = why.words();
        return Err((
            "Forbidden",
            format!("spec.{field}: {address} is {words}, which no Target may name"),
        ));
    }
    Ok((spec, target))
}

/// Why a target that the cluster or the configuration says how to probe cannot take this one in. Where it must not answer
/// may be said beside it.
fn already_probed(bare: &Topology, target: &Target) -> Option<String> {
    let mut known = bare.targets().get(&target.id)?.target.clone();
    if target.forbidden.is_empty() {
        return Some(format!(
            "{} is published by the cluster or listed in the configuration, which say how it is probed",
            target.id
        ));
    }
    if target.forbidden.iter().any(|question| question.at.is_none()) {
        // Else whoever may create a Target could keep others' hosts from being probed.
        return Some(format!(
            "{} is published by the cluster or listed in the configuration, which say who is answered; mustNotAnswerAt \
             may be said here",
            target.id
        ));
    }
    known.forbid(target).err()
}
