//! Unverified claims of a token. They serve only to reject tokens early and with a reason, without a request to the API
//! server; they never authenticate.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;

/// Maximum length of a token; tokens of Kubernetes are shorter.
const MAX_TOKEN_LENGTH: usize = 16 << 10;

/// The claims used here.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct TokenClaims {
    #[serde(default, rename = "aud")]
    audience: AudienceClaim,
    /// Seconds since 1970.
    #[serde(default, rename = "exp")]
    pub(super) expires: Option<i64>,
    #[serde(default, rename = "kubernetes.io")]
    kubernetes: Option<KubernetesClaims>,
}

/// The private claims of Kubernetes (KEP-1205).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct KubernetesClaims {
    #[serde(default)]
    pod: Option<ObjectClaim>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct ObjectClaim {
    uid: String,
}

/// One audience, or several.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum AudienceClaim {
    One(String),
    Many(Vec<String>),
}

impl Default for AudienceClaim {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl TokenClaims {
    /// Parses the payload of a JWT. `None` if the token is not a JWT.
    pub(super) fn parse(token: &str) -> Option<Self> {
        if token.len() > MAX_TOKEN_LENGTH {
            return None;
        }
        let mut parts = token.split('.');
        let (_, payload, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else {
            return None;
        };
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
    }

    /// Returns the UID of the Pod that the token says it belongs to.
    pub(super) fn pod_uid(&self) -> Option<&str> {
        Some(&self.kubernetes.as_ref()?.pod.as_ref()?.uid)
    }

    /// Reports whether the token was issued for an audience.
    pub(super) fn has_audience(&self, audience: &str) -> bool {
        match &self.audience {
            AudienceClaim::One(one) => one == audience,
            AudienceClaim::Many(many) => many.iter().any(|one| one == audience),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(payload: &str) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(payload))
    }

    #[test]
    fn one_audience_or_several_are_understood() {
        let one = TokenClaims::parse(&token(r#"{"aud":"parallax","exp":7}"#)).unwrap();
        assert!(one.has_audience("parallax") && !one.has_audience("other"));
        assert_eq!(one.expires, Some(7));
        let many = TokenClaims::parse(&token(r#"{"aud":["x","parallax"],"sub":"s"}"#)).unwrap();
        assert!(many.has_audience("parallax"));
        assert!(!TokenClaims::parse(&token("{}")).unwrap().has_audience("parallax"));
    }

    #[test]
    fn the_pod_of_a_bound_token_is_read() {
        let bound = r#"{"kubernetes.io":{"namespace":"parallax","pod":{"name":"prober-1","uid":"uid-1"}}}"#;
        assert_eq!(
            TokenClaims::parse(&token(bound)).unwrap().pod_uid(),
            Some("uid-1")
        );
        for unbound in ["{}", r#"{"kubernetes.io":{}}"#, r#"{"kubernetes.io":null}"#] {
            assert_eq!(TokenClaims::parse(&token(unbound)).unwrap().pod_uid(), None);
        }
    }

    #[test]
    fn text_that_is_not_a_jwt_is_rejected() {
        let long = "a".repeat(MAX_TOKEN_LENGTH + 1);
        for text in [
            "",
            "..",
            "a.b",
            "a.b.c.d",
            "e30.e30",
            "e30.!!.e30",
            "e30.bnVsbA.e30",
            &long,
        ] {
            assert_eq!(TokenClaims::parse(text), None, "{text:.20}");
        }
    }
}
