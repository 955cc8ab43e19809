//! A network that loses packets between probers and aggregator.

use std::{
    env,
    process::{Command, Stdio},
};

use parallax_skip::skip;

use super::processes::{Launch, NODES, Processes, assert_no_incident, incidents, recorded_sequences};
use crate::{identity::mesh::until, up::Server};

const INSIDE: &str = "PARALLAX_NETWORK_OF_LOSSY_CHILD";
/// Packets in a hundred that each direction loses.
const LOST_PERCENT: u32 = 20;

/// Runs a command in this network namespace.
fn command(line: &str) -> bool {
    let mut words = line.split(' ');
    let program = words.next().unwrap();
    let status = Command::new(program).args(words).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// The loopback interface of its own network namespace loses packets; no other is touched.
#[test]
fn reports_over_a_network_that_loses_one_packet_in_five_count_once_and_none_is_lost() {
    if env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        return runtime.block_on(lossy());
    }
    let probe = "ip link set lo up && iptables -A OUTPUT -m statistic --mode random --probability 0 -j DROP";
    let can = Command::new("unshare")
        .args(["--net", "sh", "-c", probe])
        .output();
    if !can.is_ok_and(|output| output.status.success()) {
        let run = "sudo -E cargo test -p parallax-cli --test cli faults::network";
        return skip(
            "faults::network",
            "packets cannot be dropped in a network namespace",
            run,
        );
    }
    let output = Command::new("unshare")
        .arg("--net")
        .arg(env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("faults::network::reports_over_a_network_that_loses_one_packet_in_five_count_once_and_none_is_lost")
        .env(INSIDE, "1")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

async fn lossy() {
    assert!(command("ip link set lo up"));
    let recordings = tempfile::tempdir().unwrap();
    let launch = Launch::recording(recordings.path());
    let (server, failing) = (Server::start(), Server::start());
    let [healthy, target] = [&server, &failing].map(|server| format!("http://{}/", server.address));
    let mut mesh = Processes::start(&[healthy, target.clone()], "", &launch).await;
    mesh.wait_until_all(&target, "ok").await;
    let port = mesh.address.port();
    for direction in ["dport", "sport"] {
        assert!(command(&format!(
            "iptables -A OUTPUT -p tcp --{direction} {port} -m statistic --mode random --probability 0.{LOST_PERCENT} -j DROP"
        )));
    }
    mesh.wait_for_rounds(15, |view| view.into_iter().for_each(assert_no_incident))
        .await;
    drop(failing);
    mesh.wait_until_named().await;
    assert!(command("iptables -F OUTPUT"));
    let counted = async || {
        mesh.metric("parallax_ingest_observations_total{result=\"counted\"}")
            .await
    };
    let so_far = counted().await;
    until("what waited has arrived", async || counted().await > so_far + 6).await;
    // A report that TCP repeats for seconds arrives after its round: it is counted as late, and not lost.
    let late = mesh.metric("parallax_ingest_discarded_total").await;
    assert_eq!(incidents(&mesh.state().await.unwrap()).len(), 1);
    mesh.aggregator.signal("TERM");
    assert_eq!(mesh.aggregator.wait(), Some(0));
    let recorded = recorded_sequences(recordings.path());
    assert_eq!(recorded.len(), NODES.len());
    let mut missing = 0;
    for (incarnation, sequences) in recorded {
        let all = u64::try_from(sequences.len()).unwrap();
        let (first, last) = (sequences[0], *sequences.last().unwrap());
        assert!(
            sequences.is_sorted_by(|a, b| a < b),
            "{incarnation}: twice or out of order"
        );
        missing += last - first + 1 - all;
    }
    assert!(missing <= late, "{missing} are missing, and {late} were late");
}
