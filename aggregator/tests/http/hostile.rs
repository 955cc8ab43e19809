//! One bad vantage or client costs no other more than its own share.

use std::net::{Ipv4Addr, SocketAddr};

use futures_util::StreamExt;
use parallax_diagnosis::view::View;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
};

use crate::common::{HEADER, Running, gzip, json, observation};

fn report(header: &str, sequence: std::ops::Range<u64>) -> String {
    let lines = sequence.map(observation);
    std::iter::once(header.to_owned())
        .chain(lines)
        .collect::<Vec<_>>()
        .join("\n")
}

async fn send_gzip(aggregator: &Running, body: &str) -> reqwest::Response {
    aggregator
        .report()
        .header("content-encoding", "gzip")
        .body(gzip(body.as_bytes()))
        .send()
        .await
        .unwrap()
}

async fn lines(aggregator: &Running, result: &str) -> Option<f64> {
    let series = format!(r#"parallax_ingest_observations_total{{result="{result}"}}"#);
    aggregator.metric(&series).await
}

#[tokio::test]
async fn a_flood_of_one_vantage_is_bounded_and_shown_and_the_others_are_counted() {
    let aggregator = Running::start().await;
    let too_long = send_gzip(&aggregator, &report(HEADER, 0..10_001)).await;
    assert_eq!(too_long.status(), 413);
    for part in 0..4 {
        let sequence = part * 9_000..(part + 1) * 9_000;
        let response = send_gzip(&aggregator, &report(HEADER, sequence)).await;
        assert_eq!(json(response).await["accepted"], 9_000);
    }
    let other = HEADER.replace("n1/pod", "n2/pod");
    let before = lines(&aggregator, "counted").await.unwrap();
    aggregator.send(&[&other, &observation(0)]).await;
    assert_eq!(lines(&aggregator, "counted").await, Some(before + 1.0));
    // A round that closes in between makes some of them late instead.
    let (over_budget, late) = (
        lines(&aggregator, "over_budget").await,
        lines(&aggregator, "late").await,
    );
    let discarded = over_budget.unwrap() + late.unwrap();
    assert!(discarded >= 16_000.0, "{discarded}");
    // A state of the last half second answers a request, and may be older than the reports.
    let is_shown = |view: &View| view.vantages.iter().any(|vantage| vantage.discarded > 0);
    aggregator.views.wait_for(is_shown).await;
    let shown = aggregator.json("/v1/state").await;
    let vantages = shown["vantages"].as_array().unwrap();
    let of = |name: &str| {
        let vantage = vantages.iter().find(|vantage| vantage["vantage"] == name);
        vantage.unwrap()["discarded"].as_u64().unwrap_or(0)
    };
    assert!(of("n1/pod") >= 16_000 && of("n2/pod") == 0, "{vantages:?}");
    aggregator.stop().await;
}

/// Such an observation would keep its cell fresh for an hour after the vantage has fallen silent.
#[tokio::test]
async fn an_observation_from_the_future_is_discarded() {
    let aggregator = Running::start().await;
    let hour = observation(0).replace("\"t_us\":900000", "\"t_us\":3600000000");
    assert_ne!(hour, observation(0));
    aggregator.send(&[HEADER, &hour, &observation(1)]).await;
    assert_eq!(lines(&aggregator, "implausible").await, Some(1.0));
    assert_eq!(lines(&aggregator, "counted").await, Some(1.0));
    let series = r#"parallax_ingest_discarded_total{vantage="n1/pod",reason="implausible"}"#;
    assert_eq!(aggregator.metric(series).await, Some(1.0));
    aggregator.stop().await;
}

#[tokio::test]
async fn a_vantage_has_four_plan_streams_and_a_fifth_ends_the_first() {
    let aggregator = Running::start().await;
    let mut streams = Vec::new();
    for _ in 0..5 {
        let response = aggregator.get("/v1/plan?vantage=n1/pod").send().await.unwrap();
        let mut stream = response.bytes_stream();
        assert!(stream.next().await.unwrap().is_ok(), "a snapshot");
        streams.push(stream);
    }
    // It ends while the others wait for their next line.
    while let Some(line) = streams[0].next().await {
        line.unwrap();
    }
    assert!(streams[1].next().await.unwrap().is_ok(), "a heartbeat");
    aggregator.stop().await;
}

/// Opens a report from another address and stops within its body. The aggregator asks for the body once it reads it.
async fn slow_report(server: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::new(127, 0, 0, 2), 0).into()).unwrap();
    let mut stream = socket.connect(server).await.unwrap();
    let head = "POST /v1/observations HTTP/1.1\r\nhost: a\r\ncontent-type: application/x-ndjson\r\n\
                content-length: 1000\r\nexpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn slow_reports_of_one_address_do_not_delay_those_of_another() {
    let aggregator = Running::start().await;
    let server: SocketAddr = aggregator.url.strip_prefix("http://").unwrap().parse().unwrap();
    let mut reading = JoinSet::new();
    for _ in 0..40 {
        let mut stream = slow_report(server).await;
        reading.spawn(async move {
            let mut byte = [0];
            stream.read_exact(&mut byte).await.unwrap();
            stream
        });
    }
    // As many as one address may send at a time are being read.
    let mut slow = Vec::new();
    for _ in 0..16 {
        slow.push(reading.join_next().await.unwrap().unwrap());
    }
    let honest = aggregator.send(&[HEADER, &observation(0)]).await;
    assert_eq!(
        json(honest).await,
        json!({"accepted": 1, "duplicates": 0, "malformed": 0})
    );
    drop((slow, reading));
    aggregator.stop().await;
}

#[tokio::test]
async fn of_four_hundred_plan_streams_of_a_vantage_four_stay_and_others_get_their_plan() {
    let aggregator = Running::start().await;
    let mut streams = JoinSet::new();
    for _ in 0..400 {
        let response = aggregator.get("/v1/plan?vantage=n1/pod").send().await.unwrap();
        streams.spawn(async move {
            let mut stream = response.bytes_stream();
            while let Some(line) = stream.next().await {
                line.unwrap();
            }
        });
    }
    for _ in 0..396 {
        streams.join_next().await.unwrap().unwrap();
    }
    let other = aggregator.get("/v1/plan?vantage=n2/pod").send().await.unwrap();
    assert!(other.bytes_stream().next().await.unwrap().is_ok(), "a snapshot");
    assert_eq!(streams.len(), 4);
    drop(streams);
    aggregator.stop().await;
}

#[tokio::test]
async fn a_flood_of_every_vantage_is_bounded_for_each_and_names_nothing() {
    let aggregator = Running::start().await;
    let vantages = ["n1/pod", "n2/pod"];
    for part in 0..4 {
        for vantage in vantages {
            let header = HEADER.replace("n1/pod", vantage);
            let sequence = part * 9_000..(part + 1) * 9_000;
            let response = send_gzip(&aggregator, &report(&header, sequence)).await;
            assert_eq!(json(response).await["accepted"], 9_000);
        }
    }
    let is_shown = |view: &View| {
        view.vantages
            .iter()
            .filter(|vantage| vantage.discarded > 0)
            .count()
            == 2
    };
    aggregator.views.wait_for(is_shown).await;
    let counted = lines(&aggregator, "counted").await.unwrap();
    assert!(counted > 2_000.0, "each has its share: {counted}");
    let state = aggregator.json("/v1/state").await;
    assert_eq!(state["incidents"], json!([]));
    aggregator.stop().await;
}
