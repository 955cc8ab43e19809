//! Lists all objects of a resource, page by page.

use std::time::Duration;

use kube::core::params::ListParams;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::{ReceiverDropped, Reflector, WatchAttempts, WatchUpdate, failure::ListError};
use crate::watch::{WatchedResource, health::WatchFailureReason};

/// Objects per page of a list.
const PAGE_SIZE: u32 = 500;

impl<S: WatchedResource> Reflector<S> {
    /// Requests one complete list. Returns its resource version, or `None` if the list failed.
    pub(super) async fn list(
        &self,
        silent: Duration,
        attempts: &mut WatchAttempts,
    ) -> Result<Option<String>, ReceiverDropped> {
        let began = Instant::now();
        match self.list_pages().await {
            Ok((objects, unreadable, version)) => {
                self.send(WatchUpdate::Listed(objects, unreadable)).await?;
                Ok(Some(version))
            }
            Err(ListError::Absent) => {
                self.send(WatchUpdate::Absent).await?;
                attempts.reset();
                tokio::time::sleep(self.timing.recheck_interval).await;
                Ok(None)
            }
            Err(ListError::Failed(mut failure)) => {
                failure.silent_for += silent + began.elapsed();
                if failure.reason == WatchFailureReason::Forbidden
                    && self.source.is_optional()
                    && self.is_undefined().await
                {
                    self.send(WatchUpdate::Absent).await?;
                    attempts.reset();
                    tokio::time::sleep(self.timing.recheck_interval).await;
                    return Ok(None);
                }
                self.report_failure(failure, attempts).await?;
                Ok(None)
            }
        }
    }

    /// Whether API discovery, which every account may read, does not list the resource. The API server checks
    /// permissions first, so an account without permission gets 403 even for a resource that does not exist.
    async fn is_undefined(&self) -> bool {
        let group_version = format!("{}/{}", self.source.group(), self.source.version());
        let request = self.client.list_api_group_resources(&group_version);
        match timeout(self.timing.request_timeout, request).await {
            Ok(Ok(list)) => !list
                .resources
                .iter()
                .any(|resource| resource.name == self.source.plural()),
            Ok(Err(kube::Error::Api(status))) => status.code == 404,
            _ => false,
        }
    }

    async fn list_pages(&self) -> Result<(Vec<S::Object>, u64, String), ListError> {
        let mut objects = Vec::new();
        let mut unreadable = 0;
        let mut params = ListParams {
            label_selector: self.label_selector.clone(),
            limit: Some(PAGE_SIZE),
            ..ListParams::default()
        };
        loop {
            let page = self.list_page(&params).await?;
            for item in page.items {
                match self.parse(item) {
                    Some(object) => objects.push(object),
                    None => unreadable += 1,
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok((objects, unreadable, page.metadata.resource_version)),
            }
        }
    }

    async fn list_page(&self, params: &ListParams) -> Result<ListPage, ListError> {
        let request = self.request();
        let request = if self.source.metadata_only() {
            request.list_metadata(params)
        } else {
            request.list(params)
        };
        let request = request.map_err(|error| self.failure(WatchFailureReason::Other, &error))?;
        let text = match timeout(self.timing.request_timeout, self.client.request_text(request)).await {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => return Err(self.list_error(&error)),
            Err(_) => {
                let message = format!("no list within {} s", self.timing.request_timeout.as_secs_f64());
                return Err(self.failure(WatchFailureReason::Timeout, &message).into());
            }
        };
        serde_json::from_str(&text).map_err(|error| {
            self.failure(
                WatchFailureReason::Other,
                &format_args!("cannot parse the list: {error}"),
            )
            .into()
        })
    }
}

/// A page of a list; the items are parsed individually.
#[derive(Debug, Deserialize)]
struct ListPage {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(default, deserialize_with = "null_as_empty")]
    items: Vec<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    continue_: Option<String>,
}

fn null_as_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Value>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
