//! Let's Encrypt's own challenge server instead of the test's: the results do not depend on the servers of these tests.

use std::process::Stdio;

use anyhow::{Context, ensure};
use parallax_acme_conformance::{
    namespace::run_in_namespace,
    order::PendingOrder,
    pebble::{Pebble, wait_until_listening},
    verdict::{ExplainedVerdict, Verdict},
};
use parallax_prober::{
    ChallengeRequest, ClientProfile, ProbeContext as Prober, Profile, ResolverChoice, TlsConfigs, validate,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::{Child, Command},
};

const RESOLVER: &str = "127.0.0.1:8053";
const MANAGEMENT: &str = "127.0.0.1:8055";

struct ChallengeServer {
    _process: Child,
}

impl ChallengeServer {
    async fn start() -> anyhow::Result<Self> {
        let mut process = Command::new("pebble-challtestsrv")
            .args(["-dns01", RESOLVER, "-management", MANAGEMENT])
            .args([
                "-http01",
                "9.0.0.1:80",
                "-https01",
                "9.0.0.1:443",
                "-tlsalpn01",
                "",
            ])
            .args(["-defaultIPv4", "9.0.0.1", "-defaultIPv6", ""])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("starting pebble-challtestsrv (tests/install-tools acme installs it)")?;
        for address in [MANAGEMENT, "9.0.0.1:80", "9.0.0.1:443"] {
            wait_until_listening(address.parse().context("parsing an address")?, &mut process).await?;
        }
        Ok(Self { _process: process })
    }

    async fn order(&self, path: &str, body: serde_json::Value) -> anyhow::Result<()> {
        let body = body.to_string();
        let mut stream = TcpStream::connect(MANAGEMENT).await.context("connecting")?;
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {MANAGEMENT}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.context("asking")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.context("reading")?;
        ensure!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
        Ok(())
    }
}

/// Configures the challenge server for a name, a token and a key authorization.
type Prepare = fn(&str, &str, &str) -> Vec<(&'static str, serde_json::Value)>;

#[test]
fn with_the_challenge_server_of_lets_encrypt_they_agree_too() {
    let scenarios: [(&str, Prepare, Verdict); 6] = [
        (
            "served",
            |_, token, key| vec![("/add-http01", serde_json::json!({"token": token, "content": key}))],
            Verdict::Valid,
        ),
        ("unserved", |_, _, _| Vec::new(), Verdict::Unauthorized),
        (
            "other",
            |_, token, _| {
                vec![(
                    "/add-http01",
                    serde_json::json!({"token": token, "content": "other"}),
                )]
            },
            Verdict::Unauthorized,
        ),
        (
            "servfail",
            |name, _, _| vec![("/set-servfail", serde_json::json!({"host": name}))],
            Verdict::Connection,
        ),
        (
            "dead6",
            |name, token, key| {
                vec![
                    ("/add-http01", serde_json::json!({"token": token, "content": key})),
                    (
                        "/add-aaaa",
                        serde_json::json!({"host": name, "addresses": ["2600:1f18::9"]}),
                    ),
                ]
            },
            Verdict::Connection,
        ),
        (
            "redirect",
            |name, token, key| {
                vec![
                    ("/add-http01", serde_json::json!({"token": token, "content": key})),
                    (
                        "/add-redirect",
                        serde_json::json!({
                            "path": format!("/.well-known/acme-challenge/{token}"),
                            "targetURL": format!("https://{name}/.well-known/acme-challenge/{token}"),
                        }),
                    ),
                ]
            },
            Verdict::Valid,
        ),
    ];
    run_in_namespace(
        "challtestsrv::with_the_challenge_server_of_lets_encrypt_they_agree_too",
        async || {
            let _ = rustls::crypto::ring::default_provider().install_default();
            let server = ChallengeServer::start().await?;
            let account_of = Pebble::start(RESOLVER).await?;
            let account = account_of.account().await?;
            let prober = Prober::with_tls("/nonexistent/resolv.conf".into(), TlsConfigs::with_roots([]));
            let choice = ResolverChoice::Servers(vec![RESOLVER.parse().context("parsing an address")?]);
            for (label, prepare, expected) in scenarios {
                let name = format!("{label}.acme.example.org");
                let pending = PendingOrder::new(&account, &name).await?;
                let challenge = ChallengeRequest {
                    host: name.clone(),
                    port: 80,
                    path: format!("/.well-known/acme-challenge/{}", pending.token),
                    expected: pending.key.clone(),
                };
                for (path, body) in prepare(&name, &pending.token, &pending.key) {
                    server.order(path, body).await?;
                }
                let profile = Profile::for_client(ClientProfile::Pebble);
                let as_pebble = ExplainedVerdict::from_validation(
                    &validate(&profile, &challenge, &choice, &prober).await,
                )?;
                let pebble = pending.validate().await?;
                ensure!(
                    pebble.verdict == expected && as_pebble.verdict == expected,
                    "{label}: expected {expected:?}, Pebble: {pebble}, as Pebble: {as_pebble}"
                );
            }
            Ok(())
        },
    );
}
