//! The lab itself, with real packets. Needs user-mode Linux, and uses this machine's kernel for nftables if possible;
//! `PARALLAX_LAB=skip` skips these tests with a message.
//!
//! Assertions are based on an ordinary client and on tcpdump, never on Parallax's own counters. Tests that run the
//! product start the binaries `parallax` and `parallax-lab` from the build directory: `make test` builds the workspace
//! first, so that neither is stale.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]

mod boot;
mod cleanup;
mod support;

use std::path::Path;

use parallax_lab::{
    client::{ClientResult, Request},
    incident::{self, FaultOperation, Incident, TimedFault},
    incident_file,
    kernel::Kernel,
    lab::Lab,
    packets::PacketResult,
};

use support::{Cleanup, boot, kernel, lab, lab_binary, lab_with, lock, machine_state, skipped};

fn incident(id: &str) -> Incident {
    incident_file::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("incidents"), id).unwrap()
}

async fn assert_seen(lab: &mut Lab, faulty: bool) {
    let packets = lab.incident().expected.packets.clone();
    let looks = if faulty { packets.faulty } else { packets.healthy };
    let seen = lab.send_requests(&looks).await.unwrap();
    let wrong: Vec<String> = seen
        .iter()
        .filter(|s| !s.as_expected())
        .map(PacketResult::to_string)
        .collect();
    assert!(!seen.is_empty());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn i1_is_answered_everywhere_at_first_and_refused_by_the_own_node_after_the_fault() {
    lab(incident("i1"), async |lab| {
        assert_seen(lab, false).await;
        lab.fault(0).await.unwrap();
        assert_seen(lab, true).await;
        lab.check_processes().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_refused_client_sends_one_syn_and_its_own_node_answers_that_the_port_is_unreachable() {
    lab(incident("i1"), async |lab| {
        lab.fault(0).await.unwrap();
        let ask = Request::Http {
            to: "203.0.113.10:80".parse().unwrap(),
            host: "shop.example.test".into(),
        };
        let vip = "203.0.113.10".parse().unwrap();
        let (answer, packets) = lab.capture(&"n3".parse().unwrap(), vip, ask).await.unwrap();
        assert_eq!(answer, ClientResult::Refused);
        let [syn, icmp] = packets.as_slice() else {
            panic!("expected two packets: {packets:#?}")
        };
        assert!(
            syn.contains("10.244.3.5.") && syn.contains("> 203.0.113.10.80: Flags [S]"),
            "{syn}"
        );
        assert!(
            icmp.contains("203.0.113.10 > 10.244.3.5: ICMP 203.0.113.10 tcp port 80 unreachable, length 68"),
            "{icmp}"
        );
        // No router has decremented it, so the node itself sent it.
        assert!(icmp.contains("ttl 64"), "{icmp}");
    })
    .await;
}

#[tokio::test]
async fn the_services_can_be_left_to_a_program_that_makes_them_work_before_anybody_asks_and_after_each_change()
 {
    let hook = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/hook.sh");
    let mut incident = incident("i1");
    // The hook does not bind addresses, so none of them answers a ping.
    let by_address = |looks: &mut Vec<incident::PacketLine>| {
        looks.retain(|look| {
            matches!(
                look.to,
                incident::ServiceApproach::Vip | incident::ServiceApproach::ClusterIp
            )
        });
    };
    by_address(&mut incident.expected.packets.healthy);
    lab_with(incident, Some(&hook), async |lab| {
        let looks = lab.incident().expected.packets.healthy.clone();
        for expected in ["ingress-1", "ingress-2"] {
            let seen = lab.send_requests(&looks).await.unwrap();
            assert_eq!(seen.len(), 8, "from four nodes to two addresses");
            for seen in &seen {
                let pod = Some(expected.to_owned());
                assert_eq!(seen.result, ClientResult::Http { status: 200, pod }, "{seen}");
            }
            if expected == "ingress-1" {
                lab.fault(0).await.unwrap();
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_current_kube_proxy_does_not_refuse() {
    let mut incident = incident("i1");
    incident.dataplane = incident::Dataplane::Ipvs;
    for look in &mut incident.expected.packets.faulty {
        if look.sees == incident::ClientSight::Refused {
            look.sees = incident::ClientSight::Answered;
        }
    }
    lab(incident, async |lab| {
        lab.fault(0).await.unwrap();
        assert_seen(lab, true).await;
    })
    .await;
}

/// Runs two labs concurrently; one fails and ends, and the other is not affected.
async fn side_by_side(id: &str) {
    if skipped() {
        return;
    }
    let _turn = lock();
    let (mut one, mut other) = tokio::join!(boot(incident(id)), boot(incident(id)));
    one.build().await.unwrap();
    other.build().await.unwrap();
    one.fault(0).await.unwrap();
    assert_seen(&mut one, true).await;
    assert_seen(&mut other, false).await;
    one.stop(false).await;
    assert_seen(&mut other, false).await;
    other.stop(false).await;
}

#[tokio::test]
async fn two_labs_side_by_side_do_not_disturb_each_other() {
    side_by_side("i1").await;
}

#[tokio::test]
async fn nor_do_two_on_this_machines_kernel() {
    side_by_side("f3").await;
}

/// Builds a fault that runs a command on a node; if the command fails, so does the test.
fn check_on(node: &str, run: String) -> TimedFault {
    TimedFault {
        name: "a check from the node".to_owned(),
        after_rounds: 0,
        ops: vec![FaultOperation::Command {
            namespace: node.to_owned(),
            run,
        }],
    }
}

#[tokio::test]
async fn nftables_mode_serves_pods_whatever_the_policy_by_a_table_of_its_own_on_this_machines_kernel() {
    let mut incident = incident("quiet-nftables");
    let kernel = kernel(&incident);
    // Empty if iptables rules are used instead: in user-mode Linux.
    let table = "nft list map ip kube-proxy no-endpoint-services | grep -q '203.0.113.10 . tcp . 80 : drop'";
    incident.faults.push(check_on("n3", table.to_owned()));
    lab(incident, async |lab| {
        assert_seen(lab, false).await;
        lab.fault(0).await.unwrap();
        assert_seen(lab, true).await;
        assert_eq!(lab.fault(1).await.is_ok(), kernel == Kernel::Host);
        lab.check_processes().await.unwrap();
    })
    .await;
}

/// Measured: the filter of forwarded packets comes after the NAT of an earlier hook, whatever its priority.
#[tokio::test]
async fn before_its_fix_nftables_mode_drops_what_the_node_itself_sends_and_serves_its_pods() {
    let mut incident = incident("quiet-nftables");
    incident.dataplane = incident::Dataplane::NftablesOld;
    let ask = Request::Http {
        to: "203.0.113.10:80".parse().unwrap(),
        host: "shop.example.test".into(),
    };
    let ask = serde_json::to_string(&ask).unwrap();
    let sees = |pattern: &str| format!("echo '{ask}' | {} client | grep -q {pattern}", lab_binary());
    // Connections of the node itself are forwarded to any endpoint, if they are forwarded, as those of Pods are.
    incident.faults.push(check_on("n1", sees("'ingress-[12]'")));
    incident.faults.push(check_on("n3", sees("timed-out")));
    lab(incident, async |lab| {
        assert_seen(lab, false).await;
        lab.fault(0).await.unwrap();
        assert_seen(lab, true).await;
        lab.fault(1).await.unwrap();
        lab.fault(2).await.unwrap();
    })
    .await;
}

fn is_unanswered(result: &ClientResult) -> bool {
    matches!(result, ClientResult::TimedOut | ClientResult::Other { .. })
}

#[tokio::test]
async fn connections_go_to_a_node_that_is_cut_off_until_the_node_controller_takes_notice() {
    lab(incident("node-dies"), async |lab| {
        assert_seen(lab, false).await;
        lab.fault(0).await.unwrap();
        let looks = lab.incident().expected.packets.faulty.clone();
        // About one connection in three is forwarded there. It times out, or ends with "no route to host" once the
        // forwarding node has asked in vain for the MAC address of n3.
        let mut results = Vec::new();
        for _ in 0..20 {
            let seen = lab.send_requests(&looks).await.unwrap();
            results.extend(seen.into_iter().map(|seen| seen.result));
            if results.iter().any(is_unanswered) {
                break;
            }
        }
        assert!(results.iter().any(is_unanswered), "{results:?}");
        lab.mark_node_unheard(&"n3".parse().unwrap()).await.unwrap();
        for _ in 0..3 {
            assert_seen(lab, true).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_pod_is_connected_to_from_when_it_is_ready_and_serves_through_its_grace_period() {
    lab(incident("quiet-drain"), async |lab| {
        assert_seen(lab, false).await;
        let looks = lab.incident().expected.packets.healthy.clone();
        let app = looks.last().unwrap().clone();
        for (fault, pods) in [
            (0, ["app-2", "app-3"]),
            (1, ["app-2", "app-2"]),
            (2, ["app-2", "app-4"]),
            (3, ["app-2", "app-4"]),
        ] {
            lab.fault(fault).await.unwrap();
            for _ in 0..3 {
                for seen in lab.send_requests(std::slice::from_ref(&app)).await.unwrap() {
                    let by = |pod: &str| ClientResult::Http {
                        status: 200,
                        pod: Some(pod.to_owned()),
                    };
                    assert!(
                        pods.iter().any(|pod| seen.result == by(pod)),
                        "after {fault}: {seen}"
                    );
                }
            }
        }
        assert_seen(lab, true).await;
        lab.check_processes().await.unwrap();
    })
    .await;
}

/// Builds a fault that checks whether the cluster's resolver has an A record of a name.
fn resolves(namespace: &str, name: &str, wanted: bool) -> TimedFault {
    let labels: Vec<String> = name
        .split('.')
        .map(|label| format!("\\x{:02x}{label}", label.len()))
        .collect();
    let labels = labels.concat();
    let query = format!(
        "\\x00\\x07\\x01\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00{labels}\\x00\\x00\\x01\\x00\\x01"
    );
    // The fourth byte of the response contains the code: 0, or 3 for NXDOMAIN.
    let code = if wanted { "0" } else { "3" };
    check_on(
        namespace,
        format!(
            "exec timeout 5 bash -c 'exec 3<>/dev/udp/10.96.0.10/53; printf \"{query}\" >&3; \
             answer=$(dd bs=512 count=1 <&3 2>/dev/null | od -An -tx1 -N4 | tr -d \" \\n\"); [ \"${{answer: -1}}\" = {code} ]'"
        ),
    )
}

#[tokio::test]
async fn a_caching_resolver_goes_on_saying_that_a_name_does_not_exist() {
    let mut incident = incident("quiet-scale");
    let created = incident.faults[0].clone();
    let ready = incident.faults[2].clone();
    let (young, app) = ("young.side.svc.cluster.local", "app.shop.svc.cluster.local");
    let four = incident.faults[1].clone();
    incident.faults = vec![
        resolves("prober-n1", app, true),
        created,
        resolves("prober-n1", young, false),
        four,
        ready,
        // There is an endpoint by now, but the earlier answer is still cached.
        resolves("prober-n1", young, false),
        resolves("prober-n1", "plain.side.svc.cluster.local", true),
    ];
    lab(incident, async |lab| {
        for fault in 0..7 {
            lab.fault(fault).await.unwrap();
        }
    })
    .await;
}

/// The whole product: probers inside, the aggregator on the host. Some of the incidents, three at a time; `make lab` runs
/// all of them.
#[test]
fn incidents_are_named_and_ordinary_events_pass_in_silence_as_their_files_say() {
    if skipped() {
        return;
    }
    let _turn = lock();
    let ids = [
        "healthy",
        "i1",
        "i2",
        "i3-missing",
        "i4-wrong-class",
        "i5",
        "i7-tie",
        "i8-1",
        "f3",
        "f9",
        "bad-backend",
        "bad-link",
        "dns-link",
        "dns-node",
        "far-ingress",
        "aggregator-link",
        "aggregator-node",
        "preflight-i1",
        "quiet-own-parts",
    ];
    // A rare failure is understood by its recording only.
    let recordings = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lab-recordings");
    let output = std::process::Command::new(lab_binary())
        .args(["run", "--all", "--jobs", "4", "--record"])
        .arg(&recordings)
        .args(ids.iter().flat_map(|id| ["--only", id]))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// An invalid incident file: nothing boots, and nothing is left behind.
#[test]
fn an_incident_with_a_typo_is_refused_with_file_line_and_what_was_expected_and_nothing_is_left_running() {
    let folder = tempfile::tempdir().unwrap();
    let wrong =
        include_str!("../incidents/i1.yaml").replacen("pod: ingress-4}\n\n", "pod: ingress-9}\n\n", 1);
    let line = wrong.lines().position(|line| line.contains("ingress-9")).unwrap() + 1;
    std::fs::write(folder.path().join("i1.yaml"), wrong).unwrap();
    let output = std::process::Command::new(lab_binary())
        .args(["run", "i1", "--once", "--listen", "127.0.0.1:0", "--incidents"])
        .arg(folder.path())
        .env("PARALLAX_LAB_DIR", folder.path().join("runs"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains(&format!("i1.yaml:{line}: faults[0].ops[1]: "))
            && stderr.contains("has no Pod ingress-9"),
        "{stderr}"
    );
    assert!(!folder.path().join("runs").exists());
    assert!(!Cleanup::of(folder.path()).machine_runs());
}
