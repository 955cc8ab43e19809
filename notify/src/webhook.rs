//! Signed messages per the Standard Webhooks specification: the signature proves the sender, and the signed timestamp
//! prevents replays.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use parallax_model::EventTime;
use reqwest::Client;
use ring::hmac;
use serde_json::{Value, json};

use super::{
    WebhookOptions,
    http::{self, DeliveryOutcome},
    notification::{DueMessage, Notification, NotificationEnding, NotificationPhase},
    outbox::Delivery,
};

/// Prefix of a secret that is base64-encoded.
const SECRET_PREFIX: &str = "whsec_";
/// Minimum length of a secret in bytes.
const MIN_SECRET_BYTES: usize = 16;

/// Sends messages to one URL.
#[derive(Debug)]
pub(super) struct WebhookClient {
    options: WebhookOptions,
    http: Client,
}

impl WebhookClient {
    pub(super) fn new(options: WebhookOptions) -> Result<Self, String> {
        let http = http::build_client(options.ca_file.as_deref())?;
        Ok(Self { options, http })
    }

    pub(super) async fn send_delivery(&self, delivery: &Delivery) -> DeliveryOutcome {
        let notification = &delivery.notification;
        let body = message_body(notification, delivery.message).to_string();
        self.send(&notification.message_id(), body).await
    }

    /// Sends a message that is marked as a test.
    pub(super) async fn send_test(&self) -> DeliveryOutcome {
        let now = Timestamp::now();
        let body = json!({"type": "test", "timestamp": now.to_string(),
            "data": {"test": true, "sentence": "This is a test message from `parallax notify test`; nothing is wrong."}});
        self.send(&format!("msg_test_{}", now.as_microsecond()), body.to_string())
            .await
    }

    async fn send(&self, id: &str, body: String) -> DeliveryOutcome {
        let secret = http::read_trimmed(&self.options.secret_file).and_then(|text| {
            parse_keys(&text).map_err(|error| format!("{}: {error}", self.options.secret_file.display()))
        });
        let keys = match secret {
            Ok(keys) => keys,
            Err(reason) => return DeliveryOutcome::retry(reason),
        };
        let at = Timestamp::now().as_second().to_string();
        let request = self
            .http
            .post(self.options.url.clone())
            .header("content-type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", &at)
            .header("webhook-signature", signatures(&keys, id, &at, &body))
            .body(body);
        http::send(request).await
    }
}

/// One signature per key, so that a receiver with either key can verify the message during a rotation.
fn signatures(keys: &[hmac::Key], id: &str, at: &str, body: &str) -> String {
    let signed = format!("{id}.{at}.{body}");
    let all: Vec<String> = keys
        .iter()
        .map(|key| format!("v1,{}", STANDARD.encode(hmac::sign(key, signed.as_bytes()))))
        .collect();
    all.join(" ")
}

/// Parses the keys of a secret file, one per line: `whsec_` and base64, or plain text.
pub(crate) fn parse_keys(text: &str) -> Result<Vec<hmac::Key>, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let keys: Vec<hmac::Key> = lines.map(parse_key).collect::<Result<_, _>>()?;
    match keys.len() {
        1..=2 => Ok(keys),
        found => Err(format!(
            "expected one secret, or two during a rotation, one per line; found {found}"
        )),
    }
}

fn parse_key(line: &str) -> Result<hmac::Key, String> {
    let bytes = match line.strip_prefix(SECRET_PREFIX) {
        Some(encoded) => STANDARD
            .decode(encoded)
            .map_err(|_| format!("expected base64 after {SECRET_PREFIX}"))?,
        None => line.as_bytes().to_vec(),
    };
    if bytes.len() < MIN_SECRET_BYTES {
        return Err(format!(
            "expected a secret of at least {MIN_SECRET_BYTES} bytes, found {}",
            bytes.len()
        ));
    }
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

/// The body of a message.
fn message_body(notification: &Notification, message: DueMessage) -> Value {
    let content = &notification.content;
    let (sort, first) = match message {
        DueMessage::Open { first: true } => ("incident.opened", true),
        DueMessage::Open { first: false } | DueMessage::Reminder => ("incident.changed", false),
        DueMessage::Recovered => ("incident.recovered", false),
    };
    let (state, closed, ending) = match notification.phase {
        NotificationPhase::Open => ("open", None, None),
        NotificationPhase::Ended {
            at,
            ending: ending_kind,
        } => ("closed", Some(format_time(at)), Some(ending_kind)),
    };
    let mut data = json!({
        "incident": content.incident,
        "thread": notification.thread,
        "number": notification.revision,
        "occurrence": content.occurrence,
        "first": first,
        "state": state,
        "severity": content.severity.label(),
        "cause": {"id": content.cause, "title": content.title},
        "subject": content.subject,
        "region": content.region,
        "headline": content.headline,
        "sentence": content.sentence,
        "probability": content.probability,
        "since": format_time(content.since),
        "opened": format_time(content.opened),
        "targets": content.targets,
        "targets_total": content.targets_total,
        "consequences": content.consequences,
        "consequences_total": content.consequences_total,
        "links": {},
    });
    let mut add = |field: &str, value: Option<Value>| {
        if let Some(value) = value {
            data[field] = value;
        }
    };
    add("closed", closed.map(Value::from));
    add(
        "ending",
        ending.map(|ending_kind| match ending_kind {
            NotificationEnding::Judged => "judged".into(),
            NotificationEnding::Unobserved => "unobserved".into(),
        }),
    );
    add(
        "remedy",
        content.remedy.as_ref().map(
            |remedy| json!({"action": remedy.action, "command": remedy.command, "price": remedy.trade_off}),
        ),
    );
    if let Some(page) = &content.page {
        data["links"]["page"] = page.as_str().into();
    }
    if let Some(dashboard) = &content.dashboard {
        data["links"]["dashboard"] = dashboard.as_str().into();
    }
    json!({"type": sort, "timestamp": format_time(notification.changed_at), "data": data})
}

/// Formats a time per RFC 3339.
pub(super) fn format_time(at: EventTime) -> String {
    Timestamp::from_microsecond(at.0).map_or_else(|_| at.0.to_string(), |at| at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_specification() {
        // The test vector of the specification's reference implementations.
        let keys = parse_keys("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = signatures(
            &keys,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "1614265330",
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn two_secrets_sign_both_and_a_short_or_broken_one_signs_nothing() {
        let both =
            parse_keys("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n\na plain text of some length\n").unwrap();
        let signed = signatures(&both, "a", "1", "{}");
        assert_eq!(signed.split(' ').count(), 2, "{signed}");
        for wrong in [
            "",
            "short",
            "whsec_%%%%",
            "whsec_c2hvcnQ=",
            "a-long-enough-text\nb-long-enough-text\nc-long-enough-text",
        ] {
            let error = parse_keys(wrong).map(|keys| keys.len()).unwrap_err();
            assert!(error.starts_with("expected "), "{error}");
            assert!(
                !error.contains("c2hvcnQ"),
                "the error contains the secret: {error}"
            );
        }
    }
}
