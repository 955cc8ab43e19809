//! `notify`: receivers of notifications, and where pending notifications are persisted.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

use parallax_model::InvalidName;
use parallax_notify::{
    AlertmanagerOptions, EVENTS_RECEIVER, HEARTBEAT_RECEIVER, HeartbeatAddress, HeartbeatOptions,
    NotifyOptions, TestDelivery, TestDeliveryError, WebhookOptions, send_tests,
};
use serde::Deserialize;
use url::Url;

/// Minimum and maximum time between two pushes of firing alerts to an Alertmanager, in seconds. Alerts end after four
/// missed pushes, which must not take too long.
const RESEND_RANGE_S: (u64, u64) = (5, 300);
const DEFAULT_RESEND_S: u64 = 60;
/// Default `job` label: that of scrapes by the `PodMonitor` of the installation.
const DEFAULT_JOB: &str = "parallax/parallax-aggregator";
/// Minimum and maximum time between two heartbeats, in seconds.
const HEARTBEAT_RANGE_S: (u64, u64) = (10, 3_600);
const DEFAULT_HEARTBEAT_S: u64 = 60;
/// Maximum number of receivers of one kind.
const MAX_RECEIVERS: usize = 16;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawNotify {
    config_map: Option<String>,
    events: Option<bool>,
    #[serde(default)]
    webhooks: Vec<RawWebhook>,
    #[serde(default)]
    alertmanagers: Vec<RawAlertmanager>,
    heartbeat: Option<RawHeartbeat>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawHeartbeat {
    url: Option<String>,
    url_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    interval_seconds: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawWebhook {
    name: String,
    url: String,
    secret_file: PathBuf,
    ca_file: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawAlertmanager {
    name: String,
    url: String,
    job: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    resend_seconds: Option<u64>,
}

impl super::Config {
    /// Sends a test notification to each receiver in turn.
    pub async fn send_test_notifications(&self) -> Result<Vec<TestDelivery>, TestDeliveryError> {
        send_tests(&self.notify, self.client.as_ref()).await
    }
}

/// Returns the options; reports invalid fields to `wrong`.
pub(super) fn validate(raw: RawNotify, folder: &Path, wrong: &mut impl FnMut(&str, String)) -> NotifyOptions {
    let config_map = raw.config_map.and_then(|place| {
        let place = place.parse();
        place
            .map_err(|error: InvalidName| wrong("notify.configMap", error.to_string()))
            .ok()
    });
    for (field, found) in [
        ("notify.webhooks", raw.webhooks.len()),
        ("notify.alertmanagers", raw.alertmanagers.len()),
    ] {
        if found > MAX_RECEIVERS {
            wrong(field, format!("expected at most {MAX_RECEIVERS}, found {found}"));
        }
    }
    let mut names = BTreeSet::from([EVENTS_RECEIVER, HEARTBEAT_RECEIVER].map(str::to_owned));
    let mut webhooks = Vec::new();
    for (i, webhook) in raw.webhooks.into_iter().enumerate() {
        let at = format!("notify.webhooks[{i}]");
        validate_name(&webhook.name, &at, &mut names, wrong);
        let secret_file = folder.join(webhook.secret_file);
        match std::fs::read_to_string(&secret_file) {
            Ok(text) => {
                if let Err(error) = parallax_notify::check_secret(&text) {
                    wrong(&format!("{at}.secretFile"), error);
                }
            }
            Err(error) => wrong(
                &format!("{at}.secretFile"),
                format!("cannot read {}: {error}", secret_file.display()),
            ),
        }
        let url = validate_url(&webhook.url, true, &at, wrong);
        let ca_file = webhook.ca_file.map(|file| folder.join(file));
        check_readable(ca_file.as_deref(), &format!("{at}.caFile"), wrong);
        webhooks.extend(url.map(|url| WebhookOptions {
            name: webhook.name,
            url,
            secret_file,
            ca_file,
        }));
    }
    let mut alertmanagers = Vec::new();
    for (i, raw) in raw.alertmanagers.into_iter().enumerate() {
        let at = format!("notify.alertmanagers[{i}]");
        validate_name(&raw.name, &at, &mut names, wrong);
        let (low, high) = RESEND_RANGE_S;
        let resend = raw.resend_seconds.unwrap_or(DEFAULT_RESEND_S);
        if !(low..=high).contains(&resend) {
            wrong(
                &format!("{at}.resendSeconds"),
                format!("expected {low} to {high} seconds, found {resend}"),
            );
        }
        for label in raw.labels.keys() {
            let reserved =
                ["alertname", "job", "incident", "cause", "severity", "subject"].contains(&label.as_str());
            if !is_label_name(label) || reserved {
                wrong(
                    &format!("{at}.labels.{label}"),
                    "expected the name of a label such as cluster, but none that alerts already have: alertname, job, incident, cause, severity, subject".to_owned(),
                );
            }
        }
        let url = validate_url(&raw.url, false, &at, wrong);
        let file = |file: Option<PathBuf>| file.map(|file| folder.join(file));
        let (token_file, ca_file) = (file(raw.token_file), file(raw.ca_file));
        check_readable(token_file.as_deref(), &format!("{at}.tokenFile"), wrong);
        check_readable(ca_file.as_deref(), &format!("{at}.caFile"), wrong);
        alertmanagers.extend(url.map(|url| AlertmanagerOptions {
            name: raw.name,
            url,
            job: raw.job.unwrap_or_else(|| DEFAULT_JOB.to_owned()),
            labels: raw.labels,
            token_file,
            ca_file,
            resend_interval: Duration::from_secs(resend),
        }));
    }
    NotifyOptions {
        outbox_config_map: config_map,
        events: raw.events == Some(true),
        webhooks,
        alertmanagers,
        heartbeat: raw
            .heartbeat
            .and_then(|raw| validate_heartbeat(raw, folder, wrong)),
    }
}

fn validate_heartbeat(
    raw: RawHeartbeat,
    folder: &Path,
    wrong: &mut impl FnMut(&str, String),
) -> Option<HeartbeatOptions> {
    let (low, high) = HEARTBEAT_RANGE_S;
    let interval = raw.interval_seconds.unwrap_or(DEFAULT_HEARTBEAT_S);
    if !(low..=high).contains(&interval) {
        wrong(
            "notify.heartbeat.intervalSeconds",
            format!("expected {low} to {high} seconds, found {interval}"),
        );
    }
    let ca_file = raw.ca_file.map(|file| folder.join(file));
    check_readable(ca_file.as_deref(), "notify.heartbeat.caFile", wrong);
    let address = match (raw.url, raw.url_file) {
        (Some(url), None) => HeartbeatAddress::Url(validate_url(&url, true, "notify.heartbeat", wrong)?),
        (None, Some(file)) => {
            let file = folder.join(file);
            if let Err(reason) = parallax_notify::read_heartbeat_address(&file) {
                wrong("notify.heartbeat.urlFile", reason);
            }
            HeartbeatAddress::File(file)
        }
        (Some(_), Some(_)) | (None, None) => {
            wrong("notify.heartbeat", "expected either url or urlFile".to_owned());
            return None;
        }
    };
    Some(HeartbeatOptions {
        address,
        ca_file,
        interval: Duration::from_secs(interval),
    })
}

/// Validates a receiver's name, which is a metric label and a key of persisted state.
fn validate_name(name: &str, at: &str, known: &mut BTreeSet<String>, wrong: &mut impl FnMut(&str, String)) {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if !(1..=40).contains(&name.len()) || !name.bytes().all(plain) {
        wrong(
            &format!("{at}.name"),
            format!("expected a name of 1 to 40 characters from a-z, 0-9 and -, found {name:?}"),
        );
    } else if !known.insert(name.to_owned()) {
        wrong(
            &format!("{at}.name"),
            format!(
                "expected a name that no other receiver has ({EVENTS_RECEIVER} and {HEARTBEAT_RECEIVER} are reserved), found {name:?}"
            ),
        );
    }
}

/// Parses the URL of a receiver; `query` permits a query. Credentials and fragments are rejected, because they would
/// end up in logs.
///
/// # Errors
/// Says what was expected, without quoting the text, which may contain a secret.
fn parse_receiver_url(text: &str, query: bool) -> Result<Url, &'static str> {
    Url::parse(text)
        .ok()
        .filter(|url| {
            matches!(url.scheme(), "http" | "https")
                && url.has_host()
                && url.username().is_empty()
                && url.password().is_none()
                && url.fragment().is_none()
                && (query || url.query().is_none())
        })
        .ok_or(
            "expected an address like https://calls.example.com/parallax, without credentials or a fragment",
        )
}

fn validate_url(text: &str, query: bool, at: &str, wrong: &mut impl FnMut(&str, String)) -> Option<Url> {
    parse_receiver_url(text, query)
        .map_err(|reason| wrong(&format!("{at}.url"), reason.to_owned()))
        .ok()
}

fn check_readable(file: Option<&Path>, field: &str, wrong: &mut impl FnMut(&str, String)) {
    if let Some(file) = file
        && let Err(error) = std::fs::read(file)
    {
        wrong(field, format!("cannot read {}: {error}", file.display()));
    }
}

/// Reports whether a text is a label name of Prometheus.
fn is_label_name(name: &str) -> bool {
    let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(begins) && name.chars().all(|c| begins(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(yaml: &str) -> (NotifyOptions, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join("secret"),
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n",
        )
        .unwrap();
        std::fs::write(folder.path().join("weak"), "1234").unwrap();
        let mut complaints = Vec::new();
        let raw = serde_saphyr::from_str(yaml).unwrap();
        let options = validate(raw, folder.path(), &mut |field, message| {
            complaints.push(format!("{field}: {message}"));
        });
        (options, complaints)
    }

    #[test]
    fn receivers_of_each_sort_are_read_with_their_defaults() {
        let (options, complaints) = read(
            "configMap: parallax/parallax-notifications\nevents: true\n\
             webhooks: [{name: oncall, url: 'https://calls.example.test/hook?team=a', secretFile: secret}]\n\
             alertmanagers: [{name: main, url: 'http://alertmanager.monitoring:9093/am', labels: {cluster: a}}]\n",
        );
        assert_eq!(complaints, Vec::<String>::new());
        assert!(options.events && options.needs_cluster() && !options.is_empty());
        assert!(options.webhooks[0].secret_file.ends_with("secret"));
        assert_eq!(options.alertmanagers[0].resend_interval, Duration::from_mins(1));
        assert_eq!(options.alertmanagers[0].job, "parallax/parallax-aggregator");
        assert!(read("{}").0.is_empty(), "there are no receivers by default");
    }

    #[test]
    fn errors_name_the_field_and_reveal_no_secret() {
        for (wrong, expected) in [
            (
                "webhooks: [{name: A, url: 'https://a.test/', secretFile: secret}]",
                "notify.webhooks[0].name: expected a name of 1 to 40",
            ),
            (
                "webhooks: [{name: events, url: 'https://a.test/', secretFile: secret}]",
                "notify.webhooks[0].name: expected a name that no other",
            ),
            (
                "webhooks: [{name: a, url: 'https://me:hunter2@a.test/', secretFile: secret}]",
                "notify.webhooks[0].url: expected an address like",
            ),
            (
                "webhooks: [{name: a, url: 'ftp://a.test/', secretFile: secret}]",
                "notify.webhooks[0].url: expected an address like",
            ),
            (
                "webhooks: [{name: a, url: 'https://a.test/', secretFile: nowhere}]",
                "notify.webhooks[0].secretFile: cannot read ",
            ),
            (
                "webhooks: [{name: a, url: 'https://a.test/', secretFile: weak}]",
                "notify.webhooks[0].secretFile: expected a secret of at least 16 bytes",
            ),
            (
                "alertmanagers: [{name: a, url: 'http://a.test/', resendSeconds: 900}]",
                "notify.alertmanagers[0].resendSeconds: expected 5 to 300 seconds, found 900",
            ),
            (
                "alertmanagers: [{name: a, url: 'http://a.test/', labels: {severity: high}}]",
                "notify.alertmanagers[0].labels.severity: expected the name of a label",
            ),
            (
                "alertmanagers: [{name: a, url: 'http://a.test/', caFile: nowhere}]",
                "notify.alertmanagers[0].caFile: cannot read ",
            ),
            ("configMap: nowhere", "notify.configMap: "),
            (
                "heartbeat: {}",
                "notify.heartbeat: expected either url or urlFile",
            ),
            (
                "heartbeat: {url: 'https://a.test/', intervalSeconds: 5}",
                "notify.heartbeat.intervalSeconds: expected 10 to 3600 seconds, found 5",
            ),
            ("heartbeat: {urlFile: weak}", "notify.heartbeat.urlFile: "),
        ] {
            let (_, complaints) = read(wrong);
            assert_eq!(complaints.len(), 1, "{wrong}: {complaints:?}");
            assert!(complaints[0].starts_with(expected), "{complaints:?}");
            assert!(
                !complaints[0].contains("hunter2") && !complaints[0].contains("1234"),
                "{complaints:?}"
            );
        }
    }
}
