//! User actions on incidents over HTTP: the JSON API and the forms of the page.

use std::time::{Duration, Instant};

use parallax_diagnosis::view::{VantageState, View};
use reqwest::{RequestBuilder, StatusCode, header, redirect::Policy};
use serde_json::{Value, json};
use tokio::time::interval;

use crate::common::{Running, json as read};

fn header_of(seconds: i64) -> String {
    json!({"v": 1, "incarnation": "life-1", "vantage": "n1/pod", "sent_us": seconds * 1_000_000,
           "complete_us": seconds * 1_000_000})
    .to_string()
}

fn line(seq: i64, second: i64, ok: bool) -> String {
    let mut line = json!({"seq": seq, "t_us": second * 1_000_000, "target": "http://a.example.test/", "channel": "vip",
                          "front": "203.0.113.10:80", "result": "ok", "status": 200});
    if !ok {
        line["result"] = json!("failed");
        line["phase"] = json!("connect");
        line["kind"] = json!("refused");
        line.as_object_mut().unwrap().remove("status");
    }
    line.to_string()
}

/// Starts an aggregator with an open incident: its only target worked at first and then fails.
async fn failing(more: &str) -> (Running, String) {
    let aggregator = Running::with(&format!("intervalMs: 200\ntimeoutMs: 100\n{more}")).await;
    // Rounds in the past of the sender's clock, so that all of them have ended.
    let mut lines = vec![header_of(3_600)];
    for round in 0..60 {
        lines.push(line(round, 3_500 + round, round < 20));
    }
    let body = lines.join("\n");
    assert_eq!(aggregator.report().body(body).send().await.unwrap().status(), 200);
    // Failures that ended before the aggregator started open no incident, so keep failing.
    let views = aggregator.views.clone();
    let started = Instant::now();
    let mut rounds = interval(Duration::from_millis(200));
    for seq in 60.. {
        rounds.tick().await;
        if let Some(incident) = views.latest().incidents.first() {
            return (aggregator, incident.id.clone());
        }
        let now = 3_600_000_000 + i64::try_from(started.elapsed().as_micros()).unwrap();
        let mut header: Value = serde_json::from_str(&header_of(0)).unwrap();
        header["sent_us"] = json!(now);
        header["complete_us"] = json!(now);
        let mut failed: Value = serde_json::from_str(&line(seq, 0, false)).unwrap();
        failed["t_us"] = json!(now);
        let body = format!("{header}\n{failed}");
        assert_eq!(aggregator.report().body(body).send().await.unwrap().status(), 200);
    }
    unreachable!("the loop ends with an incident")
}

fn post(aggregator: &Running, path: &str, body: &Value) -> RequestBuilder {
    aggregator
        .client
        .post(format!("{}{path}", aggregator.url))
        .header("content-type", "application/json")
        .body(body.to_string())
}

fn reset_path() -> String {
    "/v1/baselines/reset".to_owned()
}

#[tokio::test]
async fn an_incident_is_acknowledged_and_silenced_with_who_and_when_and_stays_open() {
    let (aggregator, id) = failing("store: {path: history.db}\n").await;
    let path = |action: &str| format!("/v1/incidents/{id}/{action}");
    let response = post(&aggregator, &path("acknowledge"), &json!({"note": "on it"}))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    let response = read(response).await;
    assert_eq!(
        (&response["acknowledged"]["note"], &response["persisted"]),
        (&json!("on it"), &json!(true))
    );
    let response = post(&aggregator, &path("silence"), &json!({"duration_s": 3_600}))
        .send()
        .await
        .unwrap();
    assert_eq!(read(response).await["silenced"]["by"], "this machine");
    let incident = aggregator.json(&format!("/v1/incidents/{id}")).await;
    assert_eq!(
        (&incident["state"], &incident["suppressed_because"]),
        (&json!("open"), &json!("silenced by this machine"))
    );
    let listed = aggregator.json("/v1/incidents").await;
    assert_eq!(listed["incidents"][0]["actions"]["acknowledged"]["note"], "on it");
    let ended = post(&aggregator, &path("silence"), &json!({"duration_s": 0}))
        .send()
        .await
        .unwrap();
    assert_eq!(ended.status(), 200);
    let incident = aggregator.json(&format!("/v1/incidents/{id}")).await;
    assert_eq!(incident["suppressed_because"], "acknowledged by this machine");
    for (path, body, status) in [
        (path("silence"), json!({"duration_s": 5}), 400),
        (path("silence"), json!({}), 400),
        (path("acknowledge"), json!({"why": 1}), 400),
        ("/v1/incidents/i-none/acknowledge".to_owned(), json!({}), 404),
        ("/v1/maintenance/m-none/end".to_owned(), json!({}), 404),
        ("/v1/maintenance".to_owned(), json!({"duration_s": 1}), 400),
        (
            reset_path(),
            json!({"target": "http://nobody.example.test/"}),
            404,
        ),
        (
            reset_path(),
            json!({"target": "http://a.example.test/", "why": 1}),
            400,
        ),
        (reset_path(), json!({}), 400),
    ] {
        let answer = post(&aggregator, &path, &body).send().await.unwrap();
        assert_eq!(answer.status(), status, "{path} {body}");
    }
    let target = json!({"target": "http://a.example.test/"});
    let reset = post(&aggregator, &reset_path(), &target).send().await.unwrap();
    assert_eq!(reset.status(), 200);
    let reset = post(&aggregator, &reset_path(), &target).send().await.unwrap();
    assert_eq!(
        read(reset).await,
        json!({"target": "http://a.example.test/", "had_baseline": false})
    );
    let window = post(
        &aggregator,
        "/v1/maintenance",
        &json!({"duration_s": 600, "targets": "a.example"}),
    )
    .send()
    .await;
    let window = read(window.unwrap()).await;
    assert_eq!(
        aggregator.json("/v1/maintenance").await["windows"][0]["id"],
        window["id"]
    );
    aggregator.stop().await;
}

#[tokio::test]
async fn forms_of_the_page_reject_other_origins() {
    let (aggregator, id) = failing("").await;
    let page = aggregator.text(&format!("/incident/{id}")).await;
    let proof = page
        .split("name=\"csrf_token\" value=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap()
        .to_owned();
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .build()
        .unwrap();
    let press = |action: &str, proof: &str, headers: &[(&'static str, &str)]| {
        let mut request = client
            .post(format!("{}/incident/{id}/handle", aggregator.url))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(format!("csrf_token={proof}&action={action}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send()
    };
    let own = ("sec-fetch-site", "same-origin");
    let origin = aggregator.url.clone();
    let none = "0".repeat(64);
    for (action, proof, headers, status) in [
        ("acknowledge", proof.as_str(), vec![own], 303),
        (
            "silence-3600",
            proof.as_str(),
            vec![("origin", origin.as_str())],
            303,
        ),
        (
            "acknowledge",
            proof.as_str(),
            vec![("sec-fetch-site", "cross-site"), ("origin", &origin)],
            403,
        ),
        (
            "acknowledge",
            proof.as_str(),
            vec![("origin", "http://evil.example.test")],
            403,
        ),
        ("acknowledge", proof.as_str(), vec![], 403),
        ("acknowledge", none.as_str(), vec![own], 403),
        ("acknowledge", "x", vec![own], 403),
        ("erase", proof.as_str(), vec![own], 400),
        (
            "acknowledge",
            proof.as_str(),
            vec![own, ("host", "rebound.example.test")],
            403,
        ),
    ] {
        let answer = press(action, proof, &headers).await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{action} {headers:?}");
        if status == 303 {
            assert_eq!(answer.headers()[header::LOCATION], format!("/incident/{id}"));
        }
    }
    maintenance_has_buttons_of_its_own(&aggregator, &client, (&id, &proof)).await;
    let page = aggregator.text(&format!("/incident/{id}")).await;
    assert!(
        page.contains("acknowledged, by this machine at") && page.contains("End silence"),
        "{page}"
    );
    assert!(page.contains("kept in memory only"));
    aggregator.stop().await;
}

/// The forms for maintenance have a CSRF token of their own.
async fn maintenance_has_buttons_of_its_own(
    aggregator: &Running,
    client: &reqwest::Client,
    (id, of_the_incident): (&str, &str),
) {
    let announce = |action: &str, proof: &str| {
        let request = client.post(format!("{}/maintenance/handle", aggregator.url));
        let request = request
            .header("content-type", "application/x-www-form-urlencoded")
            .header("sec-fetch-site", "same-origin");
        request.body(format!("csrf_token={proof}&action={action}")).send()
    };
    let overview = aggregator.text("/").await;
    let shown = overview.split("name=\"csrf_token\" value=\"").nth(1).unwrap();
    let shown = shown.split('"').next().unwrap();
    for (action, proof, status) in [
        ("open-3600", shown, 303),
        ("open-3600", of_the_incident, 403),
        ("open-5", shown, 400),
        ("erase", shown, 400),
        ("end-m-none", shown, 404),
    ] {
        assert_eq!(
            announce(action, proof).await.unwrap().status().as_u16(),
            status,
            "{action}"
        );
    }
    let overview = aggregator.text("/").await;
    assert!(
        overview.contains("all targets until") && overview.contains("by this machine"),
        "{overview}"
    );
    let page = aggregator.text(&format!("/incident/{id}")).await;
    assert!(
        page.contains("notifications suppressed: maintenance by this machine"),
        "{page}"
    );
    let end = overview
        .split("value=\"end-")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    assert_eq!(
        announce(&format!("end-{end}"), shown)
            .await
            .unwrap()
            .status()
            .as_u16(),
        303
    );
    assert_eq!(aggregator.json("/v1/maintenance").await["windows"], json!([]));
}

#[tokio::test]
async fn verifying_a_fix_is_a_run_that_the_incident_remembers() {
    let (aggregator, id) = failing("").await;
    let silent = |view: &View| {
        let mut vantages = view.vantages.iter();
        vantages.all(|vantage| vantage.state != VantageState::Reporting)
    };
    aggregator.views.wait_for(silent).await;
    let answer = post(&aggregator, &format!("/v1/incidents/{id}/verify"), &json!({}))
        .send()
        .await
        .unwrap();
    // The only vantage is silent, so the run is rejected with that reason.
    assert_eq!(answer.status(), StatusCode::CONFLICT);
    assert!(
        read(answer).await["error"]
            .as_str()
            .unwrap()
            .contains("no vantage of all reports")
    );
    aggregator.stop().await;
}

#[tokio::test]
async fn where_tokens_are_needed_the_page_shows_commands_and_no_buttons() {
    let (aggregator, id) = failing("access: {tokenFile: token, openRead: true}\n").await;
    let page = aggregator.text(&format!("/incident/{id}")).await;
    assert!(!page.contains("<form") && page.contains(&format!("parallax ack {id}")));
    let shut = post(
        &aggregator,
        &format!("/v1/incidents/{id}/acknowledge"),
        &json!({}),
    )
    .send()
    .await
    .unwrap();
    assert_eq!(shut.status(), StatusCode::UNAUTHORIZED);
    let token = post(
        &aggregator,
        &format!("/v1/incidents/{id}/acknowledge"),
        &json!({}),
    );
    let open = token
        .bearer_auth("a-token-of-24-characters")
        .send()
        .await
        .unwrap();
    assert_eq!(open.status(), 200);
    aggregator.stop().await;
}
