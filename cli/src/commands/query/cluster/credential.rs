//! What the aggregator is shown: it asks the API server whose token it is.

use http::header::AUTHORIZATION;
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{
    Api, Client,
    api::PostParams,
    client::{Body, ConfigExt as _},
};
use tower::{Layer as _, ServiceExt as _};

use super::pods::refused;
use crate::exit::Failure;

/// Life of a token that is asked for, in seconds: the shortest that the API server gives.
const LIFE_S: i64 = 600;

/// The token that the kubeconfig shows to the API server: fixed, of a file, or of a program. Nothing where it has a
/// certificate or a password, which nobody but the API server can check.
pub(super) async fn own(config: &kube::Config) -> Result<Option<String>, Failure> {
    let unusable = |reason: &dyn std::fmt::Display| {
        Failure::Usage(format!(
            "the kubeconfig's user cannot log in: {reason}; log in again as kubectl would, or show another token by --token-file or --account"
        ))
    };
    let Some(layer) = config.auth_layer().map_err(|error| unusable(&error))? else {
        return Ok(None);
    };
    // The layer that logs in puts what it has on a request; this one goes nowhere.
    let shown = layer
        .layer(tower::service_fn(mirror))
        .oneshot(http::Request::new(Body::empty()))
        .await
        .map_err(|error| unusable(&error))?;
    let header = shown.headers().get(AUTHORIZATION);
    Ok(header
        .and_then(|header| header.to_str().ok()?.strip_prefix("Bearer "))
        .map(ToOwned::to_owned))
}

/// What a request shows, as an answer.
async fn mirror(request: http::Request<Body>) -> Result<http::Response<()>, tower::BoxError> {
    let mut response = http::Response::new(());
    *response.headers_mut() = request.into_parts().0.headers;
    Ok(response)
}

/// A token of an account, good for a short while.
pub(super) async fn of_account(
    client: &Client,
    server: &str,
    namespace: &str,
    account: &str,
) -> Result<String, Failure> {
    let (namespace, name) = account.split_once('/').unwrap_or((namespace, account));
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            // None: for the API server itself, as a person's own would be.
            audiences: None,
            expiration_seconds: Some(LIFE_S),
            bound_object_ref: None,
        }),
        ..TokenRequest::default()
    };
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    let answer = accounts
        .create_token_request(name, &PostParams::default(), &request)
        .await;
    let answer = answer.map_err(|error| match &error {
        kube::Error::Api(status) if status.code == 404 => Failure::Usage(format!(
            "--account: there is no ServiceAccount {name} in the namespace {namespace}"
        )),
        _ => refused(&error, server, ("create", "serviceaccounts/token", namespace)),
    })?;
    answer
        .status
        .and_then(|status| status.token)
        .filter(|token| !token.is_empty())
        .ok_or_else(|| Failure::CouldNot(format!("the API server gave no token for {namespace}/{name}")))
}
