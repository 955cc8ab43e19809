//! Token reviews and token requests of `ServiceAccount`s.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::response::Response;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::{
    ApiServer,
    responses::{created, object_not_found},
    store::{Shared, Token, key},
};

/// The audience that every review names.
const AUDIENCE: &str = "parallax";
/// Longest validity of a requested token, in seconds: like a real API server, this one shortens longer ones.
const MAX_VALIDITY: u64 = 86_400;

/// Builds a token in the format of Kubernetes; only [`ApiServer`] decides whether it is valid. `expires` is in seconds
/// since the Unix epoch.
#[must_use]
pub fn service_account_token(audience: &str, expires: u64, id: &str) -> String {
    let payload = json!({"aud": [audience], "exp": expires, "jti": id}).to_string();
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(payload))
}

impl ApiServer {
    /// Issues a token as in the projected volume of a Pod with this `ServiceAccount` (`NAMESPACE/NAME`), UID and node.
    #[must_use]
    pub fn issue_pod_token(&self, account: &str, uid: &str, node: &str, id: &str) -> String {
        let token = service_account_token(AUDIENCE, seconds() + 3_600, id);
        let user = json!({
            "username": format!("system:serviceaccount:{}", account.replace('/', ":")),
            "extra": {
                "authentication.kubernetes.io/pod-uid": [uid],
                "authentication.kubernetes.io/node-name": [node],
            },
        });
        let known = Token {
            review: json!({"authenticated": true, "audiences": [AUDIENCE], "user": user}),
            account: None,
        };
        self.store().tokens.insert(token.clone(), known);
        token
    }

    /// Answers every token request with this token from now on.
    pub fn set_issued_token(&self, token: &str) {
        self.store().issued_token = Some(token.to_owned());
    }

    /// Returns how many tokens have been reviewed.
    #[must_use]
    pub fn token_reviews(&self) -> u64 {
        self.store().token_reviews
    }

    /// Returns the `ServiceAccount` of each token request with the requested validity and audience: `NAMESPACE/NAME SECONDS
    /// AUDIENCE`.
    #[must_use]
    pub fn token_requests(&self) -> Vec<String> {
        self.store().token_requests.clone()
    }
}

pub(crate) fn review(shared: &Shared, body: &[u8]) -> Response {
    let review: Value = serde_json::from_slice(body).unwrap();
    assert_eq!(
        review["spec"]["audiences"],
        json!([AUDIENCE]),
        "a review names the audience"
    );
    let mut store = shared.store();
    store.token_reviews += 1;
    let known = store.tokens.get(review["spec"]["token"].as_str().unwrap());
    let status = known.map_or_else(
        || json!({"authenticated": false, "error": "invalid bearer token"}),
        |token| token.review.clone(),
    );
    created(&json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {},
        "spec": review["spec"], "status": status,
    }))
}

/// Grants everything that no test rejects.
pub(crate) fn own_access_review(shared: &Shared, body: &[u8]) -> Response {
    let review: Value = serde_json::from_slice(body).unwrap();
    let attributes = &review["spec"]["resourceAttributes"];
    let text = |field: &str| attributes[field].as_str().unwrap_or_default().to_owned();
    let resource = match text("subresource").as_str() {
        "" => text("resource"),
        subresource => format!("{}/{subresource}", text("resource")),
    };
    let allowed = !shared.store().rejections.contains_key(&(text("verb"), resource));
    created(&json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {},
        "spec": review["spec"], "status": {"allowed": allowed},
    }))
}

pub(crate) fn token_request(shared: &Shared, namespace: &str, name: &str, body: &[u8]) -> Response {
    let request: Value = serde_json::from_slice(body).unwrap();
    let spec = &request["spec"];
    let account = key("serviceaccounts", namespace, name);
    let mut store = shared.store();
    if !store.objects.contains_key(&account) {
        return object_not_found();
    }
    let wanted = spec["expirationSeconds"].as_u64().unwrap();
    let end = seconds() + wanted.min(MAX_VALIDITY);
    let audience = spec["audiences"][0]
        .as_str()
        .unwrap_or("the API server")
        .to_owned();
    store
        .token_requests
        .push(format!("{namespace}/{name} {wanted} {audience}"));
    let token = store.issued_token.clone().unwrap_or_else(|| {
        service_account_token(&audience, end, &format!("{name} {}", store.token_requests.len()))
    });
    let user = json!({"username": format!("system:serviceaccount:{namespace}:{name}")});
    let known = Token {
        review: json!({"authenticated": true, "audiences": spec["audiences"], "user": user}),
        account: Some(account),
    };
    store.tokens.insert(token.clone(), known);
    let until = jiff::Timestamp::from_second(i64::try_from(end).unwrap()).unwrap();
    created(&json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
        "spec": spec, "status": {"token": token, "expirationTimestamp": until.to_string()},
    }))
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}
