//! Probes of hosts of one ingress class at the fronts of another (incident I4).
//!
//! Only for known classes: a guess would send the host name of one project to the address of another.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{Front, HostName, HttpProbe, ObjectName, ProbeSpec, Scheme, ServiceKey, TargetId};

use super::{FrontKind, Topology};

/// A host, the Service that selects its entries, and its ingress class.
#[derive(Debug)]
pub(super) struct HostClaim {
    pub(super) host: HostName,
    pub(super) class: Option<ObjectName>,
    pub(super) service: ServiceKey,
}

/// One host at one front, with its probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exposure {
    /// The target of the host.
    pub target: TargetId,
    /// The host.
    pub host: HostName,
    /// The host's class.
    pub class: ObjectName,
    /// The probed front.
    pub front: Front,
    /// The class served by the controller behind the front.
    pub front_class: ObjectName,
    /// The probe. It accepts any certificate, because the certificate's owner is the result.
    pub probe: HttpProbe,
}

impl Exposure {
    /// Reports whether the front is the host's own: the response that others are compared with.
    #[must_use]
    pub fn is_reference(&self) -> bool {
        self.class == self.front_class
    }
}

/// Returns all pairs of a class's hosts and other classes' balancer fronts on the same port, and each host at its
/// own front.
pub(super) fn build_exposures(topology: &Topology, claims: &[HostClaim]) -> BTreeMap<TargetId, Exposure> {
    let classes = service_classes(topology, claims);
    let host_classes: BTreeMap<&HostName, &ObjectName> = claims
        .iter()
        .filter_map(|claim| Some((&claim.host, claim.class.as_ref().or(classes.get(&claim.service))?)))
        .collect();
    let fronts: Vec<(&Front, u16, &ServiceKey, &ObjectName)> = topology
        .fronts
        .iter()
        .filter(|(_, info)| matches!(info.kind, FrontKind::LoadBalancer(_)))
        .filter_map(|(front, info)| Some((front, info.port, &info.service, classes.get(&info.service)?)))
        .collect();
    let mut all = BTreeMap::new();
    for (id, placed) in &topology.targets {
        let (ProbeSpec::Http(http), Some((service, _)), None) =
            (&placed.target.probe, &placed.entry, placed.dial_address)
        else {
            continue;
        };
        let Some(class) = host_classes.get(&http.host) else {
            continue;
        };
        // A host whose class differs from the class of its own front has no reference to compare with.
        let own = fronts
            .iter()
            .find(|(_, port, key, own)| *port == http.port && *key == service && own == class);
        let others = fronts
            .iter()
            .filter(|(_, port, _, other)| *port == http.port && other != class);
        let mut pairs: Vec<_> = others.collect();
        if pairs.is_empty() {
            continue;
        }
        let Some(own) = own else { continue };
        pairs.push(own);
        for (front, _, _, front_class) in pairs {
            let Ok(name) = TargetId::new(format!("{id}#at={front}")) else {
                continue;
            };
            let exposure = Exposure {
                target: id.clone(),
                host: http.host.clone(),
                class: (*class).clone(),
                front: **front,
                front_class: (*front_class).clone(),
                probe: HttpProbe {
                    accept_invalid_certificate: http.scheme == Scheme::Https,
                    report_fingerprint: true,
                    ..HttpProbe::get(http.scheme, http.host.clone(), http.port, http.path.clone())
                },
            };
            all.insert(name, exposure);
        }
    }
    all
}

/// Returns the class of each Service: its own if configured, else the only class of the hosts it serves.
fn service_classes(topology: &Topology, claims: &[HostClaim]) -> BTreeMap<ServiceKey, ObjectName> {
    let mut named: BTreeMap<&ServiceKey, BTreeSet<&ObjectName>> = BTreeMap::new();
    for claim in claims {
        if let Some(class) = &claim.class {
            named.entry(&claim.service).or_default().insert(class);
        }
    }
    topology
        .services
        .values()
        .filter_map(|service| {
            let only = named.get(&service.key).filter(|classes| classes.len() == 1);
            let class = service
                .ingress_class
                .as_ref()
                .or_else(|| only.and_then(|classes| classes.iter().next().copied()))?;
            Some((service.key.clone(), class.clone()))
        })
        .collect()
}
