//! Ingest of reports: valid, malformed, duplicate, from other versions, hostile.

use crate::common::{HEADER, Running, gzip, json, observation};
use serde_json::json;

#[tokio::test]
async fn a_report_is_acknowledged_line_by_line_and_a_bad_line_costs_only_itself() {
    let aggregator = Running::start().await;
    let (one, two) = (observation(0), observation(1));
    let response = aggregator
        .send(&[HEADER, &one, "{half a line", &two, r#"{"seq":2}"#])
        .await;
    assert_eq!(response.status(), 200);
    assert_eq!(
        json(response).await,
        json!({"accepted": 2, "duplicates": 0, "malformed": 2})
    );
    let malformed = aggregator
        .metric(r#"parallax_ingest_observations_total{result="malformed"}"#)
        .await;
    assert_eq!(malformed, Some(2.0));
    aggregator.stop().await;
}

#[tokio::test]
async fn resent_reports_are_deduplicated_per_incarnation() {
    let aggregator = Running::start().await;
    let (one, two) = (observation(0), observation(1));
    aggregator.send(&[HEADER, &one]).await;
    let again = aggregator.send(&[HEADER, &one, &two]).await;
    assert_eq!(
        json(again).await,
        json!({"accepted": 1, "duplicates": 1, "malformed": 0})
    );
    let restarted = HEADER.replace("life-1", "life-2");
    let anew = aggregator.send(&[&restarted, &one]).await;
    assert_eq!(json(anew).await["accepted"], 1);
    aggregator.stop().await;
}

#[tokio::test]
async fn reports_of_the_neighbouring_versions_are_read() {
    let aggregator = Running::start().await;
    let newer_header = r#"{"v":2,"incarnation":"newer","vantage":"n2/pod","sent_us":1000000,"complete_us":5,"assignments":3,"colour":"blue"}"#;
    let newer = r#"{"seq":0,"t_us":5,"target":"http://a.example.test/","channel":"vip","result":"failed","phase":"connect","kind":"quic_blocked","h3":{"alt":1}}"#;
    let oldest = r#"{"seq":1,"t_us":5,"target":"http://a.example.test/","channel":"vip","result":"failed","phase":"connect","kind":"refused"}"#;
    let unknown_channel =
        r#"{"seq":2,"t_us":5,"target":"http://a.example.test/","channel":"telepathy","result":"ok"}"#;
    let response = aggregator
        .send(&[newer_header, newer, oldest, unknown_channel])
        .await;
    assert_eq!(
        json(response).await,
        json!({"accepted": 2, "duplicates": 0, "malformed": 1})
    );
    aggregator.stop().await;
}

#[tokio::test]
async fn what_cannot_be_a_report_is_refused_with_its_reason_and_affects_nothing_else() {
    let aggregator = Running::start().await;
    let one = observation(0);
    let refused = async |body: reqwest::RequestBuilder, status: u16, words: &str| {
        let response = body.send().await.unwrap();
        let got = response.status().as_u16();
        let answer = json(response).await;
        assert_eq!(got, status, "{answer}");
        let error = answer["error"].as_str().unwrap();
        assert!(error.contains(words), "{error}");
    };
    refused(aggregator.report().body("garbage\n"), 400, "report header").await;
    refused(aggregator.report().body(""), 400, "empty body").await;
    refused(
        aggregator.report().body(HEADER.replace("\"v\":1", "\"v\":7")),
        400,
        "wire version 7",
    )
    .await;
    refused(
        aggregator.report().body(HEADER.replace("n1/pod", "n9/pod")),
        404,
        "n9/pod is not in the topology",
    )
    .await;
    refused(aggregator.report().body(vec![b'x'; (8 << 20) + 1]), 413, "").await;
    refused(
        aggregator
            .client
            .post(format!("{}/v1/observations", aggregator.url))
            .header("content-type", "application/json")
            .body(HEADER),
        415,
        "application/x-ndjson",
    )
    .await;
    refused(
        aggregator
            .report()
            .header("content-encoding", "zstd")
            .body(HEADER),
        415,
        "",
    )
    .await;
    refused(
        aggregator
            .report()
            .header("content-encoding", "gzip")
            .body("not gzip"),
        400,
        "cannot be decompressed",
    )
    .await;
    refused(aggregator.get("/v1/observations"), 405, "method not allowed").await;
    refused(aggregator.get("/v1/nowhere"), 404, "no such path").await;
    assert_eq!(json(aggregator.send(&[HEADER, &one]).await).await["accepted"], 1);
    let header = aggregator
        .metric(r#"parallax_ingest_reports_total{result="bad_header"}"#)
        .await;
    assert_eq!(header, Some(3.0));
    aggregator.stop().await;
}

#[tokio::test]
async fn gzip_is_read_and_a_bomb_is_cut_at_the_bound() {
    let aggregator = Running::start().await;
    let body = format!("{HEADER}\n{}\n", observation(0));
    let packed = aggregator
        .report()
        .header("content-encoding", "gzip")
        .body(gzip(body.as_bytes()));
    assert_eq!(json(packed.send().await.unwrap()).await["accepted"], 1);

    let mut bomb = HEADER.as_bytes().to_vec();
    bomb.push(b'\n');
    bomb.resize(64 << 20, b'0');
    let bomb = gzip(&bomb);
    assert!(bomb.len() < 1 << 20, "small on the wire");
    let response = aggregator
        .report()
        .header("content-encoding", "gzip")
        .body(bomb)
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 413);
    assert_eq!(aggregator.text("/healthz").await, "ok\n");
    aggregator.stop().await;
}

#[tokio::test]
async fn with_a_token_file_only_the_holder_of_the_token_may_report_or_read_a_plan() {
    let aggregator = Running::with("tokenFile: token\n").await;
    let bare = aggregator.send(&[HEADER]).await;
    assert_eq!(bare.status(), 401);
    assert_eq!(
        aggregator
            .get("/v1/plan?vantage=n1/pod")
            .send()
            .await
            .unwrap()
            .status(),
        401
    );
    let wrong = aggregator
        .report()
        .bearer_auth("a-token-of-24-charactres")
        .body(HEADER);
    assert_eq!(wrong.send().await.unwrap().status(), 401);
    let right = aggregator
        .report()
        .bearer_auth("a-token-of-24-characters")
        .body(HEADER);
    assert_eq!(right.send().await.unwrap().status(), 200);
    let read = aggregator.get("/v1/state").send().await.unwrap();
    assert_eq!(read.status(), 200, "reading needs no token");
    aggregator.stop().await;
}
