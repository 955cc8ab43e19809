//! Objects rejected on creation, and the examples of docs/use/preflight.md.

use std::fs;

use kube::{Client, api::PostParams};
use parallax_control_plane::Manifest;
use serde_json::json;

use super::{preflights, written};
use crate::parallax::overlay_folder;

/// Asserts that the API server rejects invalid objects with the given message.
pub(super) async fn refuses(client: &Client) {
    let hosts = json!(["a.example.test"]);
    for (spec, words) in [
        (json!({"hosts": hosts}), "no issuer: expected issuerRef"),
        (json!({"class": "public"}), "hosts: expected a name"),
        (json!({"hosts": [], "class": "public"}), "hosts: expected a name"),
        (
            json!({"hosts": hosts, "class": "public", "gatewayRef": {"name": "gate"}}),
            "expected one of issuerRef, class, gatewayRef, certificateRef and ingressRef",
        ),
        (
            json!({"certificateRef": {"name": "web"}, "issuerRef": {"name": "le"}}),
            "expected one of issuerRef",
        ),
        (
            json!({"hosts": hosts, "issuerRef": {"name": "le", "kind": "Other"}}),
            "issuerRef.kind: expected Issuer or ClusterIssuer",
        ),
        (
            json!({"hosts": hosts, "class": "public", "profile": "other"}),
            "profile: expected boulder or pebble",
        ),
        (
            json!({"hosts": hosts, "noCreate": true, "allowBillable": true}),
            "allowBillable: with noCreate",
        ),
        (
            json!({"hosts": hosts, "noCreate": true, "readySeconds": 3}),
            "readySeconds: with noCreate",
        ),
        (
            json!({"hosts": hosts, "class": "public", "readySeconds": 0}),
            "readySeconds: expected 1 to 3600",
        ),
        (
            json!({"certificateRef": {"name": ""}}),
            "spec.certificateRef.name",
        ),
        (json!({"certificateRef": {}}), "spec.certificateRef.name"),
        (
            json!({"hosts": vec!["a.example.test"; 101], "class": "public"}),
            "spec.hosts",
        ),
    ] {
        let refused = preflights(client)
            .create(&PostParams::default(), &written("bad", &spec))
            .await
            .map(|_| ())
            .unwrap_err();
        let kube::Error::Api(status) = refused else {
            panic!("{spec}: {refused}");
        };
        assert_eq!(status.code, 422, "{spec}: {status}");
        assert!(status.message.contains(words), "{spec}: {status}");
    }
    let typo = written("typo", &json!({"hosts": hosts, "clas": "public"}));
    let refused = Manifest::from_objects(vec![typo])
        .apply(client)
        .await
        .unwrap_err();
    assert!(format!("{refused:#}").contains("clas"), "{refused:#}");
}

/// The examples of docs/use/preflight.md can be applied unchanged, and deleted.
pub(super) async fn applies_the_documented_objects(client: &Client) {
    let page = fs::read_to_string(overlay_folder("../../docs/use/preflight.md")).unwrap();
    let mut shown = 0;
    for block in page.split("```yaml\n").skip(1) {
        let block = block.split("```").next().unwrap();
        if !block.contains("kind: Preflight") {
            continue;
        }
        let manifest = Manifest::read(block).unwrap();
        shown += manifest.objects().len();
        manifest.apply(client).await.unwrap();
        manifest.apply(client).await.expect("applying twice");
        manifest.delete(client).await.unwrap();
    }
    assert!(shown >= 4, "{shown}");
}
