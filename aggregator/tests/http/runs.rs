//! Runs over HTTP: authorization, rejected requests, and run orders in the plan stream.

use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::common::{HEADER, Running, json, observation};

fn ask(aggregator: &Running, body: &Value) -> RequestBuilder {
    aggregator
        .client
        .post(format!("{}/v1/runs", aggregator.url))
        .header("content-type", "application/json")
        .body(body.to_string())
}

/// Starts an aggregator with one reporting vantage.
async fn reporting(more: &str) -> Running {
    let aggregator = Running::with(more).await;
    let token = "Bearer a-token-of-24-characters";
    let report = aggregator.report().header("authorization", token);
    let sent = report
        .body([HEADER, &observation(0)].join("\n"))
        .send()
        .await
        .unwrap();
    assert_eq!(sent.status(), 200);
    aggregator
        .views
        .wait_for(|view| {
            view.vantages
                .iter()
                .any(|v| v.state == parallax_diagnosis::view::VantageState::Reporting)
        })
        .await;
    aggregator
}

const A: &str = "http://a.example.test/";

#[tokio::test]
async fn a_run_reaches_the_plan_stream_at_once_and_its_answers_only_the_run() {
    let aggregator = reporting("").await;
    let mut plan = aggregator.get("/v1/plan?vantage=n1/pod").send().await.unwrap();
    let snapshot = plan.chunk().await.unwrap().unwrap();
    assert!(snapshot.starts_with(br#"{"type":"snapshot""#));
    let answer = ask(&aggregator, &json!({"url": A, "rounds": 1}))
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), StatusCode::CREATED);
    let place = answer.headers()["location"].to_str().unwrap().to_owned();
    let run = json(answer).await;
    assert_eq!(
        (run["state"].as_str(), run["vantages"].as_array().unwrap().len()),
        (Some("running"), 2)
    );
    let order = loop {
        let text = String::from_utf8(plan.chunk().await.unwrap().unwrap().to_vec()).unwrap();
        if let Some(line) = text.lines().find(|line| line.starts_with(r#"{"type":"run""#)) {
            break serde_json::from_str::<Value>(line).unwrap()["order"].clone();
        }
    };
    assert_eq!(order["id"], run["id"]);
    let assignments = order["assignments"].as_array().unwrap();
    let mut lines = vec![HEADER.to_owned()];
    for (seq, assignment) in assignments.iter().enumerate() {
        lines.push(
            json!({"seq": 100 + seq, "t_us": 990_000, "assignment": assignment["id"], "target": assignment["target"],
                   "channel": assignment["channel"], "front": "203.0.113.10:80", "result": "ok", "status": 200})
            .to_string(),
        );
    }
    let before = aggregator.json("/v1/state").await["counters"]["counted"].clone();
    let follow = aggregator
        .get(&place)
        .header("accept", "application/x-ndjson")
        .send();
    let follow = tokio::spawn(follow);
    assert_eq!(
        aggregator
            .send(&lines.iter().map(String::as_str).collect::<Vec<_>>())
            .await
            .status(),
        200
    );
    let events = follow.await.unwrap().unwrap().text().await.unwrap();
    let last: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["event"], &last["run"]["outcome"]),
        (&json!("done"), &json!("unknown")),
        "n2 is expected and silent: {events}"
    );
    assert_eq!(aggregator.json(&place).await["outcome"], "unknown");
    assert_eq!(aggregator.json("/v1/runs").await["runs"][0]["id"], run["id"]);
    let after = aggregator.json("/v1/state").await["counters"]["counted"].clone();
    assert_eq!(
        before, after,
        "observations of runs do not enter the mesh's cells"
    );
    drop(plan);
    aggregator.stop().await;
}

#[tokio::test]
async fn rejected_runs_say_what_to_do() {
    let aggregator = reporting("").await;
    for (body, status, words) in [
        (
            json!({"url": "http://169.254.169.254/"}),
            403,
            "not a known target",
        ),
        (json!({"url": "http://elsewhere.test/"}), 403, "runs.targets: any"),
        (json!({"url": "nonsense"}), 400, "url: expected"),
        (json!({"url": A, "bodies": 1}), 400, "unknown field"),
        (
            json!({"url": A, "from": "outside"}),
            409,
            "no vantage of outside reports",
        ),
        (json!({"url": A, "rounds": 999}), 400, "rounds: expected 1 to 20"),
    ] {
        let answer = ask(&aggregator, &body).send().await.unwrap();
        assert_eq!(answer.status(), status, "{body}");
        let error = json(answer).await["error"].as_str().unwrap().to_owned();
        assert!(error.contains(words), "{error}");
    }
    // Another site can submit a form without a CORS preflight request, but not JSON.
    let form = aggregator
        .client
        .post(format!("{}/v1/runs", aggregator.url))
        .body("url=x")
        .send()
        .await
        .unwrap();
    assert_eq!(form.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let large = ask(&aggregator, &json!({"url": "x".repeat(20_000)}))
        .send()
        .await
        .unwrap();
    assert_eq!(large.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let lost = aggregator.get("/v1/runs/r-none").send().await.unwrap();
    assert_eq!(lost.status(), StatusCode::NOT_FOUND);
    let any = reporting("runs: {targets: any}\n").await;
    let answer = ask(&any, &json!({"url": "http://[::ffff:169.254.169.254]/"}))
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    assert!(
        json(answer).await["error"]
            .as_str()
            .unwrap()
            .contains("a link-local address")
    );
    aggregator.stop().await;
    any.stop().await;
}

#[tokio::test]
async fn runs_need_the_secret_and_reading_only_if_configured() {
    let shared = reporting("tokenFile: token\n").await;
    let response = ask(&shared, &json!({"url": A})).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(response.headers()["www-authenticate"], "Bearer");
    let response = ask(&shared, &json!({"url": A})).bearer_auth("a-token-of-24-characters");
    assert_eq!(response.send().await.unwrap().status(), StatusCode::CREATED);
    assert_eq!(shared.get("/v1/state").send().await.unwrap().status(), 200);
    let closed = reporting("tokenFile: token\naccess: {tokenFile: token}\n").await;
    for path in ["/", "/v1/state", "/v1/incidents", "/v1/runs", "/incident/i-1"] {
        let shut = closed.get(path).send().await.unwrap();
        assert_eq!(shut.status(), StatusCode::UNAUTHORIZED, "{path}");
        let open = closed
            .get(path)
            .bearer_auth("a-token-of-24-characters")
            .send()
            .await
            .unwrap();
        assert_ne!(open.status(), StatusCode::UNAUTHORIZED, "{path}");
    }
    for path in ["/healthz", "/readyz", "/metrics", "/assets/style.css"] {
        let open = closed.get(path).send().await.unwrap();
        assert_eq!(open.status(), 200, "{path} needs no authorization");
    }
    shared.stop().await;
    closed.stop().await;
}
