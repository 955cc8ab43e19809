//! The resolvers of the cluster and the one outside: commands, and the contents of their files. Pure.

use std::fmt::Write;

use parallax_model::{HostName, PodName};

use crate::{
    cluster::{Cluster, NameAddresses, Pod, Resolver, addresses},
    command::GuestCommand,
    incident::ResolverSoftware,
    workloads::WorkloadProcess,
};

/// Builds a resolver of the cluster, which knows the hosts of the Ingresses and the names of Services, and no others.
/// If it caches, this is the server behind the cache.
#[must_use]
pub fn names(cluster: &Cluster, resolver: &Resolver) -> WorkloadProcess {
    let pod = &resolver.pod;
    let answers = cluster.answers(&pod.name);
    let path = format!("/run/{}.conf", pod.name);
    match resolver.software {
        ResolverSoftware::Dnsmasq => {
            let hosts = service_names_path(pod);
            let listen = match resolver.cache_seconds {
                Some(seconds) => format!(
                    "port={}\nlisten-address=127.0.0.1\nbind-interfaces\nlocal-ttl={seconds}\n",
                    addresses::NAMES_PORT
                ),
                None => "port=53\nlocal-ttl=5\n".to_owned(),
            };
            let more = format!("{listen}addn-hosts={hosts}\n");
            let mut workload = dnsmasq(Some(pod.name.as_str()), &path, answers, &more);
            workload.files.push((hosts, service_names(cluster)));
            workload
        }
        ResolverSoftware::Unbound => unbound(pod, &path, answers),
    }
}

/// Builds the cache in front of a resolver, if it has one.
///
/// dnsmasq sends no SOA record with a negative answer, so the cache's negative TTL is configured.
#[must_use]
pub fn cache(resolver: &Resolver) -> Option<WorkloadProcess> {
    let seconds = resolver.cache_seconds?;
    let pod = resolver.pod.name.as_str();
    let path = format!("/run/{pod}-cache.conf");
    let text = format!(
        "port=53\nuser=root\nno-resolv\nno-hosts\nno-daemon\npid-file=\nserver=127.0.0.1#{}\nneg-ttl={seconds}\n\
         max-cache-ttl={seconds}\ncache-size=1000\n",
        addresses::NAMES_PORT
    );
    Some(WorkloadProcess {
        command: GuestCommand::in_namespace(
            pod,
            ["dnsmasq", "--keep-in-foreground", &format!("--conf-file={path}")],
        ),
        files: vec![(path, text)],
    })
}

/// Returns the path of a resolver's file with the names of Services.
#[must_use]
pub fn service_names_path(pod: &Pod) -> String {
    format!("/run/{}.hosts", pod.name)
}

/// Renders the names of Services as in `hosts(5)`.
#[must_use]
pub fn service_names(cluster: &Cluster) -> String {
    let all = cluster.service_names();
    let lines = all
        .iter()
        .flat_map(|(name, addresses)| addresses.iter().map(move |ip| format!("{ip} {name}\n")));
    lines.collect()
}

/// Builds the resolver outside.
#[must_use]
pub fn public(cluster: &Cluster, name: &PodName) -> WorkloadProcess {
    let listen = format!(
        "port=53\nlocal-ttl=5\nlisten-address={}\nbind-interfaces\n",
        addresses::PUBLIC_DNS
    );
    dnsmasq(None, "/run/public.conf", cluster.answers(name), &listen)
}

fn dnsmasq<'a>(
    netns: Option<&str>,
    path: &str,
    answers: impl IntoIterator<Item = (&'a HostName, NameAddresses)>,
    more: &str,
) -> WorkloadProcess {
    let mut text = format!("user=root\nno-resolv\nno-hosts\nno-daemon\npid-file=\nlocal=/#/\n{more}");
    for (host, addresses) in answers {
        for address in addresses.iter() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "host-record={host},{address}");
        }
    }
    let argv = [
        "dnsmasq".to_owned(),
        "--keep-in-foreground".to_owned(),
        format!("--conf-file={path}"),
    ];
    WorkloadProcess {
        command: GuestCommand {
            netns: netns.map(str::to_owned),
            ..GuestCommand::new(argv)
        },
        files: vec![(path.to_owned(), text)],
    }
}

fn unbound<'a>(
    pod: &Pod,
    path: &str,
    answers: impl IntoIterator<Item = (&'a HostName, NameAddresses)>,
) -> WorkloadProcess {
    let mut text = format!(
        "server:\n  interface: {}\n  access-control: 0.0.0.0/0 allow\n  do-daemonize: no\n  username: \"\"\n  \
         chroot: \"\"\n  directory: \"/run\"\n  pidfile: \"\"\n  use-syslog: no\n  logfile: \"\"\n  num-threads: 1\n  \
         module-config: \"iterator\"\n  do-ip6: no\n  local-zone: \".\" static\nremote-control:\n  control-enable: no\nserver:\n",
        pod.address
    );
    for (host, addresses) in answers {
        for address in addresses.iter() {
            let kind = if address.is_ipv6() { "AAAA" } else { "A" };
            let _ = writeln!(text, "  local-data: \"{host}. 5 IN {kind} {address}\"");
        }
    }
    WorkloadProcess {
        command: GuestCommand::in_namespace(pod.name.as_str(), ["unbound", "-d", "-p", "-c", path]),
        files: vec![(path.to_owned(), text)],
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::incident_file::load;

    fn of(id: &str) -> Cluster {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("incidents");
        Cluster::derive(&load(&folder, id).unwrap()).unwrap()
    }

    #[test]
    fn both_resolver_programs_answer_the_same_names() {
        let cluster = of("i3-missing");
        for (resolver, line) in [
            (&cluster.resolvers[0], "host-record=shop.example.test,10.96.0.50"),
            (
                &cluster.resolvers[1],
                "local-data: \"shop.example.test. 5 IN A 10.96.0.50\"",
            ),
        ] {
            let workload = names(&cluster, resolver);
            assert!(workload.files[0].1.contains(line), "{}", workload.files[0].1);
        }
    }

    #[test]
    fn a_cache_keeps_both_sorts_of_answer_as_long_as_what_is_behind_it_says() {
        let cluster = of("quiet-headless");
        let resolver = &cluster.resolvers[0];
        let behind = names(&cluster, resolver);
        assert!(behind.files[0].1.contains("port=5353") && behind.files[0].1.contains("local-ttl=30"));
        let hosts = &behind.files[1].1;
        assert!(
            hosts.contains("10.244.2.11 app.shop.svc.cluster.local\n"),
            "{hosts}"
        );
        let front = cache(resolver).unwrap();
        assert!(front.files[0].1.contains("server=127.0.0.1#5353\nneg-ttl=30\n"));
        assert_eq!(cache(&of("i1").resolvers[0]), None);
    }

    #[test]
    fn a_resolver_is_behind_the_service_unless_it_serves_nodes_by_its_own_address() {
        let behind = |id: &str| -> Vec<String> {
            let pods = of(id).resolver_service.endpoints;
            pods.iter()
                .map(|pod| format!("{} {}", pod.name, pod.node))
                .collect()
        };
        assert_eq!(behind("i1"), ["dns n1"]);
        assert_eq!(behind("i3-missing"), ["dns n1"]);
        assert_eq!(behind("dns-link"), ["coredns-1 n2", "coredns-2 n3"]);
    }
}
