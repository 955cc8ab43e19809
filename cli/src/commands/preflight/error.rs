//! Why a preflight came to no verdict: the command line says it, a Preflight object's conditions give it a reason.

use crate::exit::Failure;

/// What stood in the way. Each is the reason of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoVerdictReason {
    /// A name that no challenge over HTTP is for.
    InvalidHost,
    /// What is asked for cannot be meant.
    Invalid,
    /// An issuer, Certificate or Ingress that is not there.
    NotFound,
    /// The issuer makes no challenges that could be foreseen.
    NotAcme,
    /// None of the issuer's solvers is for the name.
    NoSolver,
    /// The solver answers by DNS, or cert-manager refuses it.
    NoHttpSolver,
    /// cert-manager would edit an Ingress that serves others.
    EditInPlace,
    /// It costs money, and nobody allowed that.
    Billable,
    /// A right is missing.
    Forbidden,
    /// An admission webhook or policy refuses what cert-manager would make.
    AdmissionRefused,
    /// The responder does not run, or its route is not taken up.
    NotReady,
    /// Another one makes the same preflight just now.
    Busy,
    /// Somebody removed the responder in the middle.
    Replaced,
    /// The API server does not answer, or answers otherwise than it should.
    ApiServer,
    /// The aggregator cannot be reached, or has no room.
    AggregatorUnreachable,
    /// The aggregator refuses the run.
    AggregatorRefused,
    /// What was created is still there.
    NotRemoved,
    /// This machine gives no random numbers.
    NoRandomness,
    /// It was told to stop.
    Interrupted,
}

impl NoVerdictReason {
    /// As a condition's reason.
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

    /// Whether it may be another way in a moment though nobody changes what is asked for.
    pub(super) const fn passes(self) -> bool {
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

    pub(super) const fn but(self, failure: Failure) -> NoVerdict {
        NoVerdict { why: self, failure }
    }

    pub(super) const fn usage(self, said: String) -> NoVerdict {
        self.but(Failure::Usage(said))
    }

    pub(super) const fn could_not(self, said: String) -> NoVerdict {
        self.but(Failure::CouldNot(said))
    }
}

/// No verdict, with the reason.
#[derive(Debug)]
pub(super) struct NoVerdict {
    pub(super) why: NoVerdictReason,
    pub(super) failure: Failure,
}

impl NoVerdict {
    /// Of what the aggregator answers, or of that it does not.
    pub(super) const fn of_the_aggregator(failure: Failure) -> Self {
        let why = match failure {
            Failure::Usage(_) => NoVerdictReason::AggregatorRefused,
            Failure::No | Failure::CouldNot(_) | Failure::NotNow(_) => NoVerdictReason::AggregatorUnreachable,
        };
        why.but(failure)
    }
}

impl From<NoVerdict> for Failure {
    fn from(trouble: NoVerdict) -> Self {
        trouble.failure
    }
}
