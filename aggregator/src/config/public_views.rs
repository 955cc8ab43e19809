//! DNS targets that compare public resolvers with the nodes' own, for the hosts that the cluster publishes.

use std::{collections::BTreeSet, net::SocketAddr};

use parallax_diagnosis::topology::TopologySpec;
use parallax_model::{Target, TargetId, TargetSpec};

/// Maximum number of hosts; each of them is a target per public resolver.
const MAX_HOSTS: usize = 500;
/// Interval of these targets, in milliseconds.
const INTERVAL_MS: u64 = 60_000;

/// Adds a DNS target per published host for each public resolver, and one for the nodes' own resolver to compare with.
/// Configuring a public resolver permits egress to it.
pub(super) fn add_public_targets(spec: &mut TopologySpec) {
    let resolvers = spec.resolvers.public.clone();
    if resolvers.is_empty() {
        return;
    }
    let known: BTreeSet<TargetId> = spec
        .targets
        .iter()
        .filter_map(|target| Some(Target::try_from(target.clone()).ok()?.id))
        .collect();
    let hosts: BTreeSet<String> = spec
        .published
        .iter()
        .filter_map(|published| url::Url::parse(&published.target.url).ok())
        .filter_map(|url| match url.host()? {
            // Cluster-internal names do not exist in public DNS.
            url::Host::Domain(name) if name.rsplit('.').next() != Some("svc") => Some(name.to_owned()),
            _ => None,
        })
        .collect();
    let own = std::iter::once(None);
    let queried: Vec<Option<SocketAddr>> = own
        .chain(resolvers.iter().map(|ip| Some(SocketAddr::new(*ip, 53))))
        .collect();
    for host in hosts.iter().take(MAX_HOSTS) {
        for resolver in &queried {
            let question = TargetSpec {
                resolver: *resolver,
                interval_ms: Some(INTERVAL_MS),
                ..TargetSpec::new(format!("dns://{host}"))
            };
            let new = Target::try_from(question.clone()).is_ok_and(|target| !known.contains(&target.id));
            if new {
                spec.targets.push(question);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(public: &[&str], targets: &serde_json::Value) -> Vec<(String, Option<String>)> {
        let published = |url: &str| json!({"target": {"url": url}, "service": "ingress/nginx", "port": 80});
        let mut spec: TopologySpec = serde_json::from_value(json!({
            "published": [published("http://shop.example.test/"), published("https://shop.example.test/"),
                published("http://203.0.113.10/"), published("http://web.shop.svc:8080/")],
            "targets": targets, "resolvers": {"public": public},
        }))
        .unwrap();
        let before = spec.targets.len();
        add_public_targets(&mut spec);
        let new = spec.targets.split_off(before);
        new.into_iter()
            .map(|target| (target.url, target.resolver.map(|resolver| resolver.to_string())))
            .collect()
    }

    #[test]
    fn without_public_resolvers_no_target_is_added() {
        assert_eq!(asked(&[], &json!([])), []);
    }

    #[test]
    fn every_published_host_gets_one_target_per_resolver() {
        let question =
            |resolver: Option<&str>| ("dns://shop.example.test".to_owned(), resolver.map(str::to_owned));
        assert_eq!(
            asked(&["192.0.2.53", "2001:db8::53"], &json!([])),
            [
                question(None),
                question(Some("192.0.2.53:53")),
                question(Some("[2001:db8::53]:53"))
            ]
        );
    }

    #[test]
    fn targets_of_the_configuration_are_not_duplicated() {
        let own = json!([{"url": "dns://shop.example.test", "resolver": "192.0.2.53:53"}]);
        assert_eq!(
            asked(&["192.0.2.53"], &own),
            [("dns://shop.example.test".to_owned(), None)]
        );
    }
}
