//! Two aggregators as in a cluster: separate processes, one Lease, probers that report to both, `kill -9`.

pub(crate) mod pair;

use serde_json::{Value, json};

use crate::{commands::text, identity::mesh::until, up::Server};
use pair::Pair;

/// Configured interval in milliseconds; two intervals are the longest gap allowed.
const INTERVAL_MS: u64 = 1_000;

fn open(state: &Value) -> Option<&Value> {
    let incidents = state["incidents"].as_array().unwrap();
    incidents.iter().find(|incident| incident["state"] == "open")
}

/// Reports whether every cell of a target has this state.
fn all(state: &Value, target: &str, word: &str) -> bool {
    let rows = state["matrix"].as_array().unwrap();
    rows.iter().any(|row| {
        row["target"] == target
            && row["cells"].as_array().is_some_and(|cells| {
                cells.len() == pair::NODES.len() && cells.iter().all(|cell| cell["state"] == word)
            })
    })
}

/// Waits until both see the target as ok.
async fn both_see_well(pair: &Pair, [leader, standby]: [&str; 2], target: &str) {
    until("both see the target well", async || {
        all(&pair.own_state(leader).await, target, "ok") && all(&pair.own_state(standby).await, target, "ok")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_the_leader_costs_no_incident_no_observation_and_no_plan() {
    let (server, later) = (Server::start(), Server::start());
    let target = format!("tcp://{}", server.address);
    let mut pair = Pair::start(&[&target]).await;
    let (leader, standby) = pair.leader_and_standby().await;
    both_see_well(&pair, [&leader, &standby], &target).await;

    // The standby forwards requests to the leader.
    let (status, by, state) = pair.get(&standby, "/v1/state").await;
    assert_eq!(
        (status, state["replica"]["name"].as_str()),
        (200, Some(leader.as_str()))
    );
    assert_eq!(by, leader);
    let (status, by, run) = pair
        .post(&standby, "/v1/runs", &json!({"url": target, "rounds": 1}))
        .await;
    assert_eq!((status, by.as_str()), (201, leader.as_str()), "{run}");
    let path = format!("/v1/runs/{}", run["id"].as_str().unwrap());
    until("the run requested from the standby has ended", async || {
        pair.get(&standby, &path).await.2["outcome"] == "passed"
    })
    .await;

    drop(server);
    until("both have the incident", async || {
        open(&pair.own_state(&leader).await).is_some() && open(&pair.own_state(&standby).await).is_some()
    })
    .await;
    let (first, second) = (pair.own_state(&leader).await, pair.own_state(&standby).await);
    let (first, second) = (open(&first).unwrap(), open(&second).unwrap());
    assert_eq!(first["id"], second["id"], "both call it the same");

    // An action acknowledged as persisted survives the leader that accepted it.
    let id = first["id"].as_str().unwrap().to_owned();
    let handled = format!("/v1/incidents/{id}");
    let note = json!({"note": "on it"});
    let (status, by, answer) = pair
        .post(&standby, &format!("{handled}/acknowledge"), &note)
        .await;
    assert_eq!((status, by.as_str()), (200, leader.as_str()), "{answer}");
    assert_eq!(answer["persisted"], true, "{answer}");
    let request = json!({"duration_s": 600, "targets": "elsewhere"});
    let (status, _, window) = pair.post(&leader, "/v1/maintenance", &request).await;
    assert_eq!((status, &window["persisted"]), (201, &json!(true)), "{window}");

    let epoch = pair.own_state(&leader).await["replica"]["epoch"]
        .as_u64()
        .unwrap();
    let killed = pair.own_state(&standby).await["at"].as_u64().unwrap();
    pair.kill(&leader);
    // Reads are answered throughout; writes are rejected with the reason until there is a leader.
    until("the other one leads", async || {
        let state = pair.get(&standby, "/v1/state").await.2;
        let still_open = open(&state).is_some_and(|incident| incident["id"] == id.as_str());
        assert!(still_open, "the incident is gone: {state}");
        state["replica"]["role"] == "leads"
    })
    .await;
    let state = pair.own_state(&standby).await;
    assert!(
        state["replica"]["epoch"].as_u64().unwrap() > epoch,
        "{}",
        state["replica"]
    );
    assert_eq!(open(&state).unwrap()["opened"], second["opened"]);
    let incidents = state["incidents"].as_array().unwrap();
    assert_eq!(incidents.len(), 1, "nothing was opened anew: {incidents:?}");

    // Its plan reaches the probers.
    let new = format!("tcp://{}", later.address);
    pair.targets(&[&target, &new]);
    until("the probers follow the plan of the new leader", async || {
        all(&pair.own_state(&standby).await, &new, "ok")
    })
    .await;

    let longest = pair.longest_gap(&standby, &target, killed).await;
    assert!(longest <= 2 * INTERVAL_MS, "nothing was seen for {longest} ms");
    let (_, by, kept) = pair.get(&standby, &handled).await;
    assert_eq!(by, standby);
    assert_eq!(kept["actions"]["acknowledged"]["note"], "on it", "{kept}");
    let (_, _, windows) = pair.get(&standby, "/v1/maintenance").await;
    assert_eq!(windows["windows"][0]["id"], window["id"], "{windows}");
    let (status, by, answer) = pair
        .post(
            &standby,
            &format!("{handled}/silence"),
            &json!({"duration_s": 60}),
        )
        .await;
    assert_eq!((status, by.as_str()), (200, standby.as_str()), "{answer}");
    assert_eq!(answer["acknowledged"]["note"], "on it", "{answer}");
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_replica_receives_earlier_observations_and_names_the_same_incident_at_once() {
    let server = Server::start();
    let target = format!("tcp://{}", server.address);
    let mut pair = Pair::start(&[&target]).await;
    let (leader, standby) = pair.leader_and_standby().await;
    both_see_well(&pair, [&leader, &standby], &target).await;
    drop(server);
    until("the leader has the incident", async || {
        open(&pair.own_state(&leader).await).is_some()
    })
    .await;
    let first = pair.own_state(&leader).await;
    let first = open(&first).unwrap();

    pair.kill(&standby);
    let killed = pair.own_state(&leader).await["at"].as_i64().unwrap();
    pair.start_again(&standby).await;
    assert!(
        pair.own_state(&standby).await["replica"]["warming_until_us"].is_i64(),
        "visible until it knows"
    );
    // Evidence from before its start counts once something fails after the start.
    until("it has the incident, too", async || {
        open(&pair.own_state(&standby).await).is_some()
    })
    .await;
    let state = pair.own_state(&standby).await;
    let incidents = state["incidents"].as_array().unwrap();
    assert_eq!(incidents.len(), 1, "one, and no other: {incidents:?}");
    let again = open(&state).unwrap_or_else(|| panic!("it knows what began before: {incidents:?}"));
    assert_eq!(again["id"], first["id"]);
    // Each estimates the probers' clock offsets from the delay of their reports: they differ by milliseconds.
    let opened = |incident: &Value| incident["opened"].as_i64().unwrap();
    assert!(
        opened(again).abs_diff(opened(first)) < 1_000_000,
        "{again} {first}"
    );
    assert!(again["opened"].as_i64().unwrap() < killed, "before it started");
    assert!(
        pair.metric(&standby, "parallax_ingest_observations_total{result=\"again\"}")
            .await
            > 0
    );
    let late = "parallax_ingest_observations_total{result=\"late\"}";
    assert_eq!(pair.metric(&standby, late).await, 0, "nothing came too late");
    let begun = format!("parallax_probes_total{{target=\"{target}\",channel=\"vip\"");
    let (first_count, counted) = (
        pair.metric(&leader, &begun).await,
        pair.metric(&standby, &begun).await,
    );
    assert!(
        counted < first_count,
        "what the former life counted is not counted again: {counted} of {first_count}"
    );
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_leader_is_killed_is_made_again_by_the_next_and_ends_as_it_should() {
    let server = Server::start();
    let target = format!("tcp://{}", server.address);
    let mut pair = Pair::start(&[&target]).await;
    let (leader, standby) = pair.leader_and_standby().await;
    both_see_well(&pair, [&leader, &standby], &target).await;
    let mut command = pair.command(&standby, &["run", &target, "--rounds", "10"]);
    let running = tokio::task::spawn_blocking(move || command.output().unwrap());
    until("the run is under way", async || {
        let runs = pair.get(&leader, "/v1/runs").await.2;
        runs["runs"]
            .as_array()
            .unwrap()
            .iter()
            .any(|run| run["completed"].as_u64() > Some(0))
    })
    .await;
    pair.kill(&leader);
    let output = running.await.unwrap();
    let (stderr, shown) = (text(&output.stderr), text(&output.stdout));
    assert_eq!(output.status.code(), Some(0), "{stderr}{shown}");
    assert!(stderr.contains("repeating the run on the new leader"), "{stderr}");
    assert!(shown.contains("succeeded, from 3 vantages"), "{shown}");
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orderly_stop_of_the_leader_hands_over_at_once_and_while_nobody_leads_writes_say_so() {
    let server = Server::start();
    let target = format!("tcp://{}", server.address);
    let mut pair = Pair::start(&[&target]).await;
    let (leader, standby) = pair.leader_and_standby().await;
    // The API server becomes unavailable, and with it the Lease: the leader steps down, and no other takes over.
    pair.mesh.api.set_unavailable(true);
    until("there is no leader", async || {
        pair.own_state(&leader).await["replica"]["role"] == "stands_by"
    })
    .await;
    let (status, _, answer) = pair.post(&standby, "/v1/runs", &json!({"url": target})).await;
    assert_eq!(status, 503);
    assert!(
        answer["error"].as_str().unwrap().contains("is on standby"),
        "{answer}"
    );
    let (status, _, page) = pair.get(&standby, "/").await;
    let page = page.as_str().unwrap();
    assert_eq!(status, 200, "the page is there all the same");
    assert!(
        page.contains("is on standby") && page.contains("warming up"),
        "{page}"
    );
    pair.mesh.api.set_unavailable(false);
    let (leader, standby) = pair.leader_and_standby().await;
    pair.terminate(&leader);
    until("the other one leads", async || {
        pair.own_state(&standby).await["replica"]["role"] == "leads"
    })
    .await;
    pair.stop().await;
}
