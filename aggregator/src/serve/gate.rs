//! Authentication of probers: none, a shared secret, or `ServiceAccount` tokens.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode, header};
use parallax_model::Vantage;
use tokio::time::Instant;

use crate::{
    api_error::ApiError,
    identity::{AuthenticatedProber, AuthenticationError, ProberAuthenticator, ProberRole},
    token::BearerToken,
};

/// How probers authenticate for plans and reports.
#[derive(Debug, Clone)]
pub(crate) enum ProberGate {
    /// Standalone, without a secret.
    Open,
    /// Standalone, with a secret shared by all probers.
    Secret(BearerToken),
    /// In a cluster: each prober has its own token.
    Accounts(Arc<ProberAuthenticator>),
}

/// An authenticated prober.
#[derive(Debug, Clone, Default)]
pub(crate) struct AdmittedProber {
    /// Its identity; `None` unless probers have their own tokens.
    caller: Option<AuthenticatedProber>,
}

impl ProberGate {
    /// Reports whether each prober has its own identity, so that it cannot report for another vantage.
    pub(crate) const fn knows_callers(&self) -> bool {
        matches!(self, Self::Accounts(_))
    }

    /// Authenticates a request.
    pub(crate) async fn admit(&self, headers: &HeaderMap) -> Result<AdmittedProber, ApiError> {
        match self {
            Self::Open => Ok(AdmittedProber::default()),
            Self::Secret(token) => headers
                .get(header::AUTHORIZATION)
                .filter(|shown| token.opens(shown.as_bytes()))
                .map(|_| AdmittedProber::default())
                .ok_or_else(ApiError::unauthorized),
            Self::Accounts(identity) => Ok(AdmittedProber {
                caller: Some(identity.admit(headers).await?),
            }),
        }
    }

    /// Checks that the prober may report for a vantage.
    pub(crate) fn may_report(&self, admitted: &AdmittedProber, vantage: &Vantage) -> Result<(), ApiError> {
        if let (Self::Accounts(identity), Some(caller)) = (self, &admitted.caller) {
            identity.may_report(caller)?;
        }
        self.speaks_for(admitted, vantage)
    }

    /// Checks that the prober may request the plan of a vantage.
    pub(crate) fn speaks_for(&self, admitted: &AdmittedProber, vantage: &Vantage) -> Result<(), ApiError> {
        if let (Self::Accounts(identity), Some(caller)) = (self, &admitted.caller) {
            identity.speaks_for(caller, vantage)?;
        }
        Ok(())
    }
}

impl AdmittedProber {
    /// When its token expires, if known.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.caller.as_ref().map(|caller| caller.until)
    }

    /// Reports whether its account is that of a responder, which makes no probes.
    pub(crate) fn only_answers(&self) -> bool {
        self.caller
            .as_ref()
            .is_some_and(|caller| caller.role == ProberRole::Responder)
    }
}

impl From<AuthenticationError> for ApiError {
    fn from(refused: AuthenticationError) -> Self {
        let AuthenticationError { reason, .. } = refused;
        Self::refused(reason.status(), reason.label(), reason.sentence())
    }
}

impl ApiError {
    /// An authentication error; `reason` is the label value of the metric.
    fn refused(status: StatusCode, reason: &str, sentence: &str) -> Self {
        Self::with_body(status, serde_json::json!({"error": sentence, "reason": reason}))
    }
}
