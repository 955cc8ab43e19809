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
    identity: Option<AuthenticatedProber>,
}

impl ProberGate {
    /// Reports whether each prober has its own identity, so that it cannot report for another vantage.
    pub(crate) const fn authenticates_probers(&self) -> bool {
        matches!(self, Self::Accounts(_))
    }

    /// Authenticates a request.
    pub(crate) async fn authenticate(&self, headers: &HeaderMap) -> Result<AdmittedProber, ApiError> {
        match self {
            Self::Open => Ok(AdmittedProber::default()),
            Self::Secret(token) => headers
                .get(header::AUTHORIZATION)
                .filter(|shown| token.matches_header(shown.as_bytes()))
                .map(|_| AdmittedProber::default())
                .ok_or_else(ApiError::unauthorized),
            Self::Accounts(identity) => Ok(AdmittedProber {
                identity: Some(identity.authenticate(headers).await?),
            }),
        }
    }

    /// Checks that the prober may report for a vantage.
    pub(crate) fn check_may_report(
        &self,
        admitted: &AdmittedProber,
        vantage: &Vantage,
    ) -> Result<(), ApiError> {
        if let (Self::Accounts(identity), Some(caller)) = (self, &admitted.identity) {
            identity.check_may_report(caller)?;
        }
        self.check_vantage(admitted, vantage)
    }

    /// Checks that the prober may request the plan of a vantage.
    pub(crate) fn check_vantage(&self, admitted: &AdmittedProber, vantage: &Vantage) -> Result<(), ApiError> {
        if let (Self::Accounts(identity), Some(caller)) = (self, &admitted.identity) {
            identity.check_vantage(caller, vantage)?;
        }
        Ok(())
    }
}

impl AdmittedProber {
    /// When its token expires, if known.
    pub(crate) fn expires(&self) -> Option<Instant> {
        self.identity.as_ref().map(|caller| caller.expires)
    }

    /// Its vantage, if probers have their own tokens.
    pub(crate) fn vantage(&self) -> Option<&Vantage> {
        self.identity.as_ref().map(|caller| &caller.vantage)
    }

    /// Reports whether its account is that of a responder, which makes no probes.
    pub(crate) fn is_responder(&self) -> bool {
        self.identity
            .as_ref()
            .is_some_and(|caller| caller.role == ProberRole::Responder)
    }
}

impl From<AuthenticationError> for ApiError {
    fn from(refused: AuthenticationError) -> Self {
        let AuthenticationError { reason, .. } = refused;
        Self::rejected(reason.status(), reason.label(), reason.message())
    }
}

impl ApiError {
    /// An authentication error; `reason` is the label value of the metric.
    fn rejected(status: StatusCode, reason: &str, sentence: &str) -> Self {
        Self::with_body(status, serde_json::json!({"error": sentence, "reason": reason}))
    }
}
