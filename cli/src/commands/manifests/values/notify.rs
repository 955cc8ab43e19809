//! The value `notify`: receivers of incident notifications.

use std::collections::BTreeSet;

use parallax_aggregator::parse_receiver_url;
use url::Url;

use super::{check::ValueProblems, raw::RawNotify};

/// The file of the heartbeat's address. No receiver has this name.
pub(in crate::commands::manifests) const HEARTBEAT_FILE: &str = "heartbeat";

/// Receivers of incident notifications; none by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::commands::manifests) struct NotifyValues {
    pub(in crate::commands::manifests) events: bool,
    pub(in crate::commands::manifests) webhooks: Vec<WebhookValues>,
    pub(in crate::commands::manifests) alertmanagers: Vec<(String, Url)>,
    pub(in crate::commands::manifests) heartbeat: Option<HeartbeatValues>,
}

/// The Secret whose key `url` contains the address of the heartbeat, and the port of that address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::commands::manifests) struct HeartbeatValues {
    pub(in crate::commands::manifests) secret: String,
    pub(in crate::commands::manifests) port: u16,
}

/// URL of a webhook, and the Secret whose key `secret` signs the messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::commands::manifests) struct WebhookValues {
    pub(in crate::commands::manifests) name: String,
    pub(in crate::commands::manifests) url: Url,
    pub(in crate::commands::manifests) secret: String,
}

impl NotifyValues {
    pub(super) fn from_raw(raw: RawNotify, check: &mut ValueProblems<'_>) -> Self {
        let mut known = BTreeSet::from(["events", "heartbeat"].map(str::to_owned));
        let mut named = |name: &str, at: &str, check: &mut ValueProblems<'_>| {
            let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            if !(1..=40).contains(&name.len()) || !name.bytes().all(plain) || !known.insert(name.to_owned()) {
                check.add(
                    &format!("{at}.name"),
                    format!("expected a name of 1 to 40 of a-z, 0-9 and - that no other receiver has, found {name:?}"),
                );
            }
        };
        let mut webhooks = Vec::new();
        for (i, raw) in raw.webhooks.into_iter().enumerate() {
            let at = format!("notify.webhooks[{i}]");
            named(&raw.name, &at, check);
            check.name(&format!("{at}.secret"), &raw.secret);
            webhooks.extend(parse_url(&raw.url, true, &at, check).map(|url| WebhookValues {
                name: raw.name,
                url,
                secret: raw.secret,
            }));
        }
        let mut alertmanagers = Vec::new();
        for (i, raw) in raw.alertmanagers.into_iter().enumerate() {
            let at = format!("notify.alertmanagers[{i}]");
            named(&raw.name, &at, check);
            alertmanagers.extend(parse_url(&raw.url, false, &at, check).map(|url| (raw.name, url)));
        }
        let heartbeat = raw.heartbeat.map(|raw| {
            check.name("notify.heartbeat.secret", &raw.secret);
            HeartbeatValues {
                secret: raw.secret,
                port: raw.port.unwrap_or(443),
            }
        });
        Self {
            events: raw.events.unwrap_or(false),
            webhooks,
            alertmanagers,
            heartbeat,
        }
    }

    /// Reports whether there is no receiver.
    pub(in crate::commands::manifests) fn is_empty(&self) -> bool {
        !self.events && self.webhooks.is_empty() && self.alertmanagers.is_empty()
    }

    /// Returns the mounted Secrets: name, key and the file in the mount.
    pub(in crate::commands::manifests) fn secrets(&self) -> Vec<(&str, &'static str, &str)> {
        let webhooks = self.webhooks.iter();
        let webhooks = webhooks.map(|webhook| (webhook.secret.as_str(), "secret", webhook.name.as_str()));
        let heartbeat = self.heartbeat.iter();
        let heartbeat = heartbeat.map(|heartbeat| (heartbeat.secret.as_str(), "url", HEARTBEAT_FILE));
        webhooks.chain(heartbeat).collect()
    }

    /// Returns the ports of the HTTP receivers.
    pub(in crate::commands::manifests) fn ports(&self) -> BTreeSet<u16> {
        let webhooks = self.webhooks.iter().map(|webhook| &webhook.url);
        let all = webhooks.chain(self.alertmanagers.iter().map(|(_, url)| url));
        let heartbeat = self.heartbeat.iter().map(|heartbeat| heartbeat.port);
        all.filter_map(Url::port_or_known_default)
            .chain(heartbeat)
            .collect()
    }
}

fn parse_url(text: &str, query: bool, at: &str, check: &mut ValueProblems<'_>) -> Option<Url> {
    let at = format!("{at}.url");
    if text.contains('\'') {
        check.add(
            &at,
            "expected a URL without single quotes, because it is rendered between single quotes".to_owned(),
        );
        return None;
    }
    parse_receiver_url(text, query)
        .map_err(|reason| check.add(&at, reason.to_owned()))
        .ok()
}
