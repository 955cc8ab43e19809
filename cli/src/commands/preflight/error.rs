//! The reasons for which a preflight has no verdict: exit codes of the command, and condition reasons of a
//! Preflight object.

use crate::exit::Failure;

/// Why there is no verdict. Each value is the reason of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoVerdictReason {
    /// The name cannot have an HTTP-01 challenge.
    InvalidHost,
    /// The request contradicts itself.
    Invalid,
    /// The Issuer, Certificate or Ingress does not exist.
    NotFound,
    /// The issuer does not create ACME challenges.
    NotAcme,
    /// No solver of the issuer applies to the name.
    NoSolver,
    /// The solver uses DNS-01, or cert-manager rejects it.
    NoHttpSolver,
    /// cert-manager would edit an Ingress that serves other traffic.
    EditInPlace,
    /// The class costs money, and the request does not allow it.
    Billable,
    /// A permission is missing.
    Forbidden,
    /// An admission webhook or policy rejects objects that cert-manager would create too.
    AdmissionRefused,
    /// The responder does not run, or its route is not accepted.
    NotReady,
    /// Another process is making the same preflight.
    Busy,
    /// The responder was removed during the test.
    Replaced,
    /// The API server does not respond, or returns an error.
    ApiServer,
    /// The aggregator is unreachable or at its limit.
    AggregatorUnreachable,
    /// The aggregator rejects the run.
    AggregatorRefused,
    /// Created objects could not be removed.
    NotRemoved,
    /// The system supplies no random numbers.
    NoRandomness,
    /// The process was asked to stop.
    Interrupted,
}

impl NoVerdictReason {
    /// Returns the reason of a condition.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::InvalidHost => "InvalidHost",
            Self::Invalid => "Invalid",
            Self::NotFound => "NotFound",
            Self::NotAcme => "NotAcme",
            Self::NoSolver => "NoSolver",
            Self::NoHttpSolver => "NoHttpSolver",
            Self::EditInPlace => "EditInPlace",
            Self::Billable => "Billable",
            Self::Forbidden => "Forbidden",
            Self::AdmissionRefused => "AdmissionRefused",
            Self::NotReady => "NotReady",
            Self::Busy => "Busy",
            Self::Replaced => "Replaced",
            Self::ApiServer => "ApiServer",
            Self::AggregatorUnreachable => "AggregatorUnreachable",
            Self::AggregatorRefused => "AggregatorRefused",
            Self::NotRemoved => "NotRemoved",
            Self::NoRandomness => "NoRandomness",
            Self::Interrupted => "Interrupted",
        }
    }

    /// Reports whether a retry may succeed without a change of the request.
    pub(super) const fn is_temporary(self) -> bool {
        match self {
            Self::NotFound
            | Self::Forbidden
            | Self::NotReady
            | Self::Busy
            | Self::Replaced
            | Self::ApiServer
            | Self::AggregatorUnreachable
            | Self::AggregatorRefused
            | Self::NotRemoved
            | Self::NoRandomness
            | Self::Interrupted => true,
            Self::InvalidHost
            | Self::Invalid
            | Self::NotAcme
            | Self::NoSolver
            | Self::NoHttpSolver
            | Self::EditInPlace
            | Self::Billable
            | Self::AdmissionRefused => false,
        }
    }

    pub(super) const fn with_failure(self, failure: Failure) -> NoVerdict {
        NoVerdict {
            reason: self,
            failure,
        }
    }

    pub(super) const fn usage(self, message: String) -> NoVerdict {
        self.with_failure(Failure::Usage(message))
    }

    pub(super) const fn indeterminate(self, message: String) -> NoVerdict {
        self.with_failure(Failure::Indeterminate(message))
    }
}

/// A missing verdict, with its reason.
#[derive(Debug)]
pub(super) struct NoVerdict {
    pub(super) reason: NoVerdictReason,
    pub(super) failure: Failure,
}

impl NoVerdict {
    /// Converts an error response of the aggregator, or a failure to reach it.
    pub(super) const fn from_aggregator(failure: Failure) -> Self {
        let reason = match failure {
            Failure::Usage(_) => NoVerdictReason::AggregatorRefused,
            Failure::Negative | Failure::Indeterminate(_) | Failure::Unavailable(_) => {
                NoVerdictReason::AggregatorUnreachable
            }
        };
        reason.with_failure(failure)
    }
}

impl From<NoVerdict> for Failure {
    fn from(no_verdict: NoVerdict) -> Self {
        no_verdict.failure
    }
}
