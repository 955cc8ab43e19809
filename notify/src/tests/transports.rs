//! The HTTP transports, against servers that behave well and badly.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{io::AsyncReadExt as _, net::TcpListener};

use super::{
    super::{
        AlertmanagerOptions,
        alertmanager::AlertmanagerClient,
        http::DeliveryOutcome,
        notification::{DeliveredState, DueMessage},
        outbox::Delivery,
        webhook::WebhookClient,
    },
    receiver::{Receiver, SECRET, ScriptedResponse},
    *,
};

fn delivery(message: DueMessage, view: &View) -> Delivery {
    let mut outbox = Outbox::default();
    update(&mut outbox, &open(), NOW, false, 0);
    update(&mut outbox, view, NOW, false, 0);
    Delivery {
        notification: outbox.notifications.into_values().next().unwrap(),
        message,
        previous: None,
    }
}

const FIRST: DueMessage = DueMessage::Open { first: true };

fn install_crypto_provider() {
    // A second call finds a provider installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

async fn send_webhook(receiver: &Receiver) -> DeliveryOutcome {
    install_crypto_provider();
    WebhookClient::new(receiver.webhook())
        .unwrap()
        .send_delivery(&delivery(FIRST, &open()))
        .await
}

fn retry_reason(outcome: &DeliveryOutcome) -> &str {
    match outcome {
        DeliveryOutcome::Retry { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_message_names_the_failure_and_the_number_of_targets() {
    let receiver = Receiver::with_responses([]).await;
    assert_eq!(
        send_webhook(&receiver).await,
        DeliveryOutcome::Delivered(Value::Null)
    );
    let request = &receiver.requests()[0];
    assert_eq!(request.path, "/hook?team=a");
    let body = request.json();
    let incident = &open().incidents[0];
    assert_eq!(body["type"], "incident.opened");
    let data = &body["data"];
    assert_eq!(data["incident"], incident.id.as_str());
    assert_eq!(data["sentence"], incident.verdict.sentence.as_str());
    assert_eq!(data["targets"].as_array().unwrap().len(), 10);
    assert_eq!(data["targets_total"], incident.verdict.targets.len());
    assert_eq!(data["severity"], "critical");
    assert!(data["opened"].as_str().unwrap().ends_with('Z'), "{data}");
    assert_eq!(request.header("webhook-id"), format!("msg_{}_1_1", incident.id));
    let over = delivery(DueMessage::Recovered, &closed());
    let webhook = WebhookClient::new(receiver.webhook()).unwrap();
    assert!(matches!(
        webhook.send_delivery(&over).await,
        DeliveryOutcome::Delivered(_)
    ));
    let body = receiver.requests()[1].json();
    assert_eq!(
        (&body["type"], &body["data"]["ending"]),
        (&json!("incident.recovered"), &json!("judged"))
    );
    assert!(body["data"]["closed"].is_string());
}

/// The code block of this language in docs/use/notifications.md.
fn documented_code(language: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/use/notifications.md");
    let page = std::fs::read_to_string(page).unwrap();
    let begin = format!("```{language}\n");
    let code = page
        .split(&begin)
        .nth(1)
        .unwrap_or_else(|| panic!("no {language} block in the page"));
    code.split("```").next().unwrap().to_owned()
}

#[tokio::test]
async fn a_receiver_verifies_the_signature_as_the_documentation_shows_and_a_forged_body_fails() {
    let receiver = Receiver::with_responses([]).await;
    send_webhook(&receiver).await;
    let request = receiver.requests().remove(0);
    let folder = tempfile::tempdir().unwrap();
    let (script, body) = (folder.path().join("verify.py"), folder.path().join("body"));
    std::fs::write(&script, documented_code("python")).unwrap();
    let verify = |text: &str, secret: &str| {
        std::fs::write(&body, text).unwrap();
        let run = std::process::Command::new("python3")
            .arg(&script)
            .args([
                secret,
                request.header("webhook-id"),
                request.header("webhook-timestamp"),
                request.header("webhook-signature"),
            ])
            .stdin(std::fs::File::open(&body).unwrap())
            .output()
            .expect("python3 runs the script of the page");
        (
            run.status.success(),
            String::from_utf8_lossy(&run.stdout).trim().to_owned(),
        )
    };
    assert_eq!(verify(&request.body, SECRET), (true, "genuine".to_owned()));
    assert_eq!(
        verify(&request.body.replace("critical", "harmless"), SECRET),
        (false, "forged".to_owned())
    );
    assert_eq!(
        verify(&request.body, "whsec_YW5vdGhlciBzZWNyZXQgb2YgdGhlbQ=="),
        (false, "forged".to_owned())
    );

    std::fs::write(&body, &request.body).unwrap();
    let shell = std::process::Command::new("sh")
        .arg("-c")
        .arg(documented_code("sh"))
        .env("SECRET", SECRET)
        .env("ID", request.header("webhook-id"))
        .env("TIMESTAMP", request.header("webhook-timestamp"))
        .env("BODY", &body)
        .output()
        .unwrap();
    let signed = String::from_utf8_lossy(&shell.stdout).trim().to_owned();
    assert_eq!(
        signed,
        request.header("webhook-signature"),
        "{}",
        String::from_utf8_lossy(&shell.stderr)
    );
}

#[tokio::test]
async fn the_status_decides_between_retry_and_rejection() {
    for code in [408, 429, 500, 502, 503, 504] {
        let receiver = Receiver::with_responses([ScriptedResponse::Status(code)]).await;
        let outcome = send_webhook(&receiver).await;
        assert!(
            retry_reason(&outcome).starts_with(&format!("the receiver responded with status {code}")),
            "{outcome:?}"
        );
    }
    for code in [400, 401, 403, 404, 410, 413, 422] {
        let receiver = Receiver::with_responses([ScriptedResponse::Status(code)]).await;
        let outcome = send_webhook(&receiver).await;
        let DeliveryOutcome::Rejected { why } = &outcome else {
            panic!("{code}: {outcome:?}");
        };
        assert!(
            why.starts_with(&format!("the receiver responded with status {code}")) && !why.contains('\n'),
            "{why}"
        );
    }
    let receiver = Receiver::with_responses([ScriptedResponse::StatusWithHeader(
        429,
        "retry-after",
        "77".to_owned(),
    )])
    .await;
    let DeliveryOutcome::Retry { after, .. } = send_webhook(&receiver).await else {
        panic!("expected a retry");
    };
    assert_eq!(after, Some(Duration::from_secs(77)));
    let receiver = Receiver::with_responses([ScriptedResponse::StatusWithHeader(
        500,
        "retry-after",
        "77".to_owned(),
    )])
    .await;
    let DeliveryOutcome::Retry { after, .. } = send_webhook(&receiver).await else {
        panic!("expected a retry");
    };
    assert_eq!(after, None, "a failing server's Retry-After is ignored");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let redirect_target = Receiver::with_responses([]).await;
    for code in [301, 302, 307, 308] {
        let to = format!("http://{}/", redirect_target.address);
        let receiver =
            Receiver::with_responses([ScriptedResponse::StatusWithHeader(code, "location", to)]).await;
        let outcome = send_webhook(&receiver).await;
        assert!(
            matches!(&outcome, DeliveryOutcome::Rejected { why } if why.contains("redirects are not followed")),
            "{outcome:?}"
        );
    }
    assert!(redirect_target.requests().is_empty());
}

#[tokio::test]
async fn an_unusable_receiver_is_retried_and_errors_contain_no_url() {
    install_crypto_provider();
    let receiver = Receiver::with_responses([]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let at = |scheme: &str| {
        let mut options = receiver.webhook();
        options.url = format!("{scheme}://{address}/hook?key=hunter2").parse().unwrap();
        WebhookClient::new(options).unwrap()
    };
    // This server does not speak TLS.
    let plain = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut some = [0; 16];
        let _ = stream.read(&mut some).await;
    });
    let outcome = at("https").send_delivery(&delivery(FIRST, &open())).await;
    assert!(!retry_reason(&outcome).contains("hunter2"), "{outcome:?}");
    plain.await.unwrap();
    let outcome = at("http").send_delivery(&delivery(FIRST, &open())).await;
    assert!(
        retry_reason(&outcome).contains("refused") && !retry_reason(&outcome).contains("hunter2"),
        "{outcome:?}"
    );
    std::fs::remove_file(receiver.folder.path().join("secret")).unwrap();
    let outcome = send_webhook(&receiver).await;
    assert!(retry_reason(&outcome).contains("cannot read"), "{outcome:?}");
    assert!(receiver.requests().is_empty(), "nothing is sent unsigned");
}

#[tokio::test]
async fn an_untrusted_certificate_is_refused_and_one_of_the_ca_file_is_accepted() {
    use std::sync::Arc;

    use rustls::pki_types::{CertificateDer, PrivateKeyDer};

    install_crypto_provider();
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(own.cert.der().to_vec())], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not trust the certificate aborts the handshake.
            if let Ok(mut stream) = acceptor.accept(stream).await {
                use tokio::io::AsyncWriteExt as _;
                let mut some = vec![0; 65_536];
                let _ = stream.read(&mut some).await;
                let _ = stream
                    .write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
                    .await;
                let _ = stream.shutdown().await;
            }
        }
    });
    let receiver = Receiver::with_responses([]).await;
    let ca = receiver.folder.path().join("ca.pem");
    std::fs::write(&ca, own.cert.pem()).unwrap();
    let mut options = receiver.webhook();
    options.url = format!("https://{address}/").parse().unwrap();
    let outcome = WebhookClient::new(options.clone())
        .unwrap()
        .send_delivery(&delivery(FIRST, &open()))
        .await;
    assert!(retry_reason(&outcome).contains("certificate"), "{outcome:?}");
    options.ca_file = Some(ca);
    let outcome = WebhookClient::new(options)
        .unwrap()
        .send_delivery(&delivery(FIRST, &open()))
        .await;
    assert_eq!(outcome, DeliveryOutcome::Delivered(Value::Null));
    serving.abort();
}

#[tokio::test]
async fn a_request_times_out_after_ten_seconds() {
    let receiver = Receiver::with_responses([ScriptedResponse::NoResponse]).await;
    let begin = std::time::Instant::now();
    let outcome = send_webhook(&receiver).await;
    let took = begin.elapsed();
    assert!(matches!(outcome, DeliveryOutcome::Retry { .. }), "{outcome:?}");
    assert!((9..15).contains(&took.as_secs()), "{took:?}");
}

fn alertmanager_client(receiver: &Receiver) -> AlertmanagerClient {
    install_crypto_provider();
    AlertmanagerClient::new(AlertmanagerOptions {
        name: "r".to_owned(),
        url: format!("http://{}/am/", receiver.address).parse().unwrap(),
        job: "parallax/parallax-aggregator".to_owned(),
        labels: [("cluster".to_owned(), "a".to_owned())].into(),
        token_file: Some(receiver.folder.path().join("secret")),
        ca_file: None,
        resend_interval: Duration::from_mins(1),
    })
    .unwrap()
}

fn timestamp(value: &Value) -> jiff::Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_pushed_alert_has_the_labels_of_the_rules_and_ends_in_the_future_while_it_fires() {
    let receiver = Receiver::with_responses([]).await;
    let pushes = alertmanager_client(&receiver);
    let DeliveryOutcome::Delivered(mark) = pushes.send(&delivery(FIRST, &open())).await else {
        panic!("expected a delivery");
    };
    let request = receiver.requests().remove(0);
    assert_eq!(request.path, "/am/api/v2/alerts");
    assert_eq!(request.header("authorization"), format!("Bearer {SECRET}"));
    let alert = request.json()[0].clone();
    let names: Vec<_> = alert["labels"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(
        names,
        [
            "alertname",
            "cause",
            "cluster",
            "incident",
            "job",
            "severity",
            "subject"
        ]
    );
    assert_eq!(alert["labels"]["alertname"], "ParallaxIncident");
    let ahead = timestamp(&alert["endsAt"])
        .duration_since(jiff::Timestamp::now())
        .as_secs();
    assert!((200..=240).contains(&ahead), "{ahead}");

    // Over: the same labels, and an end in the past.
    let mut end = delivery(DueMessage::Recovered, &closed());
    end.previous = Some(DeliveredState {
        number: 1,
        recovered: false,
        delivered_at: NOW,
        transport_state: mark,
    });
    pushes.send(&end).await;
    let ended = receiver.requests()[1].json();
    assert_eq!(ended.as_array().unwrap().len(), 1);
    assert_eq!(ended[0]["labels"], alert["labels"]);
    assert!(timestamp(&ended[0]["endsAt"]) <= jiff::Timestamp::now().max(timestamp(&ended[0]["startsAt"])));

    // Other labels: the same push resolves the previous alert.
    let mut changed = delivery(DueMessage::Open { first: false }, &open());
    changed.notification.content.cause = "F9".to_owned();
    changed.previous = end.previous;
    pushes.send(&changed).await;
    let both = receiver.requests()[2].json();
    let causes: Vec<_> = both
        .as_array()
        .unwrap()
        .iter()
        .map(|alert| &alert["labels"]["cause"])
        .collect();
    assert_eq!(causes, [&alert["labels"]["cause"], &json!("F9")]);
    assert!(timestamp(&both[1]["endsAt"]) > jiff::Timestamp::now());
}
