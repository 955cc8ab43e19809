//! `parallax preflight` and `parallax explain challenge/…` with a fake API server and a mesh of one machine.

mod bad_input;
mod cluster;
mod controller;
mod controller_interruptions;
mod controller_rejections;
mod edit_in_place;
mod explain;
mod solver;
mod synthetic_solver;

use std::process::{Command, Output};

use hickory_proto::rr::RecordType;
use serde_json::{Value, json};

use crate::{
    commands::{config, parallax, text},
    servers::dns::{Dns, ScriptedResponse},
    up::Up,
};
use cluster::TestCluster;

const HOST: &str = "shop.example.test";

/// A mesh of one node whose resolver maps every name to 127.0.0.1, and a cluster's API.
struct Fixture {
    cluster: TestCluster,
    up: Up,
    folder: tempfile::TempDir,
    _dns: Dns,
}

impl Fixture {
    /// Starts a fixture that serves the host at the API's ingress controller.
    fn start() -> Self {
        let cluster = TestCluster::start();
        let dns = Dns::always(&["127.0.0.1"], &[]);
        let (folder, path) = config(&format!(
            "listen: 127.0.0.1:0\nintervalMs: 5000\ntimeoutMs: 500\ntargets:\n  - url: http://{HOST}:{}/\nruns: {{allow: [127.0.0.0/8]}}\n",
            cluster.entry.port()
        ));
        let up = Up::resolving(&path, dns.addr);
        Self {
            cluster,
            up,
            folder,
            _dns: dns,
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = parallax();
        command
            .args(args)
            .args(["--server", &format!("http://{}/", self.up.page)])
            .env("KUBECONFIG", self.cluster.write_kubeconfig(self.folder.path()))
            .env("PARALLAX_CHALLENGE_PORT", self.cluster.entry.port().to_string());
        command
    }

    fn preflight(&self, args: &[&str]) -> Output {
        let port = self.cluster.entry.port().to_string();
        // Pebble accepts private addresses; a test has no others.
        let common = [
            "--port",
            &port,
            "--profile",
            "pebble",
            "-n",
            "shop",
            "--image",
            "parallax:test",
        ];
        let mut all = vec!["preflight"];
        all.extend(args);
        all.extend(common);
        self.command(&all).output().unwrap()
    }

    fn stop(self) {
        assert_eq!(self.up.interrupt(), Some(0));
    }
}

fn issuer(solvers: &Value) -> Value {
    json!({"apiVersion": "cert-manager.io/v1", "kind": "ClusterIssuer", "metadata": {"name": "letsencrypt"},
           "spec": {"acme": {"server": "https://acme.example.test/dir", "solvers": solvers}}})
}

fn nginx() -> Value {
    json!([{"http01": {"ingress": {"ingressClassName": "nginx"}}}])
}

/// Returns exit code and both output streams.
fn outcome(output: &Output) -> (Option<i32>, String, String) {
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_way_that_is_there_is_looked_at_without_any_cluster_and_says_what_it_left_out() {
    let fixture = Fixture::start();
    let output = fixture.preflight(&[HOST, "--no-create"]);
    let (code, out, err) = outcome(&output);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(
        out.contains("✓ self check: gets a response on 1 of 1 vantages"),
        "{out}"
    );
    assert!(
        out.contains("? CA: by the CA's rules it gets a response from"),
        "{out}"
    );
    assert!(out.contains("nothing was created (--no-create)"), "{out}");
    assert!(out.contains("secondary validation"), "{out}");
    assert!(fixture.cluster.created().is_empty());
    // Boulder does not use the private address; the public DNS response is unknown, so nothing is proved.
    let port = fixture.cluster.entry.port().to_string();
    let args = ["preflight", HOST, "--no-create", "--port", &port, "--json"];
    let output = fixture.command(&args).output().unwrap();
    let (code, out, err) = outcome(&output);
    assert_eq!(code, Some(3), "{out}{err}");
    let document: Value = serde_json::from_str(&out).unwrap();
    let host = &document["hosts"][0];
    assert_eq!(host["selfCheck"]["state"], "passed");
    assert_eq!(host["ca"]["state"], "unknown");
    assert_eq!(host["ca"]["failureGroups"][0]["causes"][0]["id"], "F29");
    let ca_error = host["ca"]["failureGroups"][0]["clientMessage"].as_str().unwrap();
    assert!(
        ca_error.starts_with("dns: no valid A records found"),
        "{ca_error}"
    );
    fixture.stop();
}

#[test]
fn a_port_that_nobody_answers_fails_with_the_words_of_cert_manager_and_a_cause() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let fixture = Fixture::start();
    let port = closed.port().to_string();
    let args = [
        "preflight",
        HOST,
        "--no-create",
        "--port",
        &port,
        "--profile",
        "pebble",
    ];
    let output = fixture.command(&args).output().unwrap();
    let (code, _, err) = outcome(&output);
    assert_eq!(code, Some(2), "an explicit port must be a known entry: {err}");
    assert!(err.contains("no host of a known target"), "{err}");
    fixture.stop();
    let dns = Dns::always(&["127.0.0.1"], &[]);
    let (_folder, path) = config(&format!(
        "listen: 127.0.0.1:0\nintervalMs: 5000\ntimeoutMs: 500\ntargets:\n  - url: http://{HOST}:{port}/\nruns: {{allow: [127.0.0.0/8]}}\n"
    ));
    let up = Up::resolving(&path, dns.addr);
    let server = format!("http://{}/", up.page);
    let output = parallax()
        .args(args)
        .args(["--server", &server])
        .env("KUBECONFIG", "/nowhere")
        .output()
        .unwrap();
    let (code, out, err) = outcome(&output);
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.contains("✗ self check"), "{out}");
    assert!(
        out.contains(&format!("dial tcp 127.0.0.1:{port}: connect: connection refused")),
        "{out}"
    );
    assert!(out.contains("? CA: no vantage inside gets through"), "{out}");
    assert!(out.contains("no kubeconfig of a cluster was found"), "{out}");
    assert_eq!(up.interrupt(), Some(0));
}

#[test]
fn what_is_said_of_the_name_is_asked_along_and_what_the_clusters_resolver_forbids_is_no_pass() {
    let cluster = TestCluster::start();
    let port = cluster.entry.port().to_string();
    let dns = Dns::start(|name, record| match (name, record) {
        (HOST, RecordType::A) => ScriptedResponse::Addresses(&["127.0.0.1"]),
        ("example.test", RecordType::CAA) => ScriptedResponse::Issue("pki.goog"),
        _ => ScriptedResponse::Addresses(&[]),
    });
    let (_folder, path) = config(&format!(
        "listen: 127.0.0.1:0\nintervalMs: 5000\ntimeoutMs: 500\ntargets:\n  - url: http://{HOST}:{port}/\nruns: {{allow: [127.0.0.0/8]}}\n"
    ));
    let up = Up::resolving(&path, dns.addr);
    let server = format!("http://{}/", up.page);
    let asked = |more: &[&str]| {
        let common = [
            "preflight",
            HOST,
            "--no-create",
            "--port",
            &port,
            "--server",
            &server,
        ];
        let mut command = parallax();
        outcome(
            &command
                .args(common)
                .args(more)
                .env("KUBECONFIG", "/nowhere")
                .output()
                .unwrap(),
        )
    };
    let (code, out, err) = asked(&["--caa-identity", "letsencrypt.org", "--json"]);
    assert_eq!(code, Some(3), "{out}{err}");
    let document: Value = serde_json::from_str(&out).unwrap();
    let host = &document["hosts"][0];
    assert_eq!(host["ca"]["state"], "unknown");
    assert_eq!(host["names"]["identities"], json!(["letsencrypt.org"]));
    assert_eq!(
        host["names"]["verdict"]["caa"], "unknown",
        "the public may see other records"
    );
    assert_eq!(host["names"]["facts"]["views"][0]["side"], "inside");
    assert_eq!(
        host["names"]["facts"]["views"][0]["a"]["addresses"],
        json!(["127.0.0.1"])
    );
    let left: Vec<&str> = host["notChecked"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| check.as_str().unwrap())
        .collect();
    assert!(
        left.iter().any(|check| check.contains("resolvers.public")),
        "{left:?}"
    );
    assert!(
        left.iter().any(|check| check.contains("resolvers.authoritative")),
        "{left:?}"
    );
    let (_, out, _) = asked(&[]);
    assert!(
        out.contains("CAA: according to the probing machines' own resolvers"),
        "{out}"
    );
    assert!(
        out.contains("allow only pki.goog to issue; whether that is your CA is unknown"),
        "{out}"
    );
    // Pebble does not check CAA records.
    let (code, out, err) = asked(&["--profile", "pebble"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("CAA records, which Pebble ignores"), "{out}");
    assert_eq!(up.interrupt(), Some(0));
}
