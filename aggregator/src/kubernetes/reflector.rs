//! Lists one kind of object and then hears of every change, for ever.
//!
//! Own list and watch calls on kube's client instead of its `watcher`: that one tells neither bookmarks nor that a broken
//! watch has been taken up again, and waits for a list as long as it takes, so nobody could say whether what is known is
//! current.

use std::time::Duration;

use futures_util::TryStreamExt;
use kube::{
    Client,
    core::{Request, Status, WatchEvent, params::ListParams, params::WatchParams},
};
use serde::Deserialize;
use serde_json::Value;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};

use crate::kubernetes::{
    Pace, Watched,
    backoff::Backoff,
    health::{Failure, Reason},
    key::{Key, key_of, version_of},
};

/// Objects per page of a list.
const PAGE: u32 = 500;

/// How long the server keeps one watch open.
const WATCH_SECONDS: u32 = 290;

/// Longest text of an error that is shown.
const LONGEST: usize = 300;

/// Something that one watch has to tell.
#[derive(Debug)]
pub(crate) enum Told<T> {
    /// A complete list, and how many objects in it could not be read.
    All(Vec<T>, u64),
    /// An object is new or changed.
    Put(Box<T>),
    /// An object is gone.
    Gone(Key),
    /// An object cannot be read; what was known of it stays.
    Unreadable,
    /// Changes are being told.
    Live,
    /// The API server does not know such objects.
    Absent,
    Failed(Failure),
}

/// What to watch, and whom to tell.
pub(crate) struct Reflector<S: Watched> {
    pub(crate) client: Client,
    pub(crate) source: S,
    pub(crate) labels: Option<String>,
    pub(crate) pace: Pace,
    pub(crate) out: mpsc::Sender<(S, Told<S::Object>)>,
}

/// Nobody listens any more.
#[derive(Debug)]
struct Deaf;

/// Attempts to list and watch since something was last heard.
struct Attempts {
    backoff: Backoff,
    /// Why the last one failed; logged once in a row.
    logged: Option<Reason>,
}

impl Attempts {
    /// Something was heard; whether an attempt had failed before.
    fn reset(&mut self) -> bool {
        self.backoff.reset();
        self.logged.take().is_some()
    }
}

/// Why a watch is over.
enum Ended {
    /// As planned, or broken after the version that is known.
    Resume,
    /// What is known is too old to go on from.
    Relist,
    /// Nothing was heard for as long as a watch may be silent.
    Silent,
    Failed(Failure),
}

impl<S: Watched> Reflector<S> {
    /// Runs until nobody listens.
    pub(crate) async fn run(self) {
        let mut attempts = Attempts {
            backoff: Backoff::new(self.pace.first_retry, self.pace.longest_retry),
            logged: None,
        };
        let _deaf: Result<(), Deaf> = async {
            // How long nothing has been heard before the next list.
            let mut silent = Duration::ZERO;
            loop {
                let Some(version) = self.list(silent, &mut attempts).await? else {
                    continue;
                };
                silent = self.follow(version, &mut attempts).await?;
            }
        }
        .await;
    }

    async fn tell(&self, told: Told<S::Object>) -> Result<(), Deaf> {
        self.out.send((self.source.clone(), told)).await.map_err(|_| Deaf)
    }

    /// Says what failed and waits.
    async fn fail(&self, failure: Failure, attempts: &mut Attempts) -> Result<(), Deaf> {
        let reason = failure.reason.label();
        // An API server that is away for minutes is worth one line a resource, and another one for another reason; what a
        // cluster may do without is worth one line, whatever the reasons.
        let repeated = attempts.logged.replace(failure.reason) == Some(failure.reason);
        if repeated || self.source.is_optional() && !attempts.backoff.is_fresh() {
            tracing::debug!(resource = %self.source, reason, message = %failure, "still cannot watch");
        } else {
            tracing::warn!(resource = %self.source, reason, message = %failure, "cannot watch; what was known stays");
        }
        let wait = attempts.backoff.next(failure.retry_after);
        self.tell(Told::Failed(failure)).await?;
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// One complete list, if that can be had, and the version it is of.
    async fn list(&self, silent: Duration, attempts: &mut Attempts) -> Result<Option<String>, Deaf> {
        let began = Instant::now();
        match self.pages().await {
            Ok((things, unreadable, version)) => {
                self.tell(Told::All(things, unreadable)).await?;
                Ok(Some(version))
            }
            Err(Refused::Absent) => {
                self.tell(Told::Absent).await?;
                attempts.reset();
                tokio::time::sleep(self.pace.recheck).await;
                Ok(None)
            }
            Err(Refused::Failed(mut failure)) => {
                failure.silent += silent + began.elapsed();
                if failure.reason == Reason::Forbidden
                    && self.source.is_optional()
                    && self.is_undefined().await
                {
                    self.tell(Told::Absent).await?;
                    attempts.reset();
                    tokio::time::sleep(self.pace.recheck).await;
                    return Ok(None);
                }
                self.fail(failure, attempts).await?;
                Ok(None)
            }
        }
    }

    /// Whether discovery, which every account may read, says that there are no such objects: who lacks the right is told so
    /// before the API server looks whether there is anything to have it on.
    async fn is_undefined(&self) -> bool {
        let group_version = format!("{}/v1", self.source.group());
        let asked = self.client.list_api_group_resources(&group_version);
        match timeout(self.pace.patience, asked).await {
            Ok(Ok(list)) => !list
                .resources
                .iter()
                .any(|resource| resource.name == self.source.plural()),
            Ok(Err(kube::Error::Api(status))) => status.code == 404,
            _ => false,
        }
    }

    async fn pages(&self) -> Result<(Vec<S::Object>, u64, String), Refused> {
        let mut things = Vec::new();
        let mut unreadable = 0;
        let mut params = ListParams {
            label_selector: self.labels.clone(),
            limit: Some(PAGE),
            ..ListParams::default()
        };
        loop {
            let page = self.page(&params).await?;
            for item in page.items {
                match self.read(item) {
                    Some(thing) => things.push(thing),
                    None => unreadable += 1,
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok((things, unreadable, page.metadata.resource_version)),
            }
        }
    }

    async fn page(&self, params: &ListParams) -> Result<Page, Refused> {
        let request = self.request();
        let request = if self.source.metadata_only() {
            request.list_metadata(params)
        } else {
            request.list(params)
        };
        let request = request.map_err(|error| self.failure(Reason::Other, &error))?;
        let text = match timeout(self.pace.patience, self.client.request_text(request)).await {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => return Err(self.refused(&error)),
            Err(_) => {
                let message = format!("no list within {} s", self.pace.patience.as_secs_f64());
                return Err(self.failure(Reason::Timeout, &message).into());
            }
        };
        serde_json::from_str(&text).map_err(|error| {
            self.failure(Reason::Other, &format_args!("the list cannot be read: {error}"))
                .into()
        })
    }

    /// Hears of changes, watch after watch, until a new list is needed; returns how long nothing had been heard by then.
    async fn follow(&self, mut version: String, attempts: &mut Attempts) -> Result<Duration, Deaf> {
        loop {
            match self.watch(&mut version, attempts).await? {
                // A watch that ends at once must not be begun again at once.
                Ended::Resume => tokio::time::sleep(attempts.backoff.next(None)).await,
                Ended::Relist => {
                    let message = "the version is too old to go on from; listing anew";
                    let failure = self.failure(Reason::Gone, &message);
                    self.tell(Told::Failed(failure)).await?;
                    tokio::time::sleep(attempts.backoff.next(None)).await;
                    return Ok(Duration::ZERO);
                }
                // An etcd without progress notifications leaves the watch of what does not change without bookmarks. Only
                // a new list tells that from a watch that lost its events, and shows what it lost.
                Ended::Silent => {
                    let silence = self.pace.silence;
                    tracing::debug!(resource = %self.source, seconds = silence.as_secs_f64(), "a silent watch; listing anew");
                    return Ok(silence);
                }
                Ended::Failed(failure) => self.fail(failure, attempts).await?,
            }
        }
    }

    async fn watch(&self, version: &mut String, attempts: &mut Attempts) -> Result<Ended, Deaf> {
        let params = WatchParams {
            label_selector: self.labels.clone(),
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            ..WatchParams::default()
        };
        let request = self.request();
        let request = if self.source.metadata_only() {
            request.watch_metadata(&params, version)
        } else {
            request.watch(&params, version)
        };
        let opened = match request {
            Ok(request) => timeout(self.pace.patience, self.client.request_events::<Value>(request)).await,
            Err(error) => return Ok(Ended::Failed(self.failure(Reason::Other, &error))),
        };
        let events = match opened {
            Ok(Ok(events)) => events,
            Ok(Err(error)) => return Ok(self.ended(&error)),
            Err(_) => {
                let message = format!("no watch within {} s", self.pace.patience.as_secs_f64());
                let mut failure = self.failure(Reason::Timeout, &message);
                failure.silent = self.pace.patience;
                return Ok(Ended::Failed(failure));
            }
        };
        tokio::pin!(events);
        self.tell(Told::Live).await?;
        loop {
            let event = match timeout(self.pace.silence, events.try_next()).await {
                Ok(Ok(Some(event))) => event,
                Ok(Ok(None)) => return Ok(Ended::Resume),
                Ok(Err(error)) => return Ok(self.ended(&error)),
                Err(_) => return Ok(Ended::Silent),
            };
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    self.note_version(&object, version);
                    let told = self
                        .read(object)
                        .map_or(Told::Unreadable, |thing| Told::Put(Box::new(thing)));
                    self.tell(told).await?;
                }
                WatchEvent::Deleted(object) => {
                    self.note_version(&object, version);
                    self.tell(Told::Gone(key_of(&object))).await?;
                }
                WatchEvent::Bookmark(mark) => *version = mark.metadata.resource_version,
                WatchEvent::Error(status) => return Ok(self.ended_by(&status)),
            }
            // It works: whatever failed before is over.
            if attempts.reset() {
                tracing::info!(resource = %self.source, "watching again");
            }
        }
    }

    fn note_version(&self, object: &Value, version: &mut String) {
        if let Some(known) = version_of(object) {
            version.replace_range(.., known);
        } else {
            tracing::debug!(resource = %self.source, "a change without a version");
        }
    }

    fn read(&self, object: Value) -> Option<S::Object> {
        let key = key_of(&object);
        self.source
            .read(object)
            .map_err(|reason| {
                let reason: String = reason.chars().take(LONGEST).collect();
                tracing::warn!(resource = %self.source, %key, %reason, "an object cannot be read and is left out");
            })
            .ok()
    }

    fn request(&self) -> Request {
        Request::new(self.source.path())
    }

    fn ended(&self, error: &kube::Error) -> Ended {
        match error {
            kube::Error::Api(status) => self.ended_by(status),
            // The connection broke between two events; from the version that is known nothing is lost.
            _ => match self.refused(error) {
                Refused::Absent => Ended::Relist,
                Refused::Failed(failure) => Ended::Failed(failure),
            },
        }
    }

    fn ended_by(&self, status: &Status) -> Ended {
        if status.code == 410 || (status.code == 404 && self.source.is_optional()) {
            return Ended::Relist;
        }
        Ended::Failed(self.answered(status))
    }

    fn refused(&self, error: &kube::Error) -> Refused {
        match error {
            kube::Error::Api(status) if status.code == 404 && self.source.is_optional() => Refused::Absent,
            kube::Error::Api(status) => self.answered(status).into(),
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
                self.failure(Reason::Other, error).into()
            }
            _ => self.failure(Reason::Connection, &chain(error)).into(),
        }
    }

    fn answered(&self, status: &Status) -> Failure {
        let reason = match status.code {
            410 => Reason::Gone,
            401 | 403 => Reason::Forbidden,
            429 | 500..=599 => Reason::Unavailable,
            _ => Reason::Other,
        };
        let advice = match reason {
            Reason::Forbidden => format!(
                "; grant list and watch on {} to the aggregator's ServiceAccount",
                match self.source.group() {
                    "" => self.source.plural().to_owned(),
                    group => format!("{}.{group}", self.source.plural()),
                }
            ),
            _ => String::new(),
        };
        let said: String = status.message.chars().take(LONGEST).collect();
        let mut failure = self.failure(reason, &format_args!("{} {said}{advice}", status.code));
        let seconds = status
            .details
            .as_ref()
            .map_or(0, |details| details.retry_after_seconds);
        failure.retry_after = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
        failure
    }

    #[expect(clippy::unused_self, reason = "reads as part of the others")]
    fn failure(&self, reason: Reason, message: &impl std::fmt::Display) -> Failure {
        let message: String = message.to_string().chars().filter(|c| !c.is_control()).collect();
        Failure {
            reason,
            message,
            silent: Duration::ZERO,
            retry_after: None,
        }
    }
}

/// An error with what caused it: the reason of a failed connection stands at the end of the chain.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text.chars().take(LONGEST).collect()
}

/// A list was not to be had.
enum Refused {
    Absent,
    Failed(Failure),
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// A page of a list; items are read one by one.
#[derive(Debug, Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(default, deserialize_with = "or_empty")]
    items: Vec<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    continue_: Option<String>,
}

fn or_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Value>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
