//! Credentials for the aggregator, which verifies tokens with the API server.

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, Client, api::PostParams};
use parallax_api::TOKEN_AUDIENCE;

use super::pods::api_error;
use crate::exit::Failure;

/// Lifetime of a requested token in seconds: the minimum that the API server accepts.
const TOKEN_LIFETIME_S: i64 = 600;

/// Requests a short-lived token of a ServiceAccount, for the aggregator only.
pub(super) async fn service_account_token(
    client: &Client,
    server: &str,
    namespace: &str,
    account: &str,
) -> Result<String, Failure> {
    let (namespace, name) = account.split_once('/').unwrap_or((namespace, account));
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: Some(vec![TOKEN_AUDIENCE.to_owned()]),
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
