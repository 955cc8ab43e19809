//! Which Targets are probed, and why the others are not. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use kube::{ResourceExt, api::DynamicObject};
use parallax_diagnosis::topology::Topology;
use parallax_model::{ProbeSpec, Scope, Target, TargetId, TargetSpec};

use super::objects::Key;

/// Targets of one namespace, and of all.
const MOST: (usize, usize) = (100, 1_000);

/// What became of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Accepted(TargetId),
    Refused { reason: &'static str, message: String },
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Judged {
    pub(super) verdicts: BTreeMap<Key, Verdict>,
    pub(super) accepted: Vec<TargetSpec>,
    pub(super) ids: BTreeSet<TargetId>,
}

/// Judges each alone; of two that mean the same the older one is taken.
pub(super) fn judge(objects: &BTreeMap<Key, DynamicObject>, bare: &Topology, scope: &Scope) -> Judged {
    let mut judged = Judged::default();
    let mut owners: BTreeMap<TargetId, &Key> = BTreeMap::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut oldest: Vec<(&Key, &DynamicObject)> = objects.iter().collect();
    oldest.sort_by_key(|(key, object)| (object.creation_timestamp().map(|time| time.0), *key));
    for (key, object) in oldest {
        let refused = |reason, message: String| Verdict::Refused { reason, message };
        let count = counts.entry(&key.0).or_default();
        let verdict = match read(object, scope) {
            Err((reason, message)) => refused(reason, message),
            Ok((_, id)) if bare.targets().contains_key(&id) => refused(
                "AlreadyProbed",
                format!(
                    "{id} is published by the cluster or listed in the configuration, which say how it is probed"
                ),
            ),
            Ok((_, id)) if owners.contains_key(&id) => {
                let (namespace, name) = owners[&id];
                refused(
                    "Duplicate",
                    format!("{id} is the Target {namespace}/{name} already, which is older"),
                )
            }
            Ok(_) if *count >= MOST.0 || judged.ids.len() >= MOST.1 => refused(
                "TooMany",
                format!(
                    "at most {} Targets of a namespace and {} in all are probed",
                    MOST.0, MOST.1
                ),
            ),
            Ok((spec, id)) => {
                *count += 1;
                owners.insert(id.clone(), key);
                judged.accepted.push(spec);
                judged.ids.insert(id.clone());
                Verdict::Accepted(id)
            }
        };
        judged.verdicts.insert(key.clone(), verdict);
    }
    judged
}

fn read(object: &DynamicObject, scope: &Scope) -> Result<(TargetSpec, TargetId), (&'static str, String)> {
    let spec: TargetSpec = serde_json::from_value(object.data["spec"].clone())
        .map_err(|error| ("Invalid", format!("spec: {error}")))?;
    let target = Target::try_from(spec.clone()).map_err(|error| ("Invalid", format!("spec.{error}")))?;
    let literal: Option<IpAddr> = match &target.probe {
        ProbeSpec::Http(http) => http.host.as_str().parse().ok(),
        ProbeSpec::Tcp(tcp) => tcp.host.as_str().parse().ok(),
        ProbeSpec::Dns(dns) => dns.resolver.map(|resolver| resolver.ip()),
        ProbeSpec::Echo { .. } => None,
    };
    if let Some((address, why)) = literal.and_then(|address| Some((address, scope.refuses(address)?))) {
        return Err((
            "Forbidden",
            format!("spec.url: {address} is {}, which no Target may name", why.words()),
        ));
    }
    Ok((spec, target.id))
}
