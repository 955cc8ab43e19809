//! Who may ask for plans and report: anybody, whoever shows the shared secret, or accounts of the cluster.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode, header};
use parallax_model::Vantage;
use tokio::time::Instant;

use crate::{
    api_error::ApiError,
    identity::{AuthenticatedProber, AuthenticationError, ProberAuthenticator, ProberRole},
    token::BearerToken,
};

/// The gate before plans and reports.
#[derive(Debug, Clone)]
pub(crate) enum ProberGate {
    /// Standalone, without a secret.
    Open,
    /// Standalone, with a secret that all probers share.
    Secret(BearerToken),
    /// In a cluster: each prober is who its token says.
    Accounts(Arc<ProberAuthenticator>),
}

/// Somebody who was let in.
#[derive(Debug, Clone, Default)]
pub(crate) struct AdmittedProber {
    /// Who it is, where the gate knows.
    caller: Option<AuthenticatedProber>,
}

impl ProberGate {
    /// Whether callers are known, so that nobody but themselves can speak for them.
    pub(crate) const fn knows_callers(&self) -> bool {
        matches!(self, Self::Accounts(_))
    }

    /// Lets a request in.
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

    /// Whether whoever was let in may report for a vantage.
    pub(crate) fn may_report(&self, admitted: &AdmittedProber, vantage: &Vantage) -> Result<(), ApiError> {
        if let (Self::Accounts(identity), Some(caller)) = (self, &admitted.caller) {
            identity.may_report(caller)?;
        }
        self.speaks_for(admitted, vantage)
    }

    /// Whether whoever was let in may ask for the plan of a vantage.
    pub(crate) fn speaks_for(&self, admitted: &AdmittedProber, vantage: &Vantage) -> Result<(), ApiError> {
        if let (Self::Accounts(identity), Some(caller)) = (self, &admitted.caller) {
            identity.speaks_for(caller, vantage)?;
        }
        Ok(())
    }
}

impl AdmittedProber {
    /// When its token ends, where that is known.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.caller.as_ref().map(|caller| caller.until)
    }

    /// Whether it only answers, as far as its account says so.
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
    /// Not let in: with the word that the metric counts it under.
    fn refused(status: StatusCode, reason: &str, sentence: &str) -> Self {
        Self::with_body(status, serde_json::json!({"error": sentence, "reason": reason}))
    }
}
