//! Token reviews by the API server.

use std::{collections::BTreeMap, fmt, time::Duration};

use futures_util::future::BoxFuture;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    core::v1::ServiceAccount,
};
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
};
use parallax_model::{Namespace, ObjectName, Reach, Vantage, VantageName};
use tokio::time::timeout;

use super::refusal::RefusalReason;
use parallax_kubernetes::{api_client::ApiClient, object_key::ObjectKey};

/// Timeout of a request to the API server; the prober waits for it.
const API_SERVER_TIMEOUT: Duration = Duration::from_secs(5);

/// Label with the name of an enrolled vantage, on its `ServiceAccount`.
pub const VANTAGE_LABEL: &str = "parallax.dev/vantage";
/// Label with the reach of an enrolled vantage: `vpc` or `internet`.
pub const REACH_LABEL: &str = "parallax.dev/reach";

const POD_UID_EXTRA: &str = "authentication.kubernetes.io/pod-uid";
const NODE_NAME_EXTRA: &str = "authentication.kubernetes.io/node-name";

/// The owner of a token according to the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TokenSubject {
    pub(super) account: ObjectKey,
    /// UID of the Pod that the token is bound to.
    pub(super) pod_uid: Option<String>,
    /// Node of the Pod, if the API server returns it.
    pub(super) node: Option<String>,
}

/// The API server is unavailable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReviewerUnavailable(pub(super) String);

/// Review requests to the API server. A trait, so that tests need no server.
pub(super) trait TokenReviewer: fmt::Debug + Send + Sync + 'static {
    /// Returns the owner of a token, or why the token is rejected.
    fn review<'a>(
        &'a self,
        token: &'a str,
        audience: &'a str,
    ) -> BoxFuture<'a, Result<Result<TokenSubject, RefusalReason>, ReviewerUnavailable>>;

    /// Returns the vantage that a `ServiceAccount` is enrolled as, if any.
    fn enrolled_vantage<'a>(
        &'a self,
        account: &'a ObjectKey,
    ) -> BoxFuture<'a, Result<Option<Vantage>, ReviewerUnavailable>>;
}

impl TokenReviewer for ApiClient {
    fn review<'a>(
        &'a self,
        token: &'a str,
        audience: &'a str,
    ) -> BoxFuture<'a, Result<Result<TokenSubject, RefusalReason>, ReviewerUnavailable>> {
        Box::pin(async move {
            let review = TokenReview {
                metadata: ObjectMeta::default(),
                spec: TokenReviewSpec {
                    token: token.to_owned(),
                    audiences: Some(vec![audience.to_owned()]),
                },
                status: None,
            };
            let api = Api::<TokenReview>::all(self.0.clone());
            let answered = with_timeout(api.create(&PostParams::default(), &review)).await?;
            Ok(evaluate_review(answered, audience))
        })
    }

    fn enrolled_vantage<'a>(
        &'a self,
        account: &'a ObjectKey,
    ) -> BoxFuture<'a, Result<Option<Vantage>, ReviewerUnavailable>> {
        Box::pin(async move {
            let api = Api::<ServiceAccount>::namespaced(self.0.clone(), account.namespace.as_str());
            let found = with_timeout(api.get_opt(account.name.as_str())).await?;
            Ok(found.and_then(|account| enrolled_vantage(&account)))
        })
    }
}

async fn with_timeout<T>(
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ReviewerUnavailable> {
    match timeout(API_SERVER_TIMEOUT, call).await {
        Err(_) => Err(ReviewerUnavailable(format!(
            "request timed out after {} s",
            API_SERVER_TIMEOUT.as_secs()
        ))),
        Ok(done) => done.map_err(|error| ReviewerUnavailable(error.to_string())),
    }
}

/// Interprets a review. An API server without support for audiences returns none; the token could then have been issued
/// for any audience and is rejected.
fn evaluate_review(review: TokenReview, audience: &str) -> Result<TokenSubject, RefusalReason> {
    let status = review.status.unwrap_or_default();
    if !status.authenticated.unwrap_or(false) {
        return Err(RefusalReason::Invalid);
    }
    if !status.audiences.unwrap_or_default().iter().any(|a| a == audience) {
        return Err(RefusalReason::WrongAudience);
    }
    token_subject(status.user.unwrap_or_default()).ok_or(RefusalReason::WrongAccount)
}

fn token_subject(user: UserInfo) -> Option<TokenSubject> {
    let name = user.username?;
    let (namespace, name) = name.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let extra: BTreeMap<String, Vec<String>> = user.extra.unwrap_or_default();
    let first = |key: &str| extra.get(key)?.first().cloned();
    Some(TokenSubject {
        account: ObjectKey {
            namespace: Namespace::new(namespace).ok()?,
            name: ObjectName::new(name).ok()?,
        },
        pod_uid: first(POD_UID_EXTRA),
        node: first(NODE_NAME_EXTRA),
    })
}

/// Returns the vantage named by the labels of a `ServiceAccount`.
pub(super) fn enrolled_vantage(account: &ServiceAccount) -> Option<Vantage> {
    let labels = account.metadata.labels.as_ref()?;
    let name = labels.get(VANTAGE_LABEL)?;
    let reach = labels.get(REACH_LABEL)?;
    Some(Vantage::Outside {
        reach: *Reach::ALL.iter().find(|known| known.label() == reach)?,
        name: VantageName::new(name.as_str()).ok()?,
    })
}
