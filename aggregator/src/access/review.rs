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
use tokio::time::{Instant, timeout};

use super::{AuthorizedUser, Permission};
use crate::{
    api_error::ApiError,
    review_slots::{ReviewSlots, TokenOwner},
};
use parallax_api::TOKEN_AUDIENCE;
use parallax_kubernetes::api_client::ApiClient;

/// Timeout of a review.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(5);
/// TTL of a cached answer; a revoked permission stays effective for at most this long.
const CACHE_TTL: Duration = Duration::from_secs(30);
/// Time for which a user counts as known after the last positive answer, so that strangers do not delay the next review.
const KNOWN_TTL: Duration = Duration::from_hours(1);
/// Maximum number of cached answers.
const MAX_CACHED_REVIEWS: usize = 4_096;
/// Maximum number of cached refusals; the rest is for users.
const MAX_CACHED_REFUSALS: usize = MAX_CACHED_REVIEWS / 2;

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
                    audiences: Some(vec![TOKEN_AUDIENCE.to_owned()]),
                },
                status: None,
            };
            let api = Api::<TokenReview>::all(self.0.clone());
            let status = api
                .create(&PostParams::default(), &review)
                .await?
                .status
                .unwrap_or_default();
            // An API server that ignores audiences does not return them.
            let audiences = status.audiences.unwrap_or_default();
            let intended = audiences.iter().any(|audience| audience == TOKEN_AUDIENCE);
            Ok(status
                .user
                .filter(|_| status.authenticated == Some(true) && intended))
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

/// A cached answer and the time of it.
type CachedReview = (Result<AuthorizedUser, ReviewRefusal>, Instant);

/// Cached answers by token and permission. They never evict each other: guessing tokens must not displace those of users.
#[derive(Debug, Default)]
struct CachedReviews(BTreeMap<Key, CachedReview>);

impl CachedReviews {
    /// Returns the answer if it is fresh.
    fn fresh(&self, key: &Key) -> Option<Result<AuthorizedUser, ReviewRefusal>> {
        let (answer, at) = self.0.get(key)?;
        (at.elapsed() < CACHE_TTL).then(|| answer.clone())
    }

    /// Returns who shows a token without a fresh answer.
    fn owner(&self, key: &Key) -> TokenOwner<'static> {
        match self.0.get(key) {
            Some((Ok(_), at)) if at.elapsed() < KNOWN_TTL => TokenOwner::Known,
            _ => TokenOwner::Stranger,
        }
    }

    fn insert(&mut self, key: Key, answer: Result<AuthorizedUser, ReviewRefusal>) {
        let most = if answer.is_ok() {
            MAX_CACHED_REVIEWS
        } else {
            MAX_CACHED_REFUSALS
        };
        if self.0.len() >= most && !self.0.contains_key(&key) {
            self.0.retain(|_, (answer, at)| {
                let ttl = if answer.is_ok() { KNOWN_TTL } else { CACHE_TTL };
                at.elapsed() < ttl
            });
            if self.0.len() >= most {
                return;
            }
        }
        self.0.insert(key, (answer, Instant::now()));
    }
}

/// Reviews users, with a short-lived cache of the answers.
#[derive(Debug)]
pub(crate) struct ReviewCache {
    client: Box<dyn ReviewClient>,
    cache: Mutex<CachedReviews>,
    slots: ReviewSlots,
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
                "the API server does not accept the token for the audience parallax-api: it has expired, is for another audience or belongs to another cluster; get one with `kubectl create token ACCOUNT --audience parallax-api`",
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
            slots: ReviewSlots::new(),
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
        let owner = {
            let cache = self.cache.lock();
            if let Some(answer) = cache.fresh(&key) {
                return answer.map_err(Into::into);
            }
            cache.owner(&key)
        };
        let answer = timeout(REVIEW_TIMEOUT, self.review(token, permission, owner)).await;
        let answer = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(unavailable(&error.to_string())),
            Err(_) => return Err(unavailable("request timed out")),
        };
        self.cache.lock().insert(key, answer.clone());
        answer.map_err(Into::into)
    }

    async fn review(
        &self,
        token: &str,
        permission: Permission,
        owner: TokenOwner<'_>,
    ) -> Result<Result<AuthorizedUser, ReviewRefusal>, kube::Error> {
        let _slot = self.slots.acquire(owner).await;
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
