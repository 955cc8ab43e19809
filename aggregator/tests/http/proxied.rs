//! Two aggregators behind an authenticating proxy: the user's identity survives forwarding from the standby to the
//! leader, and only the proxy can set it.

use std::{fs, time::Duration};

use kube::{Client, Config as Access, config::KubeConfigOptions};
use parallax_aggregator::Config;
use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::common::{Running, TOPOLOGY, client};
use parallax_api_server::ApiServer;

const DEADLINE: Duration = Duration::from_mins(1);
const SECRET: (&str, &str) = ("x-parallax-proxy-secret", "correct-horse-battery-staple");
const ANN: (&str, &str) = ("x-forwarded-user", "ann");
const SRE: (&str, &str) = ("x-forwarded-groups", "dev,sre");

async fn replica(server: &ApiServer, name: &str) -> Running {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("topology.yaml"), TOPOLOGY).unwrap();
    fs::write(folder.path().join("secret"), SECRET.1).unwrap();
    let path = folder.path().join("parallax.yaml");
    let text = "listen: 127.0.0.1:0\ntopology: topology.yaml\naccess: {proxy: {secretFile: secret, writers: [sre]}}\n\
                replicas: {lease: parallax/parallax-aggregator, leaseSeconds: 1}\n";
    fs::write(&path, text).unwrap();
    client();
    let access = kube::config::Kubeconfig::from_yaml(&server.kubeconfig()).unwrap();
    let access = Access::from_custom_kubeconfig(access, &KubeConfigOptions::default())
        .await
        .unwrap();
    let config = Config::load(&path)
        .unwrap()
        .with_client(Client::try_from(access).unwrap())
        .as_replica(Some(name.to_owned()), None);
    Running::configured(folder, config).await
}

/// Sends a request; returns status, responding replica and body.
async fn asked(request: RequestBuilder, headers: &[(&str, &str)]) -> (u16, String, Value) {
    let request = headers
        .iter()
        .fold(request, |request, (name, value)| request.header(*name, *value));
    let response = request.send().await.unwrap();
    let by = response.headers().get("parallax-replica");
    let by = by.map_or_else(String::new, |by| by.to_str().unwrap().to_owned());
    (
        response.status().as_u16(),
        by,
        crate::common::json(response).await,
    )
}

#[tokio::test]
async fn the_user_survives_forwarding_and_cannot_be_forged() {
    let server = ApiServer::start(&[]).await;
    let leader = replica(&server, "agg-a").await;
    let own = ("parallax-forwarded-by", "test");
    let becomes = async |aggregator: &Running, field: &str, is: &str| {
        let wait = async {
            while asked(aggregator.get("/v1/state"), &[SECRET, ANN, own]).await.2["replica"][field] != is {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(DEADLINE, wait).await.unwrap();
    };
    becomes(&leader, "role", "leads").await;
    let standby = replica(&server, "agg-b").await;
    becomes(&standby, "leader", "agg-a").await;

    let window = json!({"duration_s": 600});
    let announce = |aggregator: &Running| {
        let url = aggregator.get("/v1/maintenance").build().unwrap().url().clone();
        client().post(url).json(&window)
    };
    let (status, by, answer) = asked(announce(&standby), &[SECRET, ANN, SRE]).await;
    assert_eq!(
        (status, by.as_str(), &answer["by"]),
        (201, "agg-a", &json!("ann")),
        "{answer}"
    );
    let (status, by, answer) = asked(announce(&standby), &[SECRET, ANN]).await;
    assert_eq!(
        (status, by.as_str()),
        (403, "agg-a"),
        "the user is known and has read permission only: {answer}"
    );

    // The proxy cannot be bypassed: neither at a replica directly nor by imitating a forwarded request.
    let twice = [SECRET, ("x-forwarded-user", "root"), ANN, SRE];
    let guessed = [("x-parallax-proxy-secret", "guess"), ANN, SRE];
    for (aggregator, is_standby) in [(&standby, true), (&leader, false)] {
        for forged in [
            &[ANN, SRE][..],
            &guessed,
            &twice,
            &[ANN, SRE, own],
            &[ANN, SRE, ("parallax-forwarded-by", "agg-b")],
        ] {
            let (status, _, answer) = asked(announce(aggregator), forged).await;
            let stands_by = is_standby && forged.iter().any(|(name, _)| *name == own.0);
            assert_eq!(status, if stands_by { 503 } else { 401 }, "{forged:?}: {answer}");
            let (status, ..) = asked(aggregator.get("/v1/maintenance"), forged).await;
            assert_eq!(status, 401, "{forged:?}");
        }
    }
    let (_, _, all) = asked(leader.get("/v1/maintenance"), &[SECRET, ANN]).await;
    assert_eq!(all["windows"].as_array().unwrap().len(), 1, "{all}");
    standby.stop().await;
    leader.stop().await;
}
