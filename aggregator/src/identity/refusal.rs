//! Reasons to reject a prober, each with an HTTP status, a metric label and an error message.

use axum::http::StatusCode;

/// The closed list of reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RefusalReason {
    /// No `Authorization: Bearer`.
    Missing,
    /// Not a token of Kubernetes.
    Malformed,
    /// Issued for another audience.
    WrongAudience,
    /// Expired.
    Expired,
    /// Rejected by the API server: forged, revoked, or its Pod or `ServiceAccount` no longer exists.
    Invalid,
    /// The `ServiceAccount` is not a prober's.
    WrongAccount,
    /// A prober's `ServiceAccount`, but the token is not bound to a Pod.
    NotBound,
    /// The Pod is not among the watched prober Pods.
    UnknownPod,
    /// The token names another node than its Pod's.
    OtherNode,
    /// The request is for another vantage than the prober's own.
    OtherVantage,
    /// The API server is unavailable, and the token is not cached.
    ReviewUnavailable,
    /// The prober Pods have not been listed yet.
    PodsUnknown,
}

impl RefusalReason {
    pub(crate) const ALL: [Self; 12] = [
        Self::Missing,
        Self::Malformed,
        Self::WrongAudience,
        Self::Expired,
        Self::Invalid,
        Self::WrongAccount,
        Self::NotBound,
        Self::UnknownPod,
        Self::OtherNode,
        Self::OtherVantage,
        Self::ReviewUnavailable,
        Self::PodsUnknown,
    ];

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Missing => "missing_token",
            Self::Malformed => "malformed_token",
            Self::WrongAudience => "wrong_audience",
            Self::Expired => "expired_token",
            Self::Invalid => "invalid_token",
            Self::WrongAccount => "wrong_account",
            Self::NotBound => "not_bound",
            Self::UnknownPod => "unknown_pod",
            Self::OtherNode => "other_node",
            Self::OtherVantage => "other_vantage",
            Self::ReviewUnavailable => "review_unavailable",
            Self::PodsUnknown => "pods_unknown",
        }
    }

    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::Missing | Self::Malformed | Self::WrongAudience | Self::Expired | Self::Invalid => {
                StatusCode::UNAUTHORIZED
            }
            Self::WrongAccount | Self::NotBound | Self::UnknownPod | Self::OtherNode | Self::OtherVantage => {
                StatusCode::FORBIDDEN
            }
            Self::ReviewUnavailable | Self::PodsUnknown => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns the error message.
    pub(crate) const fn message(self) -> &'static str {
        match self {
            Self::Missing => "expected the header authorization: Bearer TOKEN with the prober's own token",
            Self::Malformed => "the token is not a ServiceAccount token of Kubernetes",
            Self::WrongAudience => {
                "the token was issued for another audience; project a token with the audience of identity.audience"
            }
            Self::Expired => "the token has expired; reread the projected token file",
            Self::Invalid => "the API server does not accept the token",
            Self::WrongAccount => "the ServiceAccount is neither a prober's nor an enrolled vantage's",
            Self::NotBound => "the token is not bound to a Pod; use a projected token",
            Self::UnknownPod => {
                "the token's Pod is not among the known prober Pods; a new Pod becomes known within seconds"
            }
            Self::OtherNode => "the token names another node than the one its Pod runs on",
            Self::OtherVantage => "a prober may act only for its own node and network",
            Self::ReviewUnavailable => {
                "cannot review the token: the API server is unavailable; retry the request"
            }
            Self::PodsUnknown => "the prober Pods have not been listed yet; retry the request",
        }
    }
}

/// A rejected prober.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuthenticationError {
    pub(crate) reason: RefusalReason,
    /// The sender, as far as it is known. Its parts come from the API server or were validated, so it cannot inject log
    /// lines.
    pub(crate) sender: String,
}

impl AuthenticationError {
    pub(crate) fn without_sender(reason: RefusalReason) -> Self {
        Self {
            reason,
            sender: String::new(),
        }
    }

    pub(crate) fn new(reason: RefusalReason, sender: String) -> Self {
        Self { reason, sender }
    }
}
