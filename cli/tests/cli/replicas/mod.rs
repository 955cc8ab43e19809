//! Two aggregators as a cluster runs them: processes of their own, one Lease, probers that report to both, `kill -9`.

mod pair;

use serde_json::{Value, json};

use crate::{identity::mesh::until, up::Server};
use pair::Pair;

/// Of a round, in the configuration; two of it are the longest gap there may be.
const INTERVAL_MS: u64 = 1_000;

fn open(state: &Value) -> Option<&Value> {
    let incidents = state["incidents"].as_array().unwrap();
    incidents.iter().find(|incident| incident["state"] == "open")
}

/// Whether every cell of a target is in a state.
fn all(state: &Value, target: &str, word: &str) -> bool {
    let rows = state["matrix"].as_array().unwrap();
    rows.iter().any(|row| {
        row["target"] == target
            && row["cells"].as_array().is_some_and(|cells| {
                cells.len() == pair::NODES.len() && cells.iter().all(|cell| cell["state"] == word)
            })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_the_leader_costs_no_incident_no_observation_and_no_plan() {
    let (server, later) = (Server::start(), Server::start());
    let target = format!("tcp://{}", server.address);
    let mut pair = Pair::start(&[&target]).await;
    let (leader, standby) = pair.parts().await;
    until("both see the target well", async || {
        all(&pair.own(&leader).await, &target, "ok") && all(&pair.own(&standby).await, &target, "ok")
    })
    .await;

    // What people ask of the one that stands by is answered by the one that leads.
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
    until("the run that the other one was asked for is over", async || {
        pair.get(&standby, &path).await.2["outcome"] == "passed"
    })
    .await;

    drop(server);
    until("both have the incident", async || {
        open(&pair.own(&leader).await).is_some() && open(&pair.own(&standby).await).is_some()
    })
    .await;
    let (first, second) = (pair.own(&leader).await, pair.own(&standby).await);
    let (first, second) = (open(&first).unwrap(), open(&second).unwrap());
    assert_eq!(first["id"], second["id"], "both call it the same");

    let id = first["id"].as_str().unwrap().to_owned();
    let epoch = pair.own(&leader).await["replica"]["epoch"].as_u64().unwrap();
    let killed = pair.own(&standby).await["at"].as_u64().unwrap();
    pair.kill(&leader);
    // Reading is answered all the while; what would change something is refused with the reason until somebody leads.
    until("the other one leads", async || {
        let state = pair.get(&standby, "/v1/state").await.2;
        let there = open(&state).is_some_and(|incident| incident["id"] == id.as_str());
        assert!(there, "the incident is gone: {state}");
        state["replica"]["part"] == "leads"
    })
    .await;
    let state = pair.own(&standby).await;
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
        all(&pair.own(&standby).await, &new, "ok")
    })
    .await;

    let longest = pair.longest_gap(&standby, &target, killed).await;
    assert!(longest <= 2 * INTERVAL_MS, "nothing was seen for {longest} ms");
    let handled = format!("/v1/incidents/{id}/acknowledge");
    let (status, by, said) = pair.post(&standby, &handled, &json!({})).await;
    assert_eq!((status, by.as_str()), (200, standby.as_str()), "{said}");
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orderly_stop_of_the_leader_hands_over_at_once_and_while_nobody_leads_writes_say_so() {
    let server = Server::start();
    let target = format!("tcp://{}", server.address);
    let mut pair = Pair::start(&[&target]).await;
    let (leader, standby) = pair.parts().await;
    // The API server goes, and with it the Lease: who led stops leading, and nobody else begins.
    pair.mesh.api.away(true);
    until("nobody leads", async || {
        pair.own(&leader).await["replica"]["part"] == "stands_by"
    })
    .await;
    let (status, _, said) = pair.post(&standby, "/v1/runs", &json!({"url": target})).await;
    assert_eq!(status, 503);
    assert!(said["error"].as_str().unwrap().contains("stands by"), "{said}");
    let (status, _, page) = pair.get(&standby, "/").await;
    let page = page.as_str().unwrap();
    assert_eq!(status, 200, "the page is there all the same");
    assert!(
        page.contains("stands by") && page.contains("warming up"),
        "{page}"
    );
    pair.mesh.api.away(false);
    let (leader, standby) = pair.parts().await;
    pair.terminate(&leader);
    until("the other one leads", async || {
        pair.own(&standby).await["replica"]["part"] == "leads"
    })
    .await;
    pair.stop().await;
}
