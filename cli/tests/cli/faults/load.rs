//! Ends of the only aggregator at ten times the load: three nodes with a hundred targets each second, where fifty targets every
//! five seconds are usual.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Stdio,
};

use serde_json::{Value, json};

use super::processes::{Launch, NODES, Processes, incidents, recorded_sequences};
use crate::{commands::parallax, identity::mesh::until, up::Server};

const TARGETS: usize = 100;

/// Targets of which the last is at a server of its own.
fn targets(server: &Server, failing: &Server) -> Vec<String> {
    let healthy = (1..TARGETS).map(|i| format!("http://{}/{i}", server.address));
    healthy.chain([format!("http://{}/", failing.address)]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_of_the_only_aggregator_at_ten_times_the_load_costs_no_failure_and_no_incident() {
    let (server, failing) = (Server::start(), Server::start());
    let targets = targets(&server, &failing);
    let target = targets.last().unwrap().clone();
    let mut mesh = Processes::start(&targets, "store: {path: history.db}\n", &Launch::default()).await;
    for target in &targets {
        mesh.wait_until_all(target, "ok").await;
    }
    drop(failing);
    mesh.wait_until_named().await;
    let before = incidents(&mesh.state().await.unwrap());
    assert_eq!(before.len(), 1, "{before:?}");
    mesh.aggregator.signal("KILL");
    assert_eq!(mesh.aggregator.wait(), None);
    mesh.restart(&Launch::default()).await;
    let restarted = now_us();
    wait_for_failures_after(restarted + 5_000_000, &mesh, &target, &before[0].0).await;
    // How many probes fail is known to their probers only: on a busy machine, rounds are late, and healthy targets fail, too.
    let mut made = BTreeMap::new();
    for node in NODES {
        let failed = mesh
            .prober_metric(
                node,
                "parallax_prober_probes_total{kind=\"http\",result=\"failed\"}",
            )
            .await;
        made.insert(format!("{node}/pod"), failed);
    }
    // A prober reports in the order in which its probes end.
    wait_for_failures_after(now_us(), &mesh, &target, &before[0].0).await;
    let mut stored: BTreeMap<String, u64> = BTreeMap::new();
    for target in &targets {
        for (vantage, times) in failures(&mesh, target).await {
            *stored.entry(vantage).or_default() += times.len() as u64;
        }
    }
    for (vantage, failed) in made {
        assert!(
            failed > 0 && stored[&vantage] >= failed,
            "{vantage}: {failed} failed, stored: {stored:?}"
        );
    }
    for node in NODES {
        assert_eq!(
            mesh.prober_metric(node, "parallax_prober_spool_dropped_total")
                .await,
            0,
            "{node}"
        );
    }
    assert_eq!(incidents(&mesh.state().await.unwrap()).len(), 1);
}

/// Waits until every vantage has reported a failure from after a time; no other incident may open.
async fn wait_for_failures_after(time_us: u64, mesh: &Processes, target: &str, incident: &str) {
    until("every vantage reports failures from after a time", async || {
        let view = mesh.state().await.unwrap();
        let incidents = incidents(&view);
        assert!(incidents.iter().all(|one| one.0 == incident), "{incidents:?}");
        let failures = failures(mesh, target).await;
        let newest = failures.values().filter_map(|times| times.last().copied()).min();
        failures.len() == NODES.len() && newest > Some(time_us)
    })
    .await;
}

/// Returns the time in microseconds since the epoch.
fn now_us() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(now.unwrap().as_micros()).unwrap()
}

/// Returns the times of the stored failures of a target by vantage, in microseconds.
async fn failures(mesh: &Processes, target: &str) -> BTreeMap<String, Vec<u64>> {
    let path = format!("/v1/history/failures?limit=500&target={target}");
    let mut all: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let text = mesh.text(&path).await.unwrap_or_default();
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    for failure in answer["failures"].as_array().into_iter().flatten() {
        let vantage = failure["vantage"].as_str().unwrap().to_owned();
        all.entry(vantage)
            .or_default()
            .push(failure["t_us"].as_u64().unwrap());
    }
    for times in all.values_mut() {
        times.sort_unstable();
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_aggregator_acknowledged_before_sigterm_is_recorded_and_its_runs_are_told() {
    let server = Server::start();
    let target = format!("http://{}/", server.address);
    let recordings = tempfile::tempdir().unwrap();
    let launch = Launch::recording(recordings.path());
    let more = "runs: {allow: [127.0.0.0/8]}\n";
    let mut mesh = Processes::start(std::slice::from_ref(&target), more, &launch).await;
    mesh.wait_until_all(&target, "ok").await;
    mesh.add_vantage("internet:flood");
    until("the vantage is known", async || {
        let view = mesh.state().await.unwrap();
        view["vantages"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["vantage"] == "internet:flood")
    })
    .await;
    let run = parallax()
        .args([
            "run",
            &target,
            "--rounds",
            "20",
            "--server",
            &format!("http://{}", mesh.address),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the run is under way", async || {
        let text = mesh.text("/v1/runs").await.unwrap();
        text.contains("\"running\"")
    })
    .await;

    // A fourth vantage sends twenty observations per report, as fast as they are acknowledged.
    let (acknowledged, end) = (tokio::sync::watch::channel(0_u64), mesh.address);
    let (sender, mut receiver) = acknowledged;
    let (client, id) = (mesh.client.clone(), target.clone());
    let flood = tokio::spawn(async move {
        for batch in 0_u64.. {
            let body = report(batch, &id);
            let request = client.post(format!("http://{end}/v1/observations")).body(body);
            let request = request.header("content-type", "application/x-ndjson");
            let accepted = match request.send().await {
                Ok(response) if response.status().is_success() => response.json::<Value>().await.ok(),
                _ => None,
            };
            if accepted.is_none_or(|accepted| accepted["accepted"] != 20) {
                return batch;
            }
            sender.send_replace(batch);
        }
        unreachable!("the aggregator ends first")
    });
    receiver.wait_for(|batches| *batches >= 50).await.unwrap();
    mesh.aggregator.signal("TERM");
    assert_eq!(mesh.aggregator.wait(), Some(0));
    let batches = flood.await.unwrap();

    let output = tokio::task::spawn_blocking(|| run.wait_with_output().unwrap())
        .await
        .unwrap();
    assert_eq!(
        output.status.code(),
        Some(3),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let recorded = recorded_sequences(recordings.path());
    let recorded: BTreeSet<u64> = recorded["flood-1"].iter().copied().collect();
    let missing: Vec<u64> = (0..batches * 20).filter(|seq| !recorded.contains(seq)).collect();
    assert!(
        missing.is_empty(),
        "{} of {} are missing: {missing:?}",
        missing.len(),
        batches * 20
    );
}

/// A report with twenty observations of one target.
fn report(batch: u64, target: &str) -> String {
    let now = now_us();
    let header = json!({"v": 1, "incarnation": "flood-1", "vantage": "internet:flood", "sent_us": now});
    let lines = (0..20).map(|i| {
        json!({"seq": batch * 20 + i, "t_us": now - 20 + i, "target": target, "channel": "vip", "result": "ok",
            "status": 200, "times": {"connect_us": 900, "total_us": 4_200}})
    });
    let all: Vec<String> = [header]
        .into_iter()
        .chain(lines)
        .map(|line| line.to_string())
        .collect();
    all.join("\n")
}
