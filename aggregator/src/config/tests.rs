use std::{fs, path::Path};

use super::*;

fn load(yaml: &str) -> Result<Config, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parallax.yaml");
    fs::write(&path, yaml).unwrap();
    Config::load(&path)
}

/// Returns the errors of a configuration, without the temporary folder.
fn complaints(yaml: &str) -> Vec<String> {
    let error = load(yaml).expect_err("the file should be rejected");
    error
        .problems()
        .iter()
        .map(|c| {
            c.to_string().rsplit_once('/').map_or_else(
                || c.to_string(),
                |_| {
                    let start = c.file.rfind('/').unwrap() + 1;
                    c.to_string()[start..].to_owned()
                },
            )
        })
        .collect()
}

#[test]
fn the_sample_file_equals_the_defaults_plus_its_three_targets() {
    let sample = Config::load(Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../deploy/parallax.yaml"
    )))
    .unwrap();
    let empty = load("").unwrap();
    assert_eq!(sample.listen, empty.listen);
    assert_eq!(sample.interval, empty.interval);
    assert_eq!(sample.timeout, empty.timeout);
    assert!(sample.token.is_none());
    let ids: Vec<_> = sample
        .topology()
        .targets()
        .keys()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        ids,
        [
            "http://shop.example.com/",
            "https://shop.example.com/health",
            "tcp://db.example.com:5432"
        ]
    );
    assert_eq!(sample.longest_timeout(), Micros::from_secs(5));
}

#[test]
fn a_checkpoint_has_one_place() {
    let cases = [
        (
            "checkpoint: {configMap: parallax-checkpoint}\n",
            "parallax.yaml:1:25: checkpoint.configMap: expected namespace/name, got \"parallax-checkpoint\"",
        ),
        (
            "checkpoint: {}\n",
            "parallax.yaml:1:13: checkpoint: expected configMap: NAMESPACE/NAME or file: PATH",
        ),
        (
            "checkpoint: {configMap: a/b, file: c}\n",
            "parallax.yaml:1:13: checkpoint: expected configMap or file, found both",
        ),
    ];
    for (yaml, expected) in cases {
        let errors = complaints(yaml);
        assert!(errors[0].starts_with(expected), "{}", errors[0]);
    }
}

#[test]
fn each_mistake_is_answered_with_its_line_its_column_and_what_was_expected() {
    let cases = [
        (
            "intervallMs: 5000\n",
            r#"parallax.yaml:1:1: intervallMs: unknown field "intervallMs"; did you mean "intervalMs"?"#,
        ),
        (
            "listen: 127.0.0.1:80\nproxy: 3\n",
            r#"parallax.yaml:2:1: proxy: unknown field "proxy"; expected listen, intervalMs, timeoutMs, topology, targets, vantages, resolvers, balancers, tokenFile, tls, identity, access, allowedHosts, customResources, runs, tenants, challenges, replicas, links, notify, incidentActions, checkpoint, forecast, metrics or store"#,
        ),
        (
            "replicas: {lease: parallax/agg, leaseSeconds: 90}\n",
            "parallax.yaml:1:47: replicas.leaseSeconds: expected 1 to 60 seconds, found 90",
        ),
        (
            "intervalMs: soon\n",
            r#"parallax.yaml:1:13: intervalMs: expected a whole number, found "soon""#,
        ),
        (
            "listen: localhost\nintervalMs: 100\n",
            "parallax.yaml:1:9: listen: expected ADDRESS:PORT like 127.0.0.1:8080 or [::]:8080, found \"localhost\"",
        ),
        (
            "timeoutMs: 90000\n",
            "parallax.yaml:1:12: timeoutMs: expected 50 to 60000 milliseconds, found 90000",
        ),
        (
            "targets:\n  - url: http://a.example.test/\n  - url: ftp://b.example.test/\n",
            "parallax.yaml:3:5: targets[1]: url: expected http://…, https://…, tcp://host:port, tls://host:port or dns://name",
        ),
        (
            "targets:\n  - uri: http://a.example.test/\n",
            r#"parallax.yaml:2:5: targets[0].uri: unknown field "uri"; did you mean "url"?"#,
        ),
        (
            "targets:\n  - expectStatus: 200\n",
            r#"parallax.yaml:2:5: targets[0]: the field "url" is missing"#,
        ),
        (
            "vantages: [n1/pod, n2/moon]\n",
            "parallax.yaml:1:20: vantages[1]: expected NODE/pod, NODE/host, vpc:NAME or internet:NAME",
        ),
        (
            "tokenFile: nowhere\n",
            "parallax.yaml:1:12: tokenFile: cannot read ",
        ),
        (
            "listen: [unclosed\n",
            "parallax.yaml:1:9: not valid YAML: unclosed bracket '['",
        ),
        (
            "intervalMs: 5000\nintervalMs: 6000\n",
            "parallax.yaml:2:1: not valid YAML: duplicate mapping key: intervalMs",
        ),
        (
            "- a\n- b\n",
            "parallax.yaml:1:1: expected a mapping, found a list",
        ),
        (
            "topology: {nodes: [{name: n1}, {name: n1}]}\n",
            "parallax.yaml:1:39: topology.nodes[1].name: the node n1 is listed twice",
        ),
        (
            "topology:\n  proxyMode: ipvz\n",
            "parallax.yaml:2:14: topology.proxyMode: expected iptables, ipvs, nftables or unknown, found \"ipvz\"",
        ),
        (
            "identity: {audience: parallax, probers: [parallax/prober]}\n",
            "parallax.yaml:1:11: identity: expected tls as well: tokens must not travel in the clear",
        ),
        (
            "tls: {listen: '[::]:8443', hosts: [a b]}\n",
            "parallax.yaml:1:36: tls.hosts[0]: expected a host name or an IP address, without a port, found \"a b\"",
        ),
        (
            "tls: {listen: 8443, hosts: [a]}\n",
            "parallax.yaml:1:15: tls.listen: expected ADDRESS:PORT like 127.0.0.1:8443 or [::]:8443, found \"8443\"",
        ),
        (
            "tls: {listen: '[::]:8443', hosts: [a], publish: [parallax-ca]}\n",
            "parallax.yaml:1:50: tls.publish[0]: expected namespace/name, got \"parallax-ca\"",
        ),
        (
            "topology: {nodes: [{nam: n1}]}\n",
            r#"parallax.yaml:1:21: topology.nodes[0].nam: unknown field "nam"; did you mean "name"?"#,
        ),
    ];
    for (yaml, expected) in cases {
        let errors = complaints(yaml);
        assert!(
            errors[0].starts_with(expected),
            "{yaml}\n  said     {}\n  expected {expected}",
            errors[0]
        );
    }
}

#[test]
fn a_store_is_named_with_its_limits_and_each_mistake_with_its_line() {
    let none = load("").unwrap();
    assert!(none.store.is_none(), "in memory only");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parallax.yaml");
    fs::write(&path, "store: {path: data/history.db}\n").unwrap();
    let defaults = Config::load(&path).unwrap().store.unwrap();
    assert_eq!(
        defaults,
        StoreOptions::with_defaults(folder.path().join("data/history.db"))
    );
    fs::write(
        &path,
        "store: {path: /h.db, maxSize: 2GiB, keepIncidents: 30d, keepFailures: 90m, keepRollups: 12 h}\n",
    )
    .unwrap();
    let set = Config::load(&path).unwrap().store.unwrap();
    assert_eq!(set.path, Path::new("/h.db"));
    assert_eq!(set.max_bytes, 2 << 30);
    let kept = [set.keep_incidents, set.keep_failures, set.keep_rollups];
    assert_eq!(kept, [30 * 86_400, 90 * 60, 12 * 3_600].map(Micros::from_secs));
    assert_eq!(
        complaints(
            "store:\n  path: ..\n  maxSize: 10\n  keepIncidents: 5s\n  keepFailures: 1m\n  keepRollups: 9999999999999999999d\n"
        ),
        [
            "parallax.yaml:2:9: store.path: expected the name of a file",
            "parallax.yaml:3:12: store.maxSize: expected a size from 1MiB to 1024GiB such as 256MiB, found \"10\"",
            "parallax.yaml:4:18: store.keepIncidents: expected a duration from 1h to 3650d such as 90d or 12h, found \"5s\"",
            "parallax.yaml:5:17: store.keepFailures: expected a duration from 1h to 3650d such as 90d or 12h, found \"1m\"",
            "parallax.yaml:6:16: store.keepRollups: expected a duration from 1h to 3650d such as 90d or 12h, found \"9999999999999999999d\"",
        ]
    );
    let errors = complaints("store: {pth: x}\n");
    assert!(errors[0].contains("did you mean \"path\""), "{errors:?}");
}

#[test]
fn all_mistakes_are_named_at_once_and_no_consequence_of_one() {
    let errors = complaints(
        "listn: x\n\
         timeoutMs: long\n\
         targets:\n\
         \x20 - {url: [], expectStatus: 2000}\n\
         \x20 - {url: http://a.example.test/, intervalMs: -1}\n\
         topology:\n\
         \x20 nodes: [{name: n1, zone: ''}]\n\
         \x20 services: [{name: web, ports: [{port: 70000, targetPort: 1}]}]\n",
    );
    let places: Vec<_> = errors
        .iter()
        .map(|line| line.split(": ").take(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        places,
        [
            "parallax.yaml:1:1 listn",
            "parallax.yaml:2:12 timeoutMs",
            "parallax.yaml:4:11 targets[0].url",
            "parallax.yaml:4:29 targets[0].expectStatus",
            "parallax.yaml:5:47 targets[1].intervalMs",
            "parallax.yaml:7:28 topology.nodes[0].zone",
            "parallax.yaml:8:14 topology.services[0]",
            "parallax.yaml:8:41 topology.services[0].ports[0].port",
        ],
        "{errors:#?}"
    );
}

#[test]
fn a_number_where_text_is_meant_is_taken_as_written() {
    let config = load(
        "targets: [{url: 'http://a.example.test/', expectStatus: 200}]\ntopology: {nodes: [{name: 007}]}\n",
    );
    let config = config.unwrap();
    assert_eq!(config.topology().nodes().keys().next().unwrap().as_str(), "007");
}

#[test]
fn a_topology_file_is_found_beside_the_configuration_and_its_mistakes_carry_its_own_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parallax.yaml");
    fs::write(
        &path,
        "topology: mesh/topology.yaml\ntargets: [{url: http://a.example.test/}]\n",
    )
    .unwrap();
    let error = Config::load(&path).unwrap_err().to_string();
    assert!(
        error.contains("mesh/topology.yaml: cannot read the topology: "),
        "{error}"
    );

    fs::create_dir(folder.path().join("mesh")).unwrap();
    let topology = folder.path().join("mesh/topology.yaml");
    fs::write(&topology, "nodes:\n  - name: n1\nservices:\n  - {namespace: a, name: b, ports: [], endpoints: [{pod: p, address: 10.0.0.1, node: n7}]}\n").unwrap();
    let error = Config::load(&path).unwrap_err().to_string();
    assert!(
        error.contains(
            "mesh/topology.yaml:4:86: services[0].endpoints[0].node: expected one of the nodes listed, got n7"
        ),
        "{error}"
    );

    for empty in ["", "# to be written\n"] {
        fs::write(&topology, empty).unwrap();
        let error = Config::load(&path).unwrap_err().to_string();
        assert!(
            error.ends_with("the topology file is empty; write `nodes: []` for a topology without nodes"),
            "{error}"
        );
    }

    for explicit in ["{}\n", "nodes: []\n"] {
        fs::write(&topology, explicit).unwrap();
        assert!(Config::load(&path).unwrap().topology().nodes().is_empty());
    }

    fs::write(&topology, "targets: [{url: http://a.example.test/}]\n").unwrap();
    let error = Config::load(&path).unwrap_err().to_string();
    assert!(
        error.contains("parallax.yaml:2:11: targets[0]: the target http://a.example.test/ is listed twice"),
        "{error}"
    );
}

#[test]
fn a_control_character_of_the_file_reaches_no_terminal() {
    for yaml in [
        "\"a\\tb\": 1\n",
        "\"a\\e[31mb\": {\"c\\x07\": 1}\n",
        "listen: \"\\e]0;x\\a\"\n",
    ] {
        for complaint in complaints(yaml) {
            assert!(!complaint.contains(char::is_control), "{complaint:?}");
        }
    }
}

const BALANCED: &str = "\
topology:
  nodes:
  - {name: n1}
  - {name: n2}
  services:
  - {namespace: ingress, name: nginx, type: LoadBalancer, loadBalancer: [{ip: 203.0.113.10}], ports: [{port: 80, targetPort: 8080}]}
resolvers:
  public: [198.51.100.1]
balancers:
- {name: slb, services: [ingress/nginx], quota: {targets: 2}}
";

#[test]
fn quotas_and_public_resolvers_come_from_the_configuration_whatever_the_topology_comes_from() {
    let config = load(BALANCED).unwrap();
    let topology = config.topology();
    assert_eq!(topology.balancers()[0].quota.unwrap().targets, 2);
    assert!(
        topology
            .public_resolvers()
            .contains(&"198.51.100.1".parse().unwrap())
    );
    let twice = format!("{BALANCED}- {{name: clb, services: [ingress/nginx]}}\n");
    let found = complaints(&twice);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("parallax.yaml:11:") && found[0].contains("is on the balancer slb already"),
        "{found:?}"
    );
}

#[test]
fn the_cluster_as_source_needs_nothing_but_its_name() {
    let config = load("topology: {kubernetes: }\ntargets: [{url: 'http://a.example.test/'}]\n").unwrap();
    let kubernetes = config.source.kubernetes.unwrap();
    assert_eq!(kubernetes.access, ApiServerAccess::Inferred { context: None });
    assert!(
        kubernetes.prober_namespaces.is_empty(),
        "the aggregator's own namespace"
    );
    assert_eq!(
        kubernetes.prober_selector,
        parallax_kubernetes::watch::PROBER_SELECTOR
    );
    assert_eq!(kubernetes.defaults, TargetDefaults::Published);
    assert_eq!(
        config.initial_topology.targets().len(),
        1,
        "targets of the configuration are probed from the start"
    );
}

#[test]
fn the_pods_of_every_account_that_may_report_are_looked_for() {
    let yaml = "topology: {kubernetes: }\ntls: {listen: '127.0.0.1:0', hosts: [localhost]}\nidentity: {audience: parallax, \
                probers: [parallax/p, host/p], responders: [parallax/r]}\n";
    let kubernetes = load(yaml).unwrap().source.kubernetes.unwrap();
    assert_eq!(kubernetes.prober_namespaces, ["host", "parallax"]);
}

#[test]
fn paths_of_the_cluster_section_are_relative_to_the_file() {
    let yaml = "topology:\n  kubernetes:\n    kubeconfig: kube/config\n    context: blue\n    proberNamespace: mesh\n    \
                proberSelector: app=prober\n    targets: annotated\n";
    let kubernetes = load(yaml).unwrap().source.kubernetes.unwrap();
    let ApiServerAccess::File { path, context } = kubernetes.access else {
        panic!("a kubeconfig was named");
    };
    assert!(path.is_absolute() && path.ends_with("kube/config"));
    assert_eq!(context.as_deref(), Some("blue"));
    assert_eq!(kubernetes.prober_namespaces, ["mesh"]);
    assert_eq!(kubernetes.prober_selector, "app=prober");
    assert_eq!(kubernetes.defaults, TargetDefaults::Annotated);
}

#[test]
fn errors_in_the_cluster_section_have_positions() {
    assert_eq!(
        complaints("topology:\n  kubernetes:\n    contxt: blue\n    targets: everything\n  nodes: []\n"),
        [
            "parallax.yaml:3:5: topology.kubernetes.contxt: unknown field \"contxt\"; did you mean \"context\"?",
            "parallax.yaml:4:14: topology.kubernetes.targets: expected published or annotated, found \"everything\"",
            "parallax.yaml:5:3: topology.nodes: unknown field \"nodes\"; expected kubernetes",
        ]
    );
}
