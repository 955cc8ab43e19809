//! User authentication by `TokenReview` and authorization by `SubjectAccessReview`.

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

/// Timeout of a review.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(5);
/// TTL of a cached answer; a revoked permission stays effective for at most this long.
const CACHE_TTL: Duration = Duration::from_secs(30);
/// Maximum number of cached answers.
const MAX_CACHED_REVIEWS: usize = 4_096;
/// Maximum number of concurrent reviews.
const MAX_CONCURRENT_REVIEWS: usize = 16;

/// Review requests to the API server. A trait, so that tests need no server.
pub(crate) trait ReviewClient: Send + Sync + fmt::Debug {
    /// Returns the owner of a token; `None` if the token is invalid.
    fn authenticate<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<UserInfo>, kube::Error>>;
    /// Returns whether the user has a permission, and the API server's reason.
    fn authorize<'a>(
        &'a self,
        user: &'a UserInfo,
        permission: Permission,
    ) -> BoxFuture<'a, Result<(bool, String), kube::Error>>;
}

impl ReviewClient for ApiClient {
    fn authenticate<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<UserInfo>, kube::Error>> {
        Box::pin(async move {
            let review = TokenReview {
                metadata: ObjectMeta::default(),
                spec: TokenReviewSpec {
                    token: token.to_owned(),
                    // The API server's default audience, which a user's token has and a prober's has not.
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

    fn authorize<'a>(
        &'a self,
        user: &'a UserInfo,
        permission: Permission,
    ) -> BoxFuture<'a, Result<(bool, String), kube::Error>> {
        Box::pin(async move {
            let (verb, resource) = permission.rbac_rule();
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

/// A cached answer and its expiry.
type CachedReview = (Result<AuthorizedUser, ReviewRefusal>, Instant);

/// Reviews users, with a short-lived cache of the answers.
#[derive(Debug)]
pub(crate) struct ReviewCache {
    client: Box<dyn ReviewClient>,
    cache: Mutex<BTreeMap<Key, CachedReview>>,
    slots: Semaphore,
}

/// A negative answer of the API server.
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
                "the API server does not accept the token: it has expired or belongs to another cluster; get a new one, for example with `kubectl create token ACCOUNT`",
            ),
            ReviewRefusal::Forbidden { who, deed } => {
                let (verb, resource) = deed.rbac_rule();
                Self::new(
                    StatusCode::FORBIDDEN,
                    format!(
                        "{who} may not {verb} {resource}.parallax.dev; a cluster administrator can grant it with a ClusterRole: apiGroups: [parallax.dev], resources: [{resource}], verbs: [{verb}]"
                    ),
                )
            }
        }
    }
}

impl ReviewCache {
    pub(crate) fn new(ask: impl ReviewClient + 'static) -> Self {
        Self {
            client: Box::new(ask),
            cache: Mutex::default(),
            slots: Semaphore::new(MAX_CONCURRENT_REVIEWS),
        }
    }

    pub(super) async fn check_permission(
        &self,
        token: &str,
        permission: Permission,
    ) -> Result<AuthorizedUser, ApiError> {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
        let key = (hash, permission);
        if let Some((known, until)) = self.cache.lock().get(&key)
            && Instant::now() < *until
        {
            return known.clone().map_err(Into::into);
        }
        let answer = timeout(REVIEW_TIMEOUT, self.review(token, permission)).await;
        let answer = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(unavailable(&error.to_string())),
            Err(_) => return Err(unavailable("request timed out")),
        };
        let mut known = self.cache.lock();
        let now = Instant::now();
        if known.len() >= MAX_CACHED_REVIEWS {
            known.retain(|_, (_, until)| now < *until);
        }
        // No eviction of valid entries: guessing tokens must not displace those of real users.
        if known.len() < MAX_CACHED_REVIEWS {
            known.insert(key, (answer.clone(), now + CACHE_TTL));
        }
        answer.map_err(Into::into)
    }

    async fn review(
        &self,
        token: &str,
        permission: Permission,
    ) -> Result<Result<AuthorizedUser, ReviewRefusal>, kube::Error> {
        let Ok(_slot) = self.slots.acquire().await else {
            return Ok(Err(ReviewRefusal::Unknown));
        };
        let Some(user) = self.client.authenticate(token).await? else {
            return Ok(Err(ReviewRefusal::Unknown));
        };
        let name = super::sanitize_name(user.username.as_deref().unwrap_or("user without a name"));
        let (allowed, reason) = self.client.authorize(&user, permission).await?;
        if allowed {
            return Ok(Ok(AuthorizedUser { name }));
        }
        tracing::info!(%name, ?permission, %reason, "denied a request");
        Ok(Err(ReviewRefusal::Forbidden {
            who: name,
            deed: permission,
        }))
    }
}

fn unavailable(reason: &str) -> ApiError {
    tracing::warn!(reason, "cannot check a user's permission with the API server");
    ApiError::unavailable(format!(
        "cannot check your permission with the API server: {reason}; retry the request. If this persists, check that the aggregator's ServiceAccount may create tokenreviews.authentication.k8s.io and subjectaccessreviews.authorization.k8s.io"
    ))
}
