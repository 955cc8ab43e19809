//! Notifications with the real binary: across `kill -9`, and with `parallax notify test`.

mod receiver;

use std::{
    collections::BTreeMap,
    fs,
    net::TcpListener,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    commands::{config, run, text},
    identity::mesh::until,
    replicas::pair::Pair,
    up::{Server, Up},
};
use receiver::{Message, Receiver};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn sort(message: &Value) -> &str {
    message["type"].as_str().unwrap()
}

/// Accepted messages by thread.
fn threads(receiver: &Receiver) -> BTreeMap<String, Vec<Message>> {
    let mut threads: BTreeMap<String, Vec<Message>> = BTreeMap::new();
    for message in receiver.accepted() {
        let thread = message.body["data"]["thread"].as_str().unwrap().to_owned();
        threads.entry(thread).or_default().push(message);
    }
    threads
}

/// Asserts that each thread starts with its opening and ends with its recovery; returns the number of duplicates.
fn assert_ordered(receiver: &Receiver) -> usize {
    let mut twice = 0;
    for (thread, messages) in threads(receiver) {
        let mut order: Vec<(&str, &str)> = messages
            .iter()
            .map(|one| (one.id.as_str(), sort(&one.body)))
            .collect();
        let all = order.len();
        order.dedup();
        twice += all - order.len();
        let (first, last) = (order.first().unwrap(), order.last().unwrap());
        assert_eq!(
            (first.1, last.1),
            ("incident.opened", "incident.recovered"),
            "{thread}: {order:?}"
        );
        let between = &order[1..order.len() - 1];
        assert!(
            between.iter().all(|(_, sort)| *sort == "incident.changed"),
            "{thread}: {order:?}"
        );
        assert!(
            messages
                .iter()
                .all(|message| message.signature.starts_with("v1,"))
        );
    }
    twice
}

async fn well(pair: &Pair, name: &str, target: &str) {
    until("the target is well", async || {
        let state = pair.own_state(name).await;
        let rows = state["matrix"].as_array().unwrap();
        rows.iter().any(|row| {
            let cells = row["cells"].as_array().unwrap();
            row["target"] == target && cells.len() == 3 && cells.iter().all(|cell| cell["state"] == "ok")
        })
    })
    .await;
}

/// Starts a pair that notifies a receiver; returns it with the names of leader and standby, once both see the target as ok.
async fn notifying_pair(receiver: &Receiver, target: &str, secrets: &Path) -> (Pair, [String; 2]) {
    let secret = secrets.join("secret");
    fs::write(&secret, SECRET).unwrap();
    let notify = format!(
        "notify:\n  configMap: parallax/parallax-notifications\n  webhooks:\n  - {{name: oncall, url: 'http://{}/', secretFile: {}}}\n",
        receiver.address,
        secret.display()
    );
    let pair = Pair::start_with(&[target], &notify).await;
    let (leader, standby) = pair.leader_and_standby().await;
    well(&pair, &leader, target).await;
    well(&pair, &standby, target).await;
    (pair, [leader, standby])
}

#[tokio::test(flavor = "multi_thread")]
async fn opened_and_recovered_are_sent_in_order_through_two_kills_and_a_receiver_outage() {
    let receiver = Receiver::start().await;
    let server = Server::start();
    let address = server.address;
    let target = format!("tcp://{address}");
    let secrets = tempfile::tempdir().unwrap();
    let (mut pair, [leader, standby]) = notifying_pair(&receiver, &target, secrets.path()).await;

    receiver.respond_with(503);
    drop(server);
    until("the leader has tried to tell", async || {
        !receiver.all().is_empty()
    })
    .await;
    pair.kill(&leader);
    receiver.respond_with(204);
    let tried = receiver.all().remove(0);
    assert_eq!(sort(&tried.body), "incident.opened");
    until(
        "the next leader tells what the former one could not, under its own name",
        async || receiver.accepted().iter().any(|message| message.id == tried.id),
    )
    .await;
    // The mesh of this fixture has no echoes, so the network may be a second incident.
    let of_target = |message: &Message| message.body["data"]["targets"][0] == target.as_str();
    until("the opening is delivered", async || {
        receiver.accepted().iter().any(of_target)
    })
    .await;
    until("the deliveries are recorded", async || {
        let map = pair
            .mesh
            .api
            .get("configmaps", "parallax", "parallax-notifications")
            .unwrap();
        map["data"]["outbox.json"]
            .as_str()
            .is_some_and(|text| text.contains("\"delivered\":{\"oncall\""))
    })
    .await;
    let state = pair.own_state(&standby).await;
    assert_eq!(
        state["notifications"]["receivers"][0]["state"], "healthy",
        "{}",
        state["notifications"]
    );
    assert_eq!(
        state["notifications"]["persisted"], true,
        "{}",
        state["notifications"]
    );

    pair.kill(&standby);
    pair.start_again(&leader).await;
    until("it leads and knows the incident", async || {
        let state = pair.own_state(&leader).await;
        state["replica"]["role"] == "leads"
            && state["incidents"]
                .as_array()
                .unwrap()
                .iter()
                .any(|incident| incident["state"] == "open")
    })
    .await;
    let _server = Server::at(address);
    until("each recovery is delivered", async || {
        let ends = |messages: &Vec<Message>| sort(&messages.last().unwrap().body) == "incident.recovered";
        threads(&receiver).values().all(ends)
    })
    .await;
    // Longer than the interval of the check: nothing else follows.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let twice = assert_ordered(&receiver);
    assert!(twice <= 2, "at most one duplicate per kill: {twice}");
    pair.stop().await;
}

/// A virtual machine that is moved stops like this. The leader does not know that its lease ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_stood_still_beyond_its_lease_returns_as_standby_and_nothing_is_sent_twice() {
    let receiver = Receiver::start().await;
    let server = Server::start();
    let address = server.address;
    let target = format!("tcp://{address}");
    let secrets = tempfile::tempdir().unwrap();
    let (pair, [leader, standby]) = notifying_pair(&receiver, &target, secrets.path()).await;
    drop(server);
    until("the leader has told", async || !receiver.accepted().is_empty()).await;

    pair.signal(&leader, "STOP");
    let leads = |state: &Value| state["replica"]["role"] == "leads";
    until("the standby leads", async || {
        leads(&pair.own_state(&standby).await)
    })
    .await;
    let _server = Server::at(address);
    let is_over = || {
        let ends = |messages: &Vec<Message>| sort(&messages.last().unwrap().body) == "incident.recovered";
        threads(&receiver).values().all(ends)
    };
    until("the recovery is delivered", async || is_over()).await;

    pair.signal(&leader, "CONT");
    // Every state that it shows after its return is one of a standby.
    let mut shown = 0;
    until("it has caught up", async || {
        let state = pair.own_state(&leader).await;
        assert!(!leads(&state), "two lead: {}", state["replica"]);
        shown += 1;
        shown > 50 && state["replica"]["leader"] == standby.as_str() && {
            let incidents = state["incidents"].as_array().unwrap();
            incidents.iter().all(|incident| incident["state"] != "open")
        }
    })
    .await;
    // Longer than the interval of the check: nothing else follows.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(assert_ordered(&receiver), 0, "nothing was sent twice");
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_of_the_ways_out_says_one_line_each_and_ends_with_the_code_of_what_it_found() {
    let (good, bad) = (Receiver::start().await, Receiver::start().await);
    bad.respond_with(500);
    let tried = |receivers: &[(&str, &Receiver)]| {
        let webhooks: Vec<String> = receivers
            .iter()
            .map(|(name, receiver)| {
                format!(
                    "{{name: {name}, url: 'http://{}/', secretFile: secret}}",
                    receiver.address
                )
            })
            .collect();
        let (folder, path) = config(&format!("notify: {{webhooks: [{}]}}\n", webhooks.join(", ")));
        fs::write(folder.path().join("secret"), SECRET).unwrap();
        let output = run(&["notify", "test", "--config", path.to_str().unwrap()]);
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, report, _) = tokio::task::block_in_place(|| tried(&[("one", &good)]));
    assert_eq!(code, Some(0), "{report}");
    assert!(report.starts_with("one (webhook): delivered in "), "{report}");
    assert_eq!(good.accepted()[0].body["data"]["test"], true);
    let (code, report, _) = tokio::task::block_in_place(|| tried(&[("one", &good), ("two", &bad)]));
    assert_eq!(code, Some(1), "{report}");
    assert!(
        report.ends_with("two (webhook): not delivered: the receiver responded with status 500\n"),
        "{report}"
    );
    let (code, _, error) = tokio::task::block_in_place(|| tried(&[]));
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("no receivers are configured"), "{error}");
    let (folder, path) = config("notify: {webhook: []}\n");
    let output = tokio::task::block_in_place(|| run(&["notify", "test", "--config", path.to_str().unwrap()]));
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("did you mean \"webhooks\"?"),
        "{}",
        text(&output.stderr)
    );
    drop(folder);
}

fn judged(up: &Up) -> (u64, Value) {
    let answer = up.get("/v1/state");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let begin = body.find('{').unwrap();
    let end = body.rfind('}').unwrap();
    let state: Value = serde_json::from_str(&body[begin..=end]).unwrap();
    (state["judged"].as_u64().unwrap_or(0), state)
}

#[test]
fn a_receiver_that_never_answers_changes_nothing_about_probing_and_judging() {
    // Accepts connections and never responds.
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let (server, other) = (Server::start(), Server::start());
    let (folder, path) = config(&format!(
        "listen: 127.0.0.1:0\nintervalMs: 300\ntimeoutMs: 200\n\
         targets: [{{url: 'http://{}/'}}, {{url: 'http://{}/'}}]\n\
         notify: {{webhooks: [{{name: deaf, url: 'http://{}/', secretFile: secret}}]}}\n",
        server.address,
        other.address,
        deaf.local_addr().unwrap()
    ));
    fs::write(folder.path().join("secret"), SECRET).unwrap();
    let mut up = Up::start(&path);
    up.until("✓ 2 ok");
    drop(server);
    let (_held, _) = deaf.accept().unwrap();
    let (before, _) = judged(&up);
    let begin = Instant::now();
    let state = loop {
        let (now, state) = judged(&up);
        if now >= before + 10 {
            break state;
        }
        assert!(
            begin.elapsed() < Duration::from_secs(8),
            "ten rounds of 300 ms are not judged while it is silent"
        );
        std::thread::sleep(Duration::from_millis(50));
    };
    let well = format!("http://{}/", other.address);
    let row = state["matrix"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["target"] == well.as_str())
        .unwrap();
    assert_eq!(row["cells"][0]["state"], "ok", "{row}");
    assert_eq!(state["notifications"]["receivers"][0]["pending"], 1);
    assert_eq!(up.interrupt(), Some(0), "and it ends when told to");
}
