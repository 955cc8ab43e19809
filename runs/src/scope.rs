//! The scope of runs: permitted targets, and addresses that their probes may connect to.

use std::net::{IpAddr, SocketAddr};

use parallax_diagnosis::topology::Topology;
use parallax_model::{AddressRange, ProbeSpec, Scope, Target, TargetSpec};

use crate::RunOptions;

/// Why a run is outside the scope, and how to permit it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunScopeError {
    #[error(
        "{target} is not a known target, and runs are limited to known targets ({known}; `parallax targets` lists them); add it to the configuration's targets, or set runs.targets: any"
    )]
    UnknownTarget { target: String, known: usize },
    #[error(
        "{host} is no host of a known target, and challenges are fetched from such hosts only; publish it with an Ingress or a route, add it to the configuration's targets, or set runs.targets: any"
    )]
    UnknownHost { host: String },
    #[error(
        "{server} is not a public resolver of the configuration, and challenges are resolved only by those or by each machine's own resolver; add it to resolvers.public, or set runs.targets: any"
    )]
    UnknownNameserver { server: SocketAddr },
    #[error(
        "{address} is {why}, which no run may probe; to permit it, add it to runs.allow in the aggregator's configuration"
    )]
    RefusedAddress { address: IpAddr, why: &'static str },
}

/// Returns the scope that is sent with every probe. It refuses the API server's addresses in addition to those
/// local to a machine.
pub fn probe_scope(topology: &Topology, options: &RunOptions) -> Scope {
    let mut refuse = options.refuse.clone();
    refuse.extend(
        std::env::var("KUBERNETES_SERVICE_HOST")
            .ok()
            .and_then(|host| host.parse().ok())
            .map(AddressRange::from_address),
    );
    let api = "default/kubernetes".parse().ok();
    if let Some(api) = api {
        let fronts = topology.fronts().iter().filter(|(_, info)| info.service == api);
        refuse.extend(fronts.map(|(front, _)| AddressRange::from_address(front.address.ip())));
        let endpoints = topology.service(&api).into_iter().flat_map(|s| &s.endpoints);
        refuse.extend(endpoints.map(|endpoint| AddressRange::from_address(endpoint.address)));
    }
    refuse.sort_unstable();
    refuse.dedup();
    Scope {
        refuse,
        allow: options.allow.clone(),
    }
}

/// Returns the topology for planning and judging the run: `None` if the target is already in it, otherwise a copy
/// with the target added, if unknown targets are permitted.
pub(super) fn admit_target(
    topology: &Topology,
    target: &Target,
    options: &RunOptions,
) -> Result<Option<Topology>, RunScopeError> {
    if topology.targets().contains_key(&target.id) {
        return Ok(None);
    }
    let unknown = || RunScopeError::UnknownTarget {
        target: target.id.to_string(),
        known: topology.targets().len(),
    };
    if !options.allow_any_target {
        return Err(unknown());
    }
    let mut spec = topology.spec().clone();
    spec.targets.push(TargetSpec::new(target.id.as_str()));
    spec.vantages = topology.extra_vantages().to_vec();
    Topology::try_from(spec).map(Some).map_err(|_| unknown())
}

/// Rejects a literal address outside the scope at once; probers check host names when they resolve them.
pub(super) fn check_literal_address(
    probe: &ProbeSpec,
    dial: Option<IpAddr>,
    scope: &Scope,
) -> Result<(), RunScopeError> {
    let Some((host, _)) = probe.server() else {
        return Ok(());
    };
    let host = host.as_str();
    let named: Option<IpAddr> = host.parse().ok().or_else(|| loopback_name(host));
    for address in dial.into_iter().chain(named) {
        if let Some(why) = scope.refusal(address) {
            return Err(RunScopeError::RefusedAddress {
                address,
                why: why.description(),
            });
        }
    }
    Ok(())
}

/// Names that resolve to the machine itself (RFC 6761).
fn loopback_name(host: &str) -> Option<IpAddr> {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    (host == "localhost" || host.ends_with(".localhost")).then_some(std::net::Ipv4Addr::LOCALHOST.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology() -> Topology {
        let spec = parallax_diagnosis::topology::TopologySpec {
            targets: vec![TargetSpec::new("http://a.example.test/")],
            vantages: vec!["vpc:bastion".parse().unwrap()],
            ..Default::default()
        };
        Topology::try_from(spec).unwrap()
    }

    fn probe(url: &str) -> ProbeSpec {
        Target::try_from(TargetSpec::new(url)).unwrap().probe
    }

    #[test]
    fn an_address_that_is_local_to_a_machine_is_refused_before_any_prober_gets_it() {
        let scope = probe_scope(&topology(), &RunOptions::default());
        for url in [
            "http://127.0.0.1/",
            "http://localhost:8080/",
            "http://a.localhost/",
            "http://169.254.169.254/latest/meta-data/",
            "http://[fd00:ec2::254]/",
            "http://2130706433/",
            "tcp://[::1]:6443",
            "http://0/",
        ] {
            let refused = check_literal_address(&probe(url), None, &scope);
            assert!(
                matches!(refused, Err(RunScopeError::RefusedAddress { .. })),
                "{url}: {refused:?}"
            );
        }
        for url in [
            "http://a.example.test/",
            "http://203.0.113.10/",
            "dns://a.example.test",
        ] {
            check_literal_address(&probe(url), None, &scope).unwrap();
        }
    }

    #[test]
    fn what_the_configuration_allows_is_allowed_and_what_it_refuses_is_refused() {
        let options = RunOptions {
            allow: vec!["127.0.0.0/8".parse().unwrap()],
            refuse: vec!["203.0.113.0/24".parse().unwrap()],
            ..RunOptions::default()
        };
        let scope = probe_scope(&topology(), &options);
        check_literal_address(&probe("http://localhost:8080/"), None, &scope).unwrap();
        assert!(check_literal_address(&probe("http://203.0.113.10/"), None, &scope).is_err());
        let dial = Some("203.0.113.9".parse().unwrap());
        assert!(check_literal_address(&probe("http://a.example.test/"), dial, &scope).is_err());
    }

    #[test]
    fn a_target_that_nobody_knows_is_asked_for_only_where_the_configuration_says_so() {
        let target = Target::try_from(TargetSpec::new("http://new.example.test/")).unwrap();
        let topology = topology();
        let error = admit_target(&topology, &target, &RunOptions::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains("runs.targets: any"), "{error}");
        let any = RunOptions {
            allow_any_target: true,
            ..RunOptions::default()
        };
        let with = admit_target(&topology, &target, &any).unwrap().unwrap();
        assert!(with.targets().contains_key(&target.id));
        assert_eq!(with.vantages(), topology.vantages());
    }
}
