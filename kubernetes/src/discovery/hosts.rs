//! Targets of the host names that Ingresses and routes claim, each host once.

use std::collections::{BTreeMap, BTreeSet};

use parallax_diagnosis::topology::PublishedSpec;
use parallax_model::{HostName, ObjectName, Scheme, ServiceKey, Target, TargetSpec};

use super::{annotations::ProbeAnnotations, notes::NoteCollector, services::ServiceIndex};

/// A host that an object claims to serve.
#[derive(Debug, Clone)]
pub(super) struct HostClaim {
    /// Display name of the object, such as `Ingress shop/web`.
    pub(super) owner: String,
    /// Creation time of the object; the oldest claim wins, as with most controllers.
    pub(super) created: String,
    pub(super) host: HostName,
    pub(super) scheme: Scheme,
    /// The port that clients connect to.
    pub(super) port: u16,
    /// The Service through which the host is entered, if known.
    pub(super) entry: Option<ServiceKey>,
    pub(super) class: Option<ObjectName>,
    /// The Service whose Pods finally respond.
    pub(super) origin: Option<ServiceKey>,
    pub(super) annotations: ProbeAnnotations,
}

/// Targets of hosts, by whether their entry is known.
#[derive(Debug, Default)]
pub(super) struct HostTargets {
    pub(super) published: Vec<PublishedSpec>,
    pub(super) external: Vec<TargetSpec>,
}

/// Creates one target for each host, scheme and port.
pub(super) fn targets(
    mut claims: Vec<HostClaim>,
    services: &ServiceIndex<'_>,
    notes: &mut NoteCollector,
) -> HostTargets {
    claims.sort_by(|a, b| (&a.created, &a.owner).cmp(&(&b.created, &b.owner)));
    note_conflicts(&claims, notes);
    let mut taken = BTreeSet::new();
    let mut hosts = HostTargets::default();
    for claim in &claims {
        if !taken.insert((claim.host.clone(), claim.scheme, claim.port)) {
            continue;
        }
        note_origin(claim, services, notes);
        let entry = claim.entry.as_ref().and_then(|entry| services.all.get(entry));
        let target = TargetSpec {
            expect_status: claim.annotations.expect.clone(),
            interval_ms: claim.annotations.interval_ms,
            pending: claim.annotations.pending || entry.is_some_and(|entry| entry.refuses_nodes),
            extra_roots: claim
                .annotations
                .extra_roots
                .clone()
                .filter(|_| claim.scheme == Scheme::Https),
            ..TargetSpec::new(claim.url())
        };
        if let Ok(known) = Target::try_from(target.clone()) {
            notes.add_publisher(&claim.owner, known.id);
        }
        if let Some(service) = &claim.entry {
            let port = entry.and_then(|entry| entry.entry_port(claim.port));
            hosts.published.push(PublishedSpec {
                target,
                service: service.clone(),
                port: port.unwrap_or(claim.port),
                class: claim.class.clone(),
                origin: claim.origin.clone(),
            });
        } else {
            notes.add(
                &claim.owner,
                format_args!(
                    "no Service of this cluster is known as the entry for {}; it is probed as an external front and judged without placement",
                    claim.host
                ),
            );
            hosts.external.push(target);
        }
    }
    hosts
}

impl HostClaim {
    fn url(&self) -> String {
        let usual = match self.scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        };
        let port = if self.port == usual {
            String::new()
        } else {
            format!(":{}", self.port)
        };
        let path = self.annotations.path.as_deref().unwrap_or("/");
        format!("{}://{}{port}{path}", self.scheme, self.host)
    }
}

/// Notes hosts that several objects claim, and which of the claims applies.
fn note_conflicts(claims: &[HostClaim], notes: &mut NoteCollector) {
    let mut owners: BTreeMap<&HostName, Vec<&HostClaim>> = BTreeMap::new();
    for claim in claims {
        let known = owners.entry(&claim.host).or_default();
        if known.iter().all(|other| other.owner != claim.owner) {
            known.push(claim);
        }
    }
    for (host, claims) in owners {
        let [first, others @ ..] = claims.as_slice() else {
            continue;
        };
        if others.is_empty() {
            continue;
        }
        let names: Vec<&str> = others.iter().map(|claim| claim.owner.as_str()).collect();
        let differ = others
            .iter()
            .any(|claim| (&claim.entry, &claim.class) != (&first.entry, &first.class));
        let difference = if differ {
            "with another class or entry (the controllers decide which of them serves it)"
        } else {
            "too"
        };
        notes.add(
            format_args!("host {host}"),
            format_args!(
                "claimed by {}, and by {} {difference}; it is probed once, with the settings of the first",
                first.owner,
                names.join(", ")
            ),
        );
    }
}

fn note_origin(claim: &HostClaim, services: &ServiceIndex<'_>, notes: &mut NoteCollector) {
    let Some(key) = &claim.origin else { return };
    match services.all.get(key) {
        None => notes.add(
            &claim.owner,
            format_args!(
                "the Service {key} behind {} does not exist or has no TCP port",
                claim.host
            ),
        ),
        Some(found) if !found.has_endpoints() => notes.add(
            &claim.owner,
            format_args!("the Service {key} behind {} has no serving endpoint", claim.host),
        ),
        Some(_) => {}
    }
}

/// The hosts to probe for a host that may be a wildcard: samples that it covers.
pub(super) fn sample_hosts(
    owner: &str,
    host: &str,
    wish: &ProbeAnnotations,
    notes: &mut NoteCollector,
) -> Vec<HostName> {
    if !host.is_empty() && !host.contains('*') {
        return match HostName::new(host) {
            Ok(host) => vec![host],
            Err(error) => {
                notes.add(owner, error);
                Vec::new()
            }
        };
    }
    let covered: Vec<HostName> = wish
        .samples
        .iter()
        .filter(|sample| host_matches(host, sample.as_str()))
        .cloned()
        .collect();
    if covered.is_empty() {
        let rule_text = if host.is_empty() {
            "a rule for every host".to_owned()
        } else {
            format!("the wildcard host {host}")
        };
        let text = format!(
            "{rule_text} cannot be probed; name a host that it covers in the annotation parallax.dev/sample"
        );
        notes.add(owner, text);
    }
    covered
}

/// Whether a pattern such as `*.example.test` covers a name; the asterisk matches any number of labels. An
/// empty pattern covers everything.
pub(super) fn host_matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(end) => name.len() > end.len() && name.ends_with(end),
        None => pattern.is_empty() || pattern == name,
    }
}
