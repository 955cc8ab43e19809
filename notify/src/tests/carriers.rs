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
    receiver::{Answer, Receiver, SECRET},
    *,
};

fn errand(what: DueMessage, view: &View) -> Delivery {
    let mut outbox = Outbox::default();
    look_at(&mut outbox, &open(), NOW, false, 0);
    look_at(&mut outbox, view, NOW, false, 0);
    Delivery {
        letter: outbox.letters.into_values().next().unwrap(),
        what,
        heard: None,
    }
}

const FIRST: DueMessage = DueMessage::Open { first: true };

fn provider() {
    // A second call finds a provider installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

async fn said(receiver: &Receiver) -> DeliveryOutcome {
    provider();
    WebhookClient::new(receiver.webhook())
        .unwrap()
        .carry(&errand(FIRST, &open()))
        .await
}

fn later(outcome: &DeliveryOutcome) -> &str {
    match outcome {
        DeliveryOutcome::Later { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_message_says_what_failed_and_how_many_are_concerned() {
    let receiver = Receiver::answering([]).await;
    assert_eq!(said(&receiver).await, DeliveryOutcome::Delivered(Value::Null));
    let heard = &receiver.now()[0];
    assert_eq!(heard.path, "/hook?team=a");
    let body = heard.json();
    let incident = &open().incidents[0];
    assert_eq!(body["type"], "incident.opened");
    let data = &body["data"];
    assert_eq!(data["incident"], incident.id.as_str());
    assert_eq!(data["sentence"], incident.verdict.sentence.as_str());
    assert_eq!(data["targets"].as_array().unwrap().len(), 10);
    assert_eq!(data["targets_total"], incident.verdict.targets.len());
    assert_eq!(data["severity"], "critical");
    assert!(data["opened"].as_str().unwrap().ends_with('Z'), "{data}");
    assert_eq!(heard.header("webhook-id"), format!("msg_{}_1_1", incident.id));
    let over = errand(DueMessage::Over, &over());
    let webhook = WebhookClient::new(receiver.webhook()).unwrap();
    assert!(matches!(
        webhook.carry(&over).await,
        DeliveryOutcome::Delivered(_)
    ));
    let body = receiver.now()[1].json();
    assert_eq!(
        (&body["type"], &body["data"]["ending"]),
        (&json!("incident.recovered"), &json!("judged"))
    );
    assert!(body["data"]["closed"].is_string());
}

/// The code block of this language in docs/use/notifications.md.
fn documented(language: &str) -> String {
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
    let receiver = Receiver::answering([]).await;
    said(&receiver).await;
    let heard = receiver.now().remove(0);
    let folder = tempfile::tempdir().unwrap();
    let (script, body) = (folder.path().join("verify.py"), folder.path().join("body"));
    std::fs::write(&script, documented("python")).unwrap();
    let verify = |text: &str, secret: &str| {
        std::fs::write(&body, text).unwrap();
        let run = std::process::Command::new("python3")
            .arg(&script)
            .args([
                secret,
                heard.header("webhook-id"),
                heard.header("webhook-timestamp"),
                heard.header("webhook-signature"),
            ])
            .stdin(std::fs::File::open(&body).unwrap())
            .output()
            .expect("python3 runs the script of the page");
        (
            run.status.success(),
            String::from_utf8_lossy(&run.stdout).trim().to_owned(),
        )
    };
    assert_eq!(verify(&heard.body, SECRET), (true, "genuine".to_owned()));
    assert_eq!(
        verify(&heard.body.replace("critical", "harmless"), SECRET),
        (false, "forged".to_owned())
    );
    assert_eq!(
        verify(&heard.body, "whsec_YW5vdGhlciBzZWNyZXQgb2YgdGhlbQ=="),
        (false, "forged".to_owned())
    );

    std::fs::write(&body, &heard.body).unwrap();
    let shell = std::process::Command::new("sh")
        .arg("-c")
        .arg(documented("sh"))
        .env("SECRET", SECRET)
        .env("ID", heard.header("webhook-id"))
        .env("TIMESTAMP", heard.header("webhook-timestamp"))
        .env("BODY", &body)
        .output()
        .unwrap();
    let signed = String::from_utf8_lossy(&shell.stdout).trim().to_owned();
    assert_eq!(
        signed,
        heard.header("webhook-signature"),
        "{}",
        String::from_utf8_lossy(&shell.stderr)
    );
}

#[tokio::test]
async fn an_answer_decides_whether_it_is_said_again() {
    for code in [408, 429, 500, 502, 503, 504] {
        let receiver = Receiver::answering([Answer::Status(code)]).await;
        let outcome = said(&receiver).await;
        assert!(
            later(&outcome).starts_with(&format!("the receiver responded with status {code}")),
            "{outcome:?}"
        );
    }
    for code in [400, 401, 403, 404, 410, 413, 422] {
        let receiver = Receiver::answering([Answer::Status(code)]).await;
        let outcome = said(&receiver).await;
        let DeliveryOutcome::Refused { why } = &outcome else {
            panic!("{code}: {outcome:?}");
        };
        assert!(
            why.starts_with(&format!("the receiver responded with status {code}")) && !why.contains('\n'),
            "{why}"
        );
    }
    let receiver = Receiver::answering([Answer::With(429, "retry-after", "77".to_owned())]).await;
    let DeliveryOutcome::Later { after, .. } = said(&receiver).await else {
        panic!("expected a retry");
    };
    assert_eq!(after, Some(Duration::from_secs(77)));
    let receiver = Receiver::answering([Answer::With(500, "retry-after", "77".to_owned())]).await;
    let DeliveryOutcome::Later { after, .. } = said(&receiver).await else {
        panic!("expected a retry");
    };
    assert_eq!(after, None, "a failing server's Retry-After is ignored");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Receiver::answering([]).await;
    for code in [301, 302, 307, 308] {
        let to = format!("http://{}/", elsewhere.address);
        let receiver = Receiver::answering([Answer::With(code, "location", to)]).await;
        let outcome = said(&receiver).await;
        assert!(
            matches!(&outcome, DeliveryOutcome::Refused { why } if why.contains("redirects are not followed")),
            "{outcome:?}"
        );
    }
    assert!(elsewhere.now().is_empty());
}

#[tokio::test]
async fn a_receiver_that_is_down_broken_or_no_receiver_is_tried_again_and_no_address_is_said() {
    provider();
    let receiver = Receiver::answering([]).await;
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
    let outcome = at("https").carry(&errand(FIRST, &open())).await;
    assert!(!later(&outcome).contains("hunter2"), "{outcome:?}");
    plain.await.unwrap();
    let outcome = at("http").carry(&errand(FIRST, &open())).await;
    assert!(
        later(&outcome).contains("refused") && !later(&outcome).contains("hunter2"),
        "{outcome:?}"
    );
    std::fs::remove_file(receiver.folder.path().join("secret")).unwrap();
    let outcome = said(&receiver).await;
    assert!(later(&outcome).contains("cannot read"), "{outcome:?}");
    assert!(receiver.now().is_empty(), "nothing is sent unsigned");
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_ends_it_and_one_of_the_ca_file_does_not() {
    use std::sync::Arc;

    use rustls::pki_types::{CertificateDer, PrivateKeyDer};

    provider();
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
    let receiver = Receiver::answering([]).await;
    let ca = receiver.folder.path().join("ca.pem");
    std::fs::write(&ca, own.cert.pem()).unwrap();
    let mut options = receiver.webhook();
    options.url = format!("https://{address}/").parse().unwrap();
    let outcome = WebhookClient::new(options.clone())
        .unwrap()
        .carry(&errand(FIRST, &open()))
        .await;
    assert!(later(&outcome).contains("certificate"), "{outcome:?}");
    options.ca_file = Some(ca);
    let outcome = WebhookClient::new(options)
        .unwrap()
        .carry(&errand(FIRST, &open()))
        .await;
    assert_eq!(outcome, DeliveryOutcome::Delivered(Value::Null));
    serving.abort();
}

#[tokio::test]
async fn a_receiver_that_never_answers_is_left_after_ten_seconds() {
    let receiver = Receiver::answering([Answer::Nothing]).await;
    let begin = std::time::Instant::now();
    let outcome = said(&receiver).await;
    let took = begin.elapsed();
    assert!(matches!(outcome, DeliveryOutcome::Later { .. }), "{outcome:?}");
    assert!((9..15).contains(&took.as_secs()), "{took:?}");
}

fn alertmanager(receiver: &Receiver) -> AlertmanagerClient {
    provider();
    AlertmanagerClient::new(AlertmanagerOptions {
        name: "r".to_owned(),
        url: format!("http://{}/am/", receiver.address).parse().unwrap(),
        job: "parallax/parallax-aggregator".to_owned(),
        labels: [("cluster".to_owned(), "a".to_owned())].into(),
        token_file: Some(receiver.folder.path().join("secret")),
        ca_file: None,
        resend: Duration::from_mins(1),
    })
    .unwrap()
}

fn at(value: &Value) -> jiff::Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn an_alert_has_the_labels_of_the_rules_and_an_end_ahead_while_it_fires_and_behind_when_it_is_over() {
    let receiver = Receiver::answering([]).await;
    let pushes = alertmanager(&receiver);
    let DeliveryOutcome::Delivered(mark) = pushes.carry(&errand(FIRST, &open())).await else {
        panic!("expected a delivery");
    };
    let heard = receiver.now().remove(0);
    assert_eq!(heard.path, "/am/api/v2/alerts");
    assert_eq!(heard.header("authorization"), format!("Bearer {SECRET}"));
    let alert = heard.json()[0].clone();
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
    let ahead = at(&alert["endsAt"])
        .duration_since(jiff::Timestamp::now())
        .as_secs();
    assert!((200..=240).contains(&ahead), "{ahead}");

    // Over: the same labels, and an end in the past.
    let mut end = errand(DueMessage::Over, &over());
    end.heard = Some(DeliveredState {
        number: 1,
        over: false,
        at: NOW,
        mark,
    });
    pushes.carry(&end).await;
    let ended = receiver.now()[1].json();
    assert_eq!(ended.as_array().unwrap().len(), 1);
    assert_eq!(ended[0]["labels"], alert["labels"]);
    assert!(at(&ended[0]["endsAt"]) <= jiff::Timestamp::now().max(at(&ended[0]["startsAt"])));

    // Other labels: the same push resolves the previous alert.
    let mut changed = errand(DueMessage::Open { first: false }, &open());
    changed.letter.content.cause = "F9".to_owned();
    changed.heard = end.heard;
    pushes.carry(&changed).await;
    let both = receiver.now()[2].json();
    let causes: Vec<_> = both
        .as_array()
        .unwrap()
        .iter()
        .map(|alert| &alert["labels"]["cause"])
        .collect();
    assert_eq!(causes, [&alert["labels"]["cause"], &json!("F9")]);
    assert!(at(&both[1]["endsAt"]) > jiff::Timestamp::now());
}
