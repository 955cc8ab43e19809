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
    alertmanager::targets,
    content::clip,
    http::{DeliveryOutcome, chain},
    notification::{DueMessage, Notification, NotificationEnding, NotificationPhase},
    objects::{EventObjectKind, NamedObject},
    outbox::Delivery,
};

/// Time between two renewals of an Event: the API server deletes Events after an hour by default.
pub(super) const AGAIN: Duration = Duration::from_mins(25);
/// Timeout of one API call.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum length of a note, in bytes.
const NOTE: usize = 1_000;
/// The namespace of Events on cluster-scoped objects.
const CLUSTER_SPACE: &str = "default";
/// `reportingController` of the Events.
const CONTROLLER: &str = "parallax.dev/aggregator";

/// Writes Events.
#[derive(Debug)]
pub(super) struct EventWriter {
    client: ApiClient,
    /// `reportingInstance`: the name of this replica.
    instance: String,
}

/// Why an Event was not written.
enum EventError {
    /// The object or its namespace no longer exists.
    Gone,
    Later(String),
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
            instance: clip(instance, 120),
        }
    }

    pub(super) async fn carry(&self, errand: &Delivery) -> DeliveryOutcome {
        let mut refused = None;
        for object in &errand.letter.content.objects {
            let done = match errand.what {
                DueMessage::Again => self.renew(errand, object).await,
                DueMessage::Open { .. } | DueMessage::Over => self.write(errand, object).await,
            };
            match done {
                Ok(()) | Err(EventError::Gone) => {}
                Err(EventError::Later(why)) => return DeliveryOutcome::later(why),
                Err(EventError::Refused(why)) => refused = Some(why),
            }
        }
        match refused {
            Some(why) => DeliveryOutcome::Refused { why },
            None => DeliveryOutcome::Delivered(Value::Null),
        }
    }

    /// Writes an Event on the `ConfigMap` of notifications, which every installation with Events has.
    pub(super) async fn test(&self, place: Option<&ObjectKey>) -> DeliveryOutcome {
        let Some(place) = place else {
            return DeliveryOutcome::Refused {
                why: "a test Event needs an object: set notify.configMap".to_owned(),
            };
        };
        let object = NamedObject {
            kind: EventObjectKind::ConfigMap,
            namespace: place.namespace.to_string(),
            name: place.name.to_string(),
        };
        let now = Timestamp::now();
        let told = EventContent {
            name: name(&object, &format!("test {}", now.as_microsecond())),
            at: now,
            reason: "NotificationTest",
            sort: "Normal",
            note: "This is a test message from `parallax notify test`; nothing is wrong.".to_owned(),
        };
        match self.create(&object, None, told).await {
            Ok(()) => DeliveryOutcome::Delivered(Value::Null),
            Err(EventError::Gone) => DeliveryOutcome::Refused {
                why: format!("the namespace {} does not exist", object.namespace),
            },
            Err(EventError::Later(why)) => DeliveryOutcome::later(why),
            Err(EventError::Refused(why)) => DeliveryOutcome::Refused { why },
        }
    }

    async fn write(&self, errand: &Delivery, object: &NamedObject) -> Result<(), EventError> {
        let uid = self.uid(object).await?;
        self.create(object, uid, EventContent::of(errand, object)).await
    }

    async fn create(
        &self,
        object: &NamedObject,
        uid: Option<String>,
        told: EventContent,
    ) -> Result<(), EventError> {
        let space = space(object);
        let event = json!({
            "metadata": {"name": told.name, "namespace": space,
                "labels": {"app.kubernetes.io/name": "parallax", "app.kubernetes.io/managed-by": "parallax"}},
            "eventTime": micros(told.at),
            "reportingController": CONTROLLER,
            "reportingInstance": self.instance,
            "action": "Notify",
            "reason": told.reason,
            "type": told.sort,
            "regarding": {"apiVersion": version(object.kind), "kind": object.kind.word(), "name": object.name,
                "namespace": (!object.namespace.is_empty()).then_some(&object.namespace), "uid": uid},
            "note": told.note,
        });
        let event: Event =
            serde_json::from_value(event).map_err(|error| EventError::Refused(chain(&error)))?;
        let api = Api::<Event>::namespaced(self.client.0.clone(), space);
        match within("create", api.create(&PostParams::default(), &event)).await {
            // This replica or the previous leader has written it already.
            Err(EventError::Refused(why)) if why.starts_with(CONFLICT) => Ok(()),
            done => done.map(drop),
        }
    }

    /// Renews the series, or writes the Event again if the API server has deleted it.
    async fn renew(&self, errand: &Delivery, object: &NamedObject) -> Result<(), EventError> {
        let told = EventContent::of(errand, object);
        let series = json!({"series": {
            "count": errand.letter.reminders.saturating_add(2),
            "lastObservedTime": micros(Timestamp::now()),
        }});
        let api = Api::<Event>::namespaced(self.client.0.clone(), space(object));
        let (params, series) = (PatchParams::default(), Patch::Merge(series));
        match within("patch", api.patch(&told.name, &params, &series)).await {
            Err(EventError::Gone) => self.write(errand, object).await,
            done => done.map(drop),
        }
    }

    /// The UID that distinguishes the object from an earlier one of the same name; `kubectl describe` selects Events
    /// by it. Only for kinds that the aggregator may list.
    async fn uid(&self, object: &NamedObject) -> Result<Option<String>, EventError> {
        if matches!(object.kind, EventObjectKind::Pod | EventObjectKind::ConfigMap) {
            return Ok(None);
        }
        let gvk = GroupVersionKind::gvk(object.kind.group(), "v1", object.kind.word());
        let resource = ApiResource::from_gvk_with_plural(&gvk, object.kind.plural());
        let api: Api<DynamicObject> = if object.namespace.is_empty() {
            Api::all_with(self.client.0.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.0.clone(), &object.namespace, &resource)
        };
        let named = ListParams::default().fields(&format!("metadata.name={}", object.name));
        let found = within("list", api.list(&named)).await?;
        let own = found
            .items
            .into_iter()
            .find(|item| item.metadata.name.as_deref() == Some(object.name.as_str()));
        // `kubectl describe` cannot show an object that no longer exists.
        own.map_or(Err(EventError::Gone), |item| Ok(item.metadata.uid))
    }
}

/// Prefix of the error that means that the Event exists.
const CONFLICT: &str = "conflict";

async fn within<T>(
    verb: &'static str,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, EventError> {
    match timeout(PATIENCE, call).await {
        Err(_) => Err(EventError::Later("the API server does not respond".to_owned())),
        Ok(Ok(value)) => Ok(value),
        Ok(Err(kube::Error::Api(status))) => {
            let said = clip(&status.message, 200);
            Err(match status.code {
                409 => EventError::Refused(format!("{CONFLICT}: {said}")),
                404 => EventError::Gone,
                // A namespace that is being deleted accepts no new Events.
                403 if said.contains("being terminated") => EventError::Gone,
                401 | 403 => EventError::Later(format!(
                    "permission denied: the aggregator cannot {verb}: {said}; apply the manifests with `events: true`"
                )),
                400 | 422 => EventError::Refused(format!("the API server rejects the Event: {said}")),
                _ => EventError::Later(format!(
                    "the API server responded with status {}: {said}",
                    status.code
                )),
            })
        }
        Ok(Err(error)) => Err(EventError::Later(chain(&error))),
    }
}

/// The content of one Event.
struct EventContent {
    name: String,
    at: Timestamp,
    reason: &'static str,
    sort: &'static str,
    note: String,
}

impl EventContent {
    fn of(errand: &Delivery, object: &NamedObject) -> Self {
        let letter = &errand.letter;
        let over = errand.what == DueMessage::Over;
        let first = letter.number == 1 || matches!(errand.what, DueMessage::Open { first: true });
        Self {
            name: name(object, &letter.message()),
            at: Timestamp::from_microsecond(letter.changed.0).unwrap_or_else(|_| Timestamp::now()),
            reason: match (over, first) {
                (true, _) => "IncidentRecovered",
                (false, true) => "IncidentOpened",
                (false, false) => "IncidentChanged",
            },
            sort: if over { "Normal" } else { "Warning" },
            note: note(letter, over),
        }
    }
}

fn note(letter: &Notification, over: bool) -> String {
    let content = &letter.content;
    let how = match letter.state {
        NotificationPhase::Over {
            how: NotificationEnding::Unseen,
            ..
        } => "Recovered; the end was not observed: ",
        _ if over => "Recovered: ",
        _ => "",
    };
    let mut note = format!("{how}{}", clip(&content.sentence, 400));
    if content.targets_total > 0 {
        let few = &content.targets[..content.targets.len().min(3)];
        // Writing into a string cannot fail, here and below.
        let _ = write!(note, " Targets: {}.", targets(few, content.targets_total));
    }
    let more = content.objects_total.saturating_sub(content.objects.len());
    if more > 0 {
        let _ = write!(note, " {more} more objects are affected.");
    }
    let _ = write!(note, " parallax explain {}", content.incident);
    clip(&note, NOTE)
}

/// A name that is the same for the same object and content.
fn name(object: &NamedObject, words: &str) -> String {
    let all = format!(
        "{} {} {} {words}",
        object.kind.word(),
        object.namespace,
        object.name
    );
    let tag = digest::digest(&digest::SHA256, all.as_bytes());
    let begin = clip(&object.name, 200);
    format!(
        "{}.{}",
        begin.trim_end_matches(['.', '-', '…']),
        HEXLOWER.encode(&tag.as_ref()[..8])
    )
}

fn space(object: &NamedObject) -> &str {
    if object.namespace.is_empty() {
        CLUSTER_SPACE
    } else {
        &object.namespace
    }
}

fn version(kind: EventObjectKind) -> String {
    match kind.group() {
        "" => "v1".to_owned(),
        group => format!("{group}/v1"),
    }
}

/// Formats a `MicroTime` of the API server.
fn micros(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
