//! The lab itself, with real packets. Needs user-mode Linux; `PARALLAX_LAB=skip` leaves these tests out, loudly.
//!
//! What is asserted comes from an ordinary client and from tcpdump, never from Parallax' own counters. The tests that
//! run the product start the binaries `parallax` and `parallax-lab` beside each other in the build folder: `make test`
//! builds the workspace first, so that neither is stale.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]

mod support;

use std::path::Path;

use parallax_lab::{
    client::{Answer, Ask},
    incident::{self, Incident},
    lab::Lab,
    packets::Seen,
    run_dir::RunDir,
};

use support::{Cleanup, lab, lab_binary, lab_with, skipped, turn};

fn incident(id: &str) -> Incident {
    incident::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("incidents"), id).unwrap()
}

async fn assert_seen(lab: &mut Lab, faulty: bool) {
    let packets = lab.incident().expected.packets.clone();
    let looks = if faulty { packets.faulty } else { packets.healthy };
    let seen = lab.look(&looks).await.unwrap();
    let wrong: Vec<String> = seen
        .iter()
        .filter(|s| !s.as_expected())
        .map(Seen::to_string)
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
        let ask = Ask::Http {
            to: "203.0.113.10:80".parse().unwrap(),
            host: "shop.example.test".into(),
        };
        let vip = "203.0.113.10".parse().unwrap();
        let (answer, packets) = lab.capture(&"n3".parse().unwrap(), vip, ask).await.unwrap();
        assert_eq!(answer, Answer::Refused);
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
        // No router has touched it, so the node itself has sent it.
        assert!(icmp.contains("ttl 64"), "{icmp}");
    })
    .await;
}

#[tokio::test]
async fn the_services_can_be_left_to_a_program_that_makes_them_work_before_anybody_asks_and_after_each_change()
 {
    let hook = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/hook.sh");
    let mut incident = incident("i1");
    // What the hook does not do: it binds no address that could answer a ping.
    let by_address = |looks: &mut Vec<incident::Look>| {
        looks.retain(|look| matches!(look.to, incident::Way::Vip | incident::Way::ClusterIp));
    };
    by_address(&mut incident.expected.packets.healthy);
    lab_with(incident, Some(&hook), async |lab| {
        let looks = lab.incident().expected.packets.healthy.clone();
        for expected in ["ingress-1", "ingress-2"] {
            let seen = lab.look(&looks).await.unwrap();
            assert_eq!(seen.len(), 8, "from four nodes to two addresses");
            for seen in &seen {
                let pod = Some(expected.to_owned());
                assert_eq!(seen.answer, Answer::Http { status: 200, pod }, "{seen}");
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
        if look.sees == incident::Sight::Refused {
            look.sees = incident::Sight::Answered;
        }
    }
    lab(incident, async |lab| {
        lab.fault(0).await.unwrap();
        assert_seen(lab, true).await;
    })
    .await;
}

#[tokio::test]
async fn two_labs_side_by_side_do_not_disturb_each_other() {
    if skipped() {
        return;
    }
    let _turn = turn();
    let boot = || {
        Lab::boot(
            Path::new(lab_binary()),
            RunDir::create(false).unwrap(),
            incident("i1"),
        )
    };
    let (one, other) = tokio::join!(boot(), boot());
    let (mut one, mut other) = (one.unwrap(), other.unwrap());
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
async fn the_machine_halts_when_the_host_goes_away_and_leaves_nothing_behind() {
    if skipped() {
        return;
    }
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let mut child = tokio::process::Command::new(lab_binary())
        .args(["packets", "i1"])
        .env("PARALLAX_LAB_DIR", folder.path())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    // The first line comes when the cluster stands; then the lab is killed without a chance to tidy up.
    let mut lines =
        tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(child.stdout.take().unwrap()));
    let first = lines.next_line().await.unwrap().unwrap();
    assert!(first.starts_with("kernel "), "{first}");
    let cleanup = Cleanup::of(folder.path());
    assert!(cleanup.machine_runs(), "the machine should run by now");
    child.kill().await.unwrap();
    cleanup.machine_ends().await;
}

/// The whole product: probers inside, the aggregator here. A dozen of the incidents, two side by side; `make lab` runs
/// all of them.
#[test]
fn a_dozen_incidents_are_named_as_their_files_say() {
    if skipped() {
        return;
    }
    let _turn = turn();
    let ids = [
        "healthy",
        "i1",
        "i2",
        "i3-missing",
        "i4-wrong-class",
        "i5",
        "i7-tie",
        "i8-1",
        "f9",
        "bad-backend",
    ];
    let output = std::process::Command::new(lab_binary())
        .args(["run", "--all", "--jobs", "2"])
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

/// The lab of a file that is wrong: nothing boots, nothing is left.
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
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains(&format!("i1.yaml:{line}: faults[0].ops[1]: "))
            && said.contains("has no pod ingress-9"),
        "{said}"
    );
    assert!(!folder.path().join("runs").exists());
    assert!(!Cleanup::of(folder.path()).machine_runs());
}
