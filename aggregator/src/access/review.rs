//! The API server's word on a person: `TokenReview` says who, `SubjectAccessReview` whether.

use std::{collections::BTreeMap, fmt, time::Duration};

use axum::http::StatusCode;
use futures_util::future::BoxFuture;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::api::{Api, ObjectMeta, PostParams};
use parking_lot::Mutex;
use ring::digest;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use super::{AuthorizedUser, Permission};
use crate::api_error::ApiError;
use parallax_kubernetes::api_client::ApiClient;

/// A review that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long an answer stands: within this, somebody whose right was taken away may still do it.
const STANDS: Duration = Duration::from_secs(30);
/// Answers remembered.
const MOST: usize = 4_096;
/// Reviews under way at one time.
const AT_ONCE: usize = 16;

/// What the API server is asked. A seam for tests without one.
pub(crate) trait ReviewClient: Send + Sync + fmt::Debug {
    /// Whose token it is; nothing where it is nobody's.
    fn who<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<UserInfo>, kube::Error>>;
    /// Whether they may; with the reason the API server gives.
    fn may<'a>(
        &'a self,
        user: &'a UserInfo,
        deed: Permission,
    ) -> BoxFuture<'a, Result<(bool, String), kube::Error>>;
}

impl ReviewClient for ApiClient {
    fn who<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<UserInfo>, kube::Error>> {
        Box::pin(async move {
            let review = TokenReview {
                metadata: ObjectMeta::default(),
                spec: TokenReviewSpec {
                    token: token.to_owned(),
                    // The API server's own audience: a person's token, never a prober's.
                    audiences: None,
                },
                status: None,
            };
            let api = Api::<TokenReview>::all(self.0.clone());
            let status = api
                .create(&PostParams::default(), &review)
                .await?
                .status
                .unwrap_or_default();
            Ok(status.user.filter(|_| status.authenticated == Some(true)))
        })
    }

    fn may<'a>(
        &'a self,
        user: &'a UserInfo,
        deed: Permission,
    ) -> BoxFuture<'a, Result<(bool, String), kube::Error>> {
        Box::pin(async move {
            let (verb, resource) = deed.rule();
            let review = SubjectAccessReview {
                metadata: ObjectMeta::default(),
                spec: SubjectAccessReviewSpec {
                    user: user.username.clone(),
                    uid: user.uid.clone(),
                    groups: user.groups.clone(),
                    extra: user.extra.clone(),
                    resource_attributes: Some(ResourceAttributes {
                        group: Some("parallax.dev".to_owned()),
                        resource: Some(resource.to_owned()),
                        verb: Some(verb.to_owned()),
                        ..ResourceAttributes::default()
                    }),
                    ..SubjectAccessReviewSpec::default()
                },
                status: None,
            };
            let api = Api::<SubjectAccessReview>::all(self.0.clone());
            let status = api
                .create(&PostParams::default(), &review)
                .await?
                .status
                .unwrap_or_default();
            Ok((
                status.allowed && status.denied != Some(true),
                status.reason.unwrap_or_default(),
            ))
        })
    }
}

type Key = ([u8; 32], Permission);

/// What was said, and until when it stands.
type CachedReview = (Result<AuthorizedUser, ReviewRefusal>, Instant);

/// Answers of the API server, remembered for a short while.
#[derive(Debug)]
pub(crate) struct ReviewCache {
    ask: Box<dyn ReviewClient>,
    known: Mutex<BTreeMap<Key, CachedReview>>,
    slots: Semaphore,
}

/// A no that the API server said.
#[derive(Debug, Clone)]
enum ReviewRefusal {
    Unknown,
    Forbidden { who: String, deed: Permission },
}

impl From<ReviewRefusal> for ApiError {
    fn from(refusal: ReviewRefusal) -> Self {
        match refusal {
            ReviewRefusal::Unknown => Self::new(
                StatusCode::UNAUTHORIZED,
                "the API server does not accept the token: it has expired, or is of another cluster; get a new one, as by `kubectl create token ACCOUNT`",
            ),
            ReviewRefusal::Forbidden { who, deed } => {
                let (verb, resource) = deed.rule();
                Self::new(
                    StatusCode::FORBIDDEN,
                    format!(
                        "{who} may not {verb} {resource}.parallax.dev; a cluster administrator grants it by a ClusterRole with apiGroups: [parallax.dev], resources: [{resource}], verbs: [{verb}]"
                    ),
                )
            }
        }
    }
}

impl ReviewCache {
    pub(crate) fn new(ask: impl ReviewClient + 'static) -> Self {
        Self {
            ask: Box::new(ask),
            known: Mutex::default(),
            slots: Semaphore::new(AT_ONCE),
        }
    }

    pub(super) async fn allow(&self, token: &str, deed: Permission) -> Result<AuthorizedUser, ApiError> {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
        let key = (hash, deed);
        if let Some((known, until)) = self.known.lock().get(&key)
            && Instant::now() < *until
        {
            return known.clone().map_err(Into::into);
        }
        let answer = timeout(PATIENCE, self.review(token, deed)).await;
        let answer = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(unavailable(&error.to_string())),
            Err(_) => return Err(unavailable("no answer in time")),
        };
        let mut known = self.known.lock();
        let now = Instant::now();
        if known.len() >= MOST {
            known.retain(|_, (_, until)| now < *until);
        }
        // Somebody who tries tokens must not push out those who have one.
        if known.len() < MOST {
            known.insert(key, (answer.clone(), now + STANDS));
        }
        answer.map_err(Into::into)
    }

    async fn review(
        &self,
        token: &str,
        deed: Permission,
    ) -> Result<Result<AuthorizedUser, ReviewRefusal>, kube::Error> {
        let Ok(_slot) = self.slots.acquire().await else {
            return Ok(Err(ReviewRefusal::Unknown));
        };
        let Some(user) = self.ask.who(token).await? else {
            return Ok(Err(ReviewRefusal::Unknown));
        };
        let name = super::tamed(user.username.as_deref().unwrap_or("somebody without a name"));
        let (allowed, reason) = self.ask.may(&user, deed).await?;
        if allowed {
            return Ok(Ok(AuthorizedUser { name }));
        }
        tracing::info!(%name, ?deed, %reason, "not allowed");
        Ok(Err(ReviewRefusal::Forbidden { who: name, deed }))
    }
}

fn unavailable(reason: &str) -> ApiError {
    tracing::warn!(reason, "the API server cannot be asked whether somebody may");
    ApiError::unavailable(format!(
        "the API server cannot be asked whether you may ({reason}); come again. If this stays, see whether the aggregator's account may create tokenreviews.authentication.k8s.io and subjectaccessreviews.authorization.k8s.io"
    ))
}
