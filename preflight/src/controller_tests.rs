use serde_json::json;

use super::*;

#[expect(clippy::needless_pass_by_value, reason = "reads as a table of objects")]
fn deployment(spec: Value) -> Value {
    json!({"metadata": {"namespace": "cert-manager", "name": "cert-manager"},
           "spec": {"template": {"metadata": {"labels": {"app": "cert-manager"}}, "spec": spec}}})
}

fn pod(name: &str, node: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"nodeName": node}, "status": {"phase": "Running"}})
}

fn lease(holder: &str) -> Value {
    json!({"spec": {"holderIdentity": holder}})
}

#[test]
fn the_leader_is_the_holder_of_the_lease_or_the_only_pod_and_never_a_guess() {
    let of = |pods: &[Value], lease: Option<&Value>| {
        let found = read_controller(&deployment(json!({"containers": [{}]})), pods, lease, &[]);
        (found.leader, found.node.map(|node| node.to_string()))
    };
    let (a, b) = (pod("cm-a", "n1"), pod("cm-b", "n3"));
    let both = [a.clone(), b];
    let named_lease = lease("cm-b-external-cert-manager-controller");
    assert_eq!(
        of(&both, Some(&named_lease)),
        (LeaderEvidence::Lease("cm-b".into()), Some("n3".into()))
    );
    assert_eq!(of(&both, None), (LeaderEvidence::Unknown, None));
    assert_eq!(
        of(&both, Some(&lease("cm-gone-external"))),
        (LeaderEvidence::Unknown, None)
    );
    assert_eq!(
        of(std::slice::from_ref(&a), None),
        (LeaderEvidence::OnlyPod("cm-a".into()), Some("n1".into()))
    );
    let mut ending = a;
    ending["metadata"]["deletionTimestamp"] = json!("2026-11-22T04:00:00Z");
    assert_eq!(of(&[ending], None).0, LeaderEvidence::Unknown);
}

#[test]
fn what_differs_for_the_pod_is_read_from_its_deployment() {
    let plain = read_controller(
        &deployment(json!({"dnsPolicy": "ClusterFirst", "containers": [{}]})),
        &[],
        None,
        &[],
    );
    assert_eq!((plain.differences, plain.nameservers.len()), (vec![], 0));
    let other = read_controller(
        &deployment(
            json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"]}, "hostAliases": [{"ip": "10.0.0.1"}],
            "containers": [{"args": ["--v=2", "--acme-http01-solver-nameservers=1.1.1.1:53,9.9.9.9:53"],
                "env": [{"name": "HTTP_PROXY", "value": "http://proxy:3128"}, {"name": "no_proxy", "valueFrom": {}},
                        {"name": "POD_NAMESPACE", "value": "x"}]}]}),
        ),
        &[],
        None,
        &[],
    );
    assert_eq!(
        other.differences,
        [
            PodDifference::DnsPolicy("None".into()),
            PodDifference::DnsConfig,
            PodDifference::HostAliases
        ]
    );
    assert_eq!(other.nameservers, ["1.1.1.1:53", "9.9.9.9:53"]);
    assert_eq!(other.environment.len(), 2);
    assert_eq!(other.environment["no_proxy"], None);
    let host = |spec: Value| read_controller(&deployment(spec), &[], None, &[]).differences;
    assert_eq!(
        host(json!({"hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet", "containers": [{}]})),
        [PodDifference::HostNetwork]
    );
    assert_eq!(
        host(json!({"hostNetwork": true, "dnsPolicy": "ClusterFirst", "containers": [{}]}))[1],
        PodDifference::DnsPolicy("ClusterFirst".into())
    );
}

#[test]
fn egress_policies_that_select_the_pod_are_evaluated_for_an_address_as_the_client_names_it() {
    let address: IpAddr = "203.0.113.10".parse().unwrap();
    let policy = |selector: Value, egress: Value| json!({"metadata": {"name": "p"}, "spec": {"podSelector": selector, "policyTypes": ["Egress"], "egress": egress}});
    let own = json!({"matchLabels": {"app": "cert-manager"}});
    let found = |policies: &[Value]| {
        let controller = read_controller(&deployment(json!({"containers": [{}]})), &[], None, policies);
        egress_reachability(&controller.egress_policies, address, 80)
    };
    let table = [
        ("no policy", vec![], EgressReachability::Allowed),
        (
            "another pod's",
            vec![policy(json!({"matchLabels": {"app": "web"}}), json!([]))],
            EgressReachability::Allowed,
        ),
        (
            "nothing allowed",
            vec![policy(json!({}), json!([]))],
            EgressReachability::Denied,
        ),
        (
            "everything",
            vec![policy(own.clone(), json!([{}]))],
            EgressReachability::Allowed,
        ),
        (
            "only HTTPS",
            vec![policy(own.clone(), json!([{"ports": [{"port": 443}]}]))],
            EgressReachability::Denied,
        ),
        (
            "a range of ports",
            vec![policy(
                own.clone(),
                json!([{"ports": [{"port": 1, "endPort": 1024}]}]),
            )],
            EgressReachability::Allowed,
        ),
        (
            "over UDP",
            vec![policy(
                own.clone(),
                json!([{"ports": [{"port": 80, "protocol": "UDP"}]}]),
            )],
            EgressReachability::Denied,
        ),
        (
            "its block",
            vec![policy(
                own.clone(),
                json!([{"to": [{"ipBlock": {"cidr": "203.0.113.0/24"}}]}]),
            )],
            EgressReachability::Allowed,
        ),
        (
            "all but its block",
            vec![policy(
                own.clone(),
                json!([{"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["203.0.113.0/24"]}}]}]),
            )],
            EgressReachability::Denied,
        ),
        (
            "pods by labels",
            vec![policy(own.clone(), json!([{"to": [{"podSelector": {}}]}]))],
            EgressReachability::DependsOnDestination,
        ),
        (
            "one policy allows what the other does not",
            vec![
                policy(json!({}), json!([])),
                policy(own.clone(), json!([{"ports": [{"port": 80}]}])),
            ],
            EgressReachability::Allowed,
        ),
        (
            "an expression that holds",
            vec![policy(
                json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["cert-manager"]}]}),
                json!([]),
            )],
            EgressReachability::Denied,
        ),
    ];
    for (case, policies, expected) in table {
        assert_eq!(found(&policies), expected, "{case}");
    }
}
