//! Why a prober is not let in. Each reason is a status, a label of a metric, and a sentence for whoever has to mend it.

use axum::http::StatusCode;

/// The closed list of reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RefusalReason {
    /// No `Authorization: Bearer`.
    Missing,
    /// Not a token of Kubernetes at all.
    Malformed,
    /// Meant for somebody else.
    WrongAudience,
    /// Past its end.
    Expired,
    /// The API server does not know it: forged, revoked, or its Pod or account is gone.
    Invalid,
    /// An account that is no prober's.
    WrongAccount,
    /// A prober's account, but a token that no Pod holds.
    NotBound,
    /// A Pod that the watch does not know as a prober.
    UnknownPod,
    /// The token names another node than the Pod is on.
    OtherNode,
    /// Speaks for another vantage than its own.
    OtherVantage,
    /// The API server cannot be asked, and this token has not been seen.
    ReviewUnavailable,
    /// The watch of prober Pods has not begun.
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

    /// What was expected.
    pub(crate) const fn sentence(self) -> &'static str {
        match self {
            Self::Missing => "expected the header authorization: Bearer TOKEN with the prober's own token",
            Self::Malformed => "expected a ServiceAccount token of Kubernetes",
            Self::WrongAudience => {
                "the token is meant for another audience; expected one projected with the audience of identity.audience"
            }
            Self::Expired => "the token has expired; read the projected file again",
            Self::Invalid => "the API server does not accept the token",
            Self::WrongAccount => "the account is neither a prober's nor an enrolled vantage's",
            Self::NotBound => "expected a token that is bound to a Pod, as projected ones are",
            Self::UnknownPod => "the token's Pod is not known as a prober; a new one is within seconds",
            Self::OtherNode => "the token names another node than the one its Pod runs on",
            Self::OtherVantage => "a prober speaks for its own node and network only",
            Self::ReviewUnavailable => {
                "the API server cannot be asked about the token at present; come again"
            }
            Self::PodsUnknown => "the prober Pods are not known yet; come again",
        }
    }
}

/// Somebody was not let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuthenticationError {
    pub(crate) reason: RefusalReason,
    /// Who it was, as far as that is known. Names come from the API server or were parsed: nothing of it can break a
    /// line of the log.
    pub(crate) who: String,
}

impl AuthenticationError {
    pub(crate) fn because(reason: RefusalReason) -> Self {
        Self {
            reason,
            who: String::new(),
        }
    }

    pub(crate) fn of(reason: RefusalReason, who: String) -> Self {
        Self { reason, who }
    }
}
