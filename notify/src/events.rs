//! Kubernetes Events on the objects that an incident affects, shown by `kubectl describe`.
//!
//! An Event is named after its content, so writing it twice creates one Event. While the incident is open the Event is
//! a series, whose count and time are renewed before the API server deletes it.

use std::{fmt::Write as _, time::Duration};

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
};
use parallax_kubernetes::{api_client::ApiClient, object_key::ObjectKey};
use ring::digest;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    alertmanager::format_targets,
    content::truncate,
    http::{DeliveryOutcome, error_chain},
    notification::{DueMessage, Notification, NotificationEnding, NotificationPhase},
    objects::{EventObjectKind, ObjectReference},
    outbox::Delivery,
};

/// Time between two renewals of an Event: the API server deletes Events after an hour by default.
pub(super) const SERIES_RENEWAL_INTERVAL: Duration = Duration::from_mins(25);
/// Timeout of one API call.
const API_SERVER_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum length of a note, in bytes.
const MAX_NOTE_BYTES: usize = 1_000;
/// The namespace of Events on cluster-scoped objects.
const CLUSTER_SCOPED_NAMESPACE: &str = "default";
/// `reportingController` of the Events.
const REPORTING_CONTROLLER: &str = "parallax.dev/aggregator";

/// Writes Events.
#[derive(Debug)]
pub(super) struct EventWriter {
    client: ApiClient,
    /// `reportingInstance`: the name of this replica.
    reporting_instance: String,
}

/// Why an Event was not written.
enum EventError {
    /// The object or its namespace no longer exists.
    ObjectGone,
    Retry(String),
    Refused(String),
}

impl EventWriter {
    pub(super) fn new(client: ApiClient, instance: &str) -> Self {
        let instance = if instance.is_empty() {
            "parallax-aggregator"
        } else {
            instance
        };
        Self {
            client,
            reporting_instance: truncate(instance, 120),
        }
    }

    pub(super) async fn send(&self, delivery: &Delivery) -> DeliveryOutcome {
        let mut refused = None;
        for object in &delivery.notification.content.objects {
            let done = match delivery.message {
                DueMessage::Reminder => self.renew_series(delivery, object).await,
                DueMessage::Open { .. } | DueMessage::Recovered => self.write_event(delivery, object).await,
            };
            match done {
                Ok(()) | Err(EventError::ObjectGone) => {}
                Err(EventError::Retry(reason)) => return DeliveryOutcome::retry(reason),
                Err(EventError::Refused(reason)) => refused = Some(reason),
            }
        }
        match refused {
            Some(reason) => DeliveryOutcome::Rejected { why: reason },
            None => DeliveryOutcome::Delivered(Value::Null),
        }
    }

    /// Writes an Event on the `ConfigMap` of notifications, which every installation with Events has.
    pub(super) async fn send_test(&self, place: Option<&ObjectKey>) -> DeliveryOutcome {
        let Some(place) = place else {
            return DeliveryOutcome::Rejected {
                why: "a test Event needs an object: set notify.configMap".to_owned(),
            };
        };
        let object = ObjectReference {
            kind: EventObjectKind::ConfigMap,
            namespace: place.namespace.to_string(),
            name: place.name.to_string(),
        };
        let now = Timestamp::now();
        let content = EventContent {
            name: event_name(&object, &format!("test {}", now.as_microsecond())),
            at: now,
            reason: "NotificationTest",
            event_type: "Normal",
            note: "This is a test message from `parallax notify test`; nothing is wrong.".to_owned(),
        };
        match self.create_event(&object, None, content).await {
            Ok(()) => DeliveryOutcome::Delivered(Value::Null),
            Err(EventError::ObjectGone) => DeliveryOutcome::Rejected {
                why: format!("the namespace {} does not exist", object.namespace),
            },
            Err(EventError::Retry(why)) => DeliveryOutcome::retry(why),
            Err(EventError::Refused(why)) => DeliveryOutcome::Rejected { why },
        }
    }

    async fn write_event(&self, delivery: &Delivery, object: &ObjectReference) -> Result<(), EventError> {
        let uid = self.object_uid(object).await?;
        self.create_event(object, uid, EventContent::from_delivery(delivery, object))
            .await
    }

    async fn create_event(
        &self,
        object: &ObjectReference,
        uid: Option<String>,
        content: EventContent,
    ) -> Result<(), EventError> {
        let space = event_namespace(object);
        let event = json!({
            "metadata": {"name": content.name, "namespace": space,
                "labels": {"app.kubernetes.io/name": "parallax", "app.kubernetes.io/managed-by": "parallax"}},
            "eventTime": format_micro_time(content.at),
            "reportingController": REPORTING_CONTROLLER,
            "reportingInstance": self.reporting_instance,
            "action": "Notify",
            "reason": content.reason,
            "type": content.event_type,
            "regarding": {"apiVersion": api_version(object.kind), "kind": object.kind.kind_name(), "name": object.name,
                "namespace": (!object.namespace.is_empty()).then_some(&object.namespace), "uid": uid},
            "note": content.note,
        });
        let event: Event =
            serde_json::from_value(event).map_err(|error| EventError::Refused(error_chain(&error)))?;
        let api = Api::<Event>::namespaced(self.client.0.clone(), space);
        match with_timeout("create", api.create(&PostParams::default(), &event)).await {
            // This replica or the previous leader has written it already.
            Err(EventError::Refused(reason)) if reason.starts_with(CONFLICT_PREFIX) => Ok(()),
            done => done.map(drop),
        }
    }

    /// Renews the series, or writes the Event again if the API server has deleted it.
    async fn renew_series(&self, delivery: &Delivery, object: &ObjectReference) -> Result<(), EventError> {
        let content = EventContent::from_delivery(delivery, object);
        let series = json!({"series": {
            "count": delivery.notification.reminders.saturating_add(2),
            "lastObservedTime": format_micro_time(Timestamp::now()),
        }});
        let api = Api::<Event>::namespaced(self.client.0.clone(), event_namespace(object));
        let (params, series) = (PatchParams::default(), Patch::Merge(series));
        match with_timeout("patch", api.patch(&content.name, &params, &series)).await {
            Err(EventError::ObjectGone) => self.write_event(delivery, object).await,
            done => done.map(drop),
        }
    }

    /// The UID that distinguishes the object from an earlier one of the same name; `kubectl describe` selects Events
    /// by it. Only for kinds that the aggregator may list.
    async fn object_uid(&self, object: &ObjectReference) -> Result<Option<String>, EventError> {
        if matches!(object.kind, EventObjectKind::Pod | EventObjectKind::ConfigMap) {
            return Ok(None);
        }
        let gvk = GroupVersionKind::gvk(object.kind.group(), "v1", object.kind.kind_name());
        let resource = ApiResource::from_gvk_with_plural(&gvk, object.kind.plural());
        let api: Api<DynamicObject> = if object.namespace.is_empty() {
            Api::all_with(self.client.0.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.0.clone(), &object.namespace, &resource)
        };
        let named = ListParams::default().fields(&format!("metadata.name={}", object.name));
        let found = with_timeout("list", api.list(&named)).await?;
        let own = found
            .items
            .into_iter()
            .find(|item| item.metadata.name.as_deref() == Some(object.name.as_str()));
        // `kubectl describe` cannot show an object that no longer exists.
        own.map_or(Err(EventError::ObjectGone), |item| Ok(item.metadata.uid))
    }
}

/// Prefix of the error that means that the Event exists.
const CONFLICT_PREFIX: &str = "conflict";

async fn with_timeout<T>(
    verb: &'static str,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, EventError> {
    match timeout(API_SERVER_TIMEOUT, call).await {
        Err(_) => Err(EventError::Retry("the API server does not respond".to_owned())),
        Ok(Ok(value)) => Ok(value),
        Ok(Err(kube::Error::Api(status))) => {
            let message = truncate(&status.message, 200);
            Err(match status.code {
                409 => EventError::Refused(format!("{CONFLICT_PREFIX}: {message}")),
                404 => EventError::ObjectGone,
                // A namespace that is being deleted accepts no new Events.
                403 if message.contains("being terminated") => EventError::ObjectGone,
                401 | 403 => EventError::Retry(format!(
                    "permission denied: the aggregator cannot {verb}: {message}; apply the manifests with `events: true`"
                )),
                400 | 422 => EventError::Refused(format!("the API server rejects the Event: {message}")),
                _ => EventError::Retry(format!(
                    "the API server responded with status {}: {message}",
                    status.code
                )),
            })
        }
        Ok(Err(error)) => Err(EventError::Retry(error_chain(&error))),
    }
}

/// The content of one Event.
struct EventContent {
    name: String,
    at: Timestamp,
    reason: &'static str,
    event_type: &'static str,
    note: String,
}

impl EventContent {
    fn from_delivery(delivery: &Delivery, object: &ObjectReference) -> Self {
        let notification = &delivery.notification;
        let over = delivery.message == DueMessage::Recovered;
        let first =
            notification.revision == 1 || matches!(delivery.message, DueMessage::Open { first: true });
        Self {
            name: event_name(object, &notification.message_id()),
            at: Timestamp::from_microsecond(notification.changed_at.0).unwrap_or_else(|_| Timestamp::now()),
            reason: match (over, first) {
                (true, _) => "IncidentRecovered",
                (false, true) => "IncidentOpened",
                (false, false) => "IncidentChanged",
            },
            event_type: if over { "Normal" } else { "Warning" },
            note: format_note(notification, over),
        }
    }
}

fn format_note(notification: &Notification, over: bool) -> String {
    let content = &notification.content;
    let ending = match notification.phase {
        NotificationPhase::Ended {
            ending: NotificationEnding::Unobserved,
            ..
        } => "Recovered; the end was not observed: ",
        _ if over => "Recovered: ",
        _ => "",
    };
    let mut note = format!(
        "{ending}{}. {}.",
        content.headline,
        truncate(&content.sentence, 400)
    );
    if content.targets_total > 0 {
        let few = &content.targets[..content.targets.len().min(3)];
        // Writing into a string cannot fail, here and below.
        let _ = write!(note, " Targets: {}.", format_targets(few, content.targets_total));
    }
    if content.consequences_total > 0 {
        let few = &content.consequences[..content.consequences.len().min(3)];
        let _ = write!(note, " Consequences: {}", few.join("; "));
        let more = content.consequences_total - few.len();
        let _ = match more {
            0 => write!(note, "."),
            more => write!(note, "; {more} more."),
        };
    }
    let more = content.objects_total.saturating_sub(content.objects.len());
    if more > 0 {
        let _ = write!(note, " {more} more objects are affected.");
    }
    let _ = write!(note, " parallax explain {}", content.incident);
    truncate(&note, MAX_NOTE_BYTES)
}

/// A name that is the same for the same object and content.
fn event_name(object: &ObjectReference, words: &str) -> String {
    let all = format!(
        "{} {} {} {words}",
        object.kind.kind_name(),
        object.namespace,
        object.name
    );
    let tag = digest::digest(&digest::SHA256, all.as_bytes());
    let begin = truncate(&object.name, 200);
    format!(
        "{}.{}",
        begin.trim_end_matches(['.', '-', '…']),
        HEXLOWER.encode(&tag.as_ref()[..8])
    )
}

fn event_namespace(object: &ObjectReference) -> &str {
    if object.namespace.is_empty() {
        CLUSTER_SCOPED_NAMESPACE
    } else {
        &object.namespace
    }
}

fn api_version(kind: EventObjectKind) -> String {
    match kind.group() {
        "" => "v1".to_owned(),
        group => format!("{group}/v1"),
    }
}

/// Formats a `MicroTime` of the API server.
fn format_micro_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
