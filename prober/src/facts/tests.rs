//! Each source reads a directory tree of arbitrary contents; facts are reported when they change.

use std::{collections::BTreeSet, fs, net::IpAddr, time::Instant};

use parallax_model::{Conntrack, HealthCheck};
use proptest::prelude::*;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;

struct FileTree(tempfile::TempDir);

impl FileTree {
    fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for (path, content) in files {
            let path = tree.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        tree
    }

    fn host(&self) -> HostFacts {
        read_host(self.0.path())
    }
}

const RT_CACHE: &str = "entries  in_hit in_slow_tot in_slow_mc in_no_route in_brd in_martian_dst in_martian_src  out_hit out_slow_tot out_slow_mc
00000002 00000000 00000010 00000000 00000000 00000000 00000000 0000000a  00000000 00000000 00000000
00000002 00000000 00000011 00000000 00000000 00000000 00000000 00000005  00000000 00000000 00000000
";

#[test]
fn node_facts_come_from_its_files() {
    let tree = FileTree::new(&[
        ("sys/class/net/eth0/ifindex", "2\n"),
        ("sys/class/net/veth1/brport/hairpin_mode", "1\n"),
        ("sys/class/net/veth2/brport/hairpin_mode", "0\n"),
        ("proc/sys/net/bridge/bridge-nf-call-iptables", "1\n"),
        ("proc/sys/net/ipv4/conf/all/rp_filter", "0\n"),
        ("proc/sys/net/ipv4/conf/lo/rp_filter", "1\n"),
        ("proc/sys/net/ipv4/conf/eth0/rp_filter", "1\n"),
        ("proc/sys/net/netfilter/nf_conntrack_count", "253952\n"),
        ("proc/sys/net/netfilter/nf_conntrack_max", "262144\n"),
        ("proc/net/stat/rt_cache", RT_CACHE),
    ]);
    let expected = HostFacts {
        ipvs_addresses: Some(Vec::new()),
        hairpin: Some(false),
        bridge_nf_call_iptables: Some(true),
        strict_rp_filter: Some(true),
        conntrack: Some(Conntrack {
            count: 253_952,
            max: 262_144,
        }),
        martian_sources: Some(15),
        ..HostFacts::default()
    };
    assert_eq!(tree.host(), expected);
}

#[test]
fn what_is_not_there_or_not_readable_is_unknown() {
    assert_eq!(FileTree::new(&[]).host(), HostFacts::default());
    let rubbish = FileTree::new(&[
        ("sys/class/net/veth1/brport/hairpin_mode", "maybe"),
        ("proc/sys/net/ipv4/conf/all/rp_filter", ""),
        ("proc/sys/net/netfilter/nf_conntrack_count", "-1"),
        ("proc/sys/net/netfilter/nf_conntrack_max", "1"),
        ("proc/net/stat/rt_cache", "entries in_hit\n0 0\n"),
    ]);
    let expected = HostFacts {
        ipvs_addresses: Some(Vec::new()),
        ..HostFacts::default()
    };
    assert_eq!(
        rubbish.host(),
        expected,
        "except the addresses of the interface that does not exist"
    );
}

#[test]
fn loose_for_all_interfaces_overrules_strict_on_one() {
    let strict = |all: &str, own: &str| {
        FileTree::new(&[
            ("proc/sys/net/ipv4/conf/all/rp_filter", all),
            ("proc/sys/net/ipv4/conf/default/rp_filter", "1"),
            ("proc/sys/net/ipv4/conf/eth0/rp_filter", own),
        ])
        .host()
        .strict_rp_filter
    };
    assert_eq!(strict("0", "1"), Some(true));
    assert_eq!(strict("1", "0"), Some(true));
    assert_eq!(strict("2", "1"), Some(false));
    assert_eq!(strict("0", "0"), Some(false));
}

#[test]
fn kernel_lists_interface_addresses_without_privileges() {
    // The loopback has index 1 in every network namespace.
    let found = ipvs::interface_addresses(1).unwrap();
    assert!(found.contains(&IpAddr::from([127, 0, 0, 1])), "{found:?}");
    assert!(ipvs::interface_addresses(u32::MAX).unwrap().is_empty());
}

/// One address of an interface, as the kernel encodes it.
fn newaddr(index: u32, attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = vec![2, 32, 0, 0];
    body.extend(index.to_ne_bytes());
    for (kind, value) in attributes {
        body.extend(u16::try_from(value.len() + 4).unwrap().to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(*value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    message(20, &body)
}

fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(body.len() + 16).unwrap().to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend([0; 10]);
    bytes.extend(body);
    bytes
}

#[test]
fn addresses_of_both_families_are_taken_of_the_right_interface_until_the_dump_ends() {
    let v6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    let bytes = [
        newaddr(
            7,
            &[
                (1, &[203, 0, 113, 10]),
                (2, &[203, 0, 113, 10]),
                (3, b"kube-ipvs0\0"),
            ],
        ),
        newaddr(2, &[(1, &[192, 0, 2, 1])]),
        newaddr(7, &[(1, &v6)]),
        newaddr(7, &[(2, &[10, 0, 0, 1]), (1, &[10, 0, 0, 2])]),
    ]
    .concat();
    let mut found = BTreeSet::new();
    assert!(
        ipvs::parse_messages(&bytes, 7, &mut found).unwrap(),
        "more may come"
    );
    let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["10.0.0.1", "203.0.113.10", "2001:db8::7"]);
    assert!(!ipvs::parse_messages(&message(3, &[0; 4]), 7, &mut found).unwrap());
    assert!(ipvs::parse_messages(&message(2, &[0; 20]), 7, &mut found).is_err());
    assert!(
        ipvs::parse_messages(&bytes[..20], 7, &mut found).is_err(),
        "cut off"
    );
}

#[test]
fn what_is_no_answer_of_kube_proxy_is_none() {
    assert_eq!(kube_proxy::mode(b"ipvs\n").as_deref(), Some("ipvs"));
    for other in [&b""[..], b"<html>", b"\xff", &[b'a'; 33]] {
        assert_eq!(kube_proxy::mode(other), None);
    }
    let body = br#"{"service":{"namespace":"a","name":"b"},"localEndpoints":2,"serviceProxyHealthy":false}"#;
    let expected = HealthCheck {
        port: 30_123,
        local_endpoints: 2,
        proxy_healthy: Some(false),
    };
    assert_eq!(kube_proxy::health_check(30_123, body), Some(expected));
    assert_eq!(kube_proxy::health_check(1, br#"{"localEndpoints":-1}"#), None);
}

proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic_or_go_round_for_ever(bytes in prop::collection::vec(any::<u8>(), 0..300), index in any::<u32>()) {
        let _ = ipvs::parse_messages(&bytes, index, &mut BTreeSet::new());
        // After a valid header, so that the attributes are parsed.
        let mut body = vec![2, 32, 0, 0];
        body.extend(index.to_ne_bytes());
        body.extend(&bytes);
        let _ = ipvs::parse_messages(&message(20, &body), index, &mut BTreeSet::new());
        let _ = kube_proxy::mode(&bytes);
        let _ = kube_proxy::health_check(1, &bytes);
        let _ = martian::parse(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn counts_of_all_cpus_are_added_wherever_their_column_stands(counts in prop::collection::vec(any::<u32>(), 1..20), before in 0_usize..5) {
        let mut text = format!("{}in_martian_src out_hit\n", "x ".repeat(before));
        for n in &counts {
            let columns = "00000001 ".repeat(before);
            text.extend([columns, format!("{n:08x} 00000000\n")]);
        }
        let sum: u64 = counts.iter().map(|n| u64::from(*n)).sum();
        prop_assert_eq!(martian::parse(&text), Some(sum));
    }
}

#[test]
fn facts_go_out_when_they_change_until_a_report_with_them_was_taken_and_again_each_minute() {
    let latest_facts = LatestFacts::default();
    let mut telling = FactDelivery::default();
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let facts = |hairpin| HostFacts {
        hairpin: Some(hairpin),
        ..HostFacts::default()
    };
    assert_eq!(telling.next(&latest_facts, at(0)), None);
    latest_facts.set(HostFacts::default());
    assert_eq!(
        telling.next(&latest_facts, at(0)),
        None,
        "empty facts are not sent"
    );
    latest_facts.set(facts(true));
    assert_eq!(telling.next(&latest_facts, at(1)), Some(facts(true)));
    assert_eq!(
        telling.next(&latest_facts, at(2)),
        Some(facts(true)),
        "not acknowledged yet"
    );
    telling.acknowledge(at(2));
    assert_eq!(telling.next(&latest_facts, at(3)), None);
    latest_facts.set(facts(false));
    assert_eq!(telling.next(&latest_facts, at(4)), Some(facts(false)));
    // A collection between request and response: facts that were not sent are not delivered.
    latest_facts.set(facts(true));
    telling.acknowledge(at(4));
    assert_eq!(telling.next(&latest_facts, at(5)), Some(facts(true)));
    telling.acknowledge(at(5));
    assert_eq!(telling.next(&latest_facts, at(64)), None);
    assert_eq!(telling.next(&latest_facts, at(65)), Some(facts(true)));
    latest_facts.set(HostFacts::default());
    telling.acknowledge(at(65));
    assert_eq!(
        telling.next(&latest_facts, at(66)),
        Some(HostFacts::default()),
        "facts that are no longer known are revoked"
    );
}

#[test]
fn each_aggregator_gets_the_facts() {
    let (latest_facts, now) = (LatestFacts::default(), Instant::now());
    let (mut one, mut other) = (FactDelivery::default(), FactDelivery::default());
    let facts = HostFacts {
        hairpin: Some(true),
        ..HostFacts::default()
    };
    latest_facts.set(facts.clone());
    assert_eq!(one.next(&latest_facts, now), Some(facts.clone()));
    one.acknowledge(now);
    assert_eq!(other.next(&latest_facts, now), Some(facts));
}

/// A server that responds to every request by its path.
async fn kube_proxy_server() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = [0; 1_024];
            let n = stream.read(&mut buffer).await.unwrap_or(0);
            let request = String::from_utf8_lossy(&buffer[..n]).into_owned();
            let (status, body) = if request.starts_with("GET /proxyMode ") {
                ("200 OK", "ipvs")
            } else if request.starts_with("GET /healthz ") {
                ("503 Service Unavailable", "{}")
            } else {
                (
                    "503 Service Unavailable",
                    r#"{"localEndpoints":0,"serviceProxyHealthy":true}"#,
                )
            };
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    address
}

#[tokio::test]
async fn host_queries_the_mode_and_pod_only_the_requested_checks() {
    let address = kube_proxy_server().await;
    let tree = FileTree::new(&[
        ("proc/sys/net/netfilter/nf_conntrack_count", "1"),
        ("proc/sys/net/netfilter/nf_conntrack_max", "2"),
    ]);
    let sources = FactSources {
        root: tree.0.path().to_owned(),
        kube_proxy: address,
    };
    let (ask, questions) = watch::channel(FactQuestions::default());
    let collector = |vantage: &str| {
        FactCollector::new(&vantage.parse().unwrap(), sources.clone(), questions.clone()).unwrap()
    };
    let host = collector("n1/host").collect().await;
    assert_eq!(host.proxy_mode.as_deref(), Some("ipvs"));
    assert!(host.conntrack.is_some());
    assert_eq!(collector("n1/pod").collect().await, HostFacts::default());
    ask.send_replace(FactQuestions {
        healthz: Some(address),
        health_checks: vec![address],
    });
    let pod = collector("n1/pod").collect().await;
    assert_eq!(pod.proxy_healthy, Some(false));
    assert_eq!(
        (pod.health_checks[0].local_endpoints, pod.health_checks[0].port),
        (0, address.port())
    );
    assert_eq!(pod.conntrack, None, "the table of a Pod is not that of the node");
}
