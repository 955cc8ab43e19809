//! Credentials for the aggregator, which verifies tokens with the API server.

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

use super::pods::api_error;
use crate::exit::Failure;

/// Lifetime of a requested token in seconds: the minimum that the API server accepts.
const TOKEN_LIFETIME_S: i64 = 600;

/// Returns the token that the kubeconfig uses for the API server: inline, from a file or from a credential plugin.
/// `None` if it uses a client certificate or a password, which only the API server can verify.
pub(super) async fn kubeconfig_token(config: &kube::Config) -> Result<Option<String>, Failure> {
    let unusable = |reason: &dyn std::fmt::Display| {
        Failure::Usage(format!(
            "the kubeconfig's user cannot authenticate: {reason}; log in again as for kubectl, or use --token-file or --account"
        ))
    };
    let Some(layer) = config.auth_layer().map_err(|error| unusable(&error))? else {
        return Ok(None);
    };
    // The authentication layer adds its header to a request; this request is never sent.
    let shown = layer
        .layer(tower::service_fn(echo_headers))
        .oneshot(http::Request::new(Body::empty()))
        .await
        .map_err(|error| unusable(&error))?;
    let header = shown.headers().get(AUTHORIZATION);
    Ok(header
        .and_then(|header| header.to_str().ok()?.strip_prefix("Bearer "))
        .map(ToOwned::to_owned))
}

/// Returns the request's headers as a response.
async fn echo_headers(request: http::Request<Body>) -> Result<http::Response<()>, tower::BoxError> {
    let mut response = http::Response::new(());
    *response.headers_mut() = request.into_parts().0.headers;
    Ok(response)
}

/// Requests a short-lived token of a ServiceAccount.
pub(super) async fn service_account_token(
    client: &Client,
    server: &str,
    namespace: &str,
    account: &str,
) -> Result<String, Failure> {
    let (namespace, name) = account.split_once('/').unwrap_or((namespace, account));
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            // None: the API server itself is the audience, as for a user's own token.
            audiences: None,
            expiration_seconds: Some(TOKEN_LIFETIME_S),
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
            "--account: no ServiceAccount {name} in the namespace {namespace}"
        )),
        _ => api_error(&error, server, ("create", "serviceaccounts/token", namespace)),
    })?;
    answer
        .status
        .and_then(|status| status.token)
        .filter(|token| !token.is_empty())
        .ok_or_else(|| {
            Failure::Indeterminate(format!(
                "cannot get a token for the ServiceAccount {namespace}/{name}: the API server returned none"
            ))
        })
}
