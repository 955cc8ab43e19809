//! Explains a waiting Challenge: the meaning of its reason, and whether skipping the self check is advisable.

use std::fmt::Write as _;

use parallax_api::preflight::CheckState;
use parallax_model::Vantage;

use super::{cert_manager::Challenge, challenge_reason::ChallengeReason, judge::HostVerdict};

/// Returns the meaning of the reason as one sentence.
#[must_use]
pub fn explain_reason(challenge: &Challenge, reason: &ChallengeReason) -> String {
    let status = &challenge.status;
    let text = match reason {
        ChallengeReason::NoReason if !status.processing => {
            "cert-manager has not started it: it is queued (at most 60 at once and one per name), not failing"
                .to_owned()
        }
        ChallengeReason::NoReason if !status.presented => "its solver does not exist yet".to_owned(),
        ChallengeReason::NoReason => "cert-manager reports no reason yet".to_owned(),
        ChallengeReason::SelfCheck(failure) => {
            let mut text = format!("cert-manager's self check: {}", failure.kind.description());
            if let Some(status) = failure.status {
                let _ = write!(text, " ({status})");
            }
            if let Some(address) = failure.address {
                let _ = write!(text, " at {address}");
            }
            if let Some(resolver) = failure.resolver {
                let _ = write!(text, ", according to {resolver}");
            }
            format!(
                "{text}; cert-manager repeats the check indefinitely; usual causes: {}",
                failure.usual_causes.join(", ")
            )
        }
        ChallengeReason::SelfCheckSkipped(time) => {
            format!(
                "the self check is skipped: cert-manager waits {time}, then requests validation from the CA (waitInsteadOfSelfCheck)"
            )
        }
        ChallengeReason::RejectedByCa(text) => {
            format!("the CA has rejected it, and the order is over: {text}")
        }
        ChallengeReason::NotPresented(text) => format!("its solver could not be created: {text}"),
        ChallengeReason::Unrecognized(text) => format!("cert-manager reports: {text}"),
    };
    text.replace(char::is_control, " ")
}

/// Skipping the self check is advisable only if nodes fail and the internet gets through; in all other cases it
/// uses up orders. Returns `None` if the self check does not fail or is already skipped.
#[must_use]
pub fn skip_self_check_advice(judged: &HostVerdict, challenge: &Challenge) -> Option<SkipSelfCheckAdvice> {
    let outside = judged.ca.passed.iter().any(Vantage::is_on_internet);
    let failing = matches!(judged.self_check.state, CheckState::Failed | CheckState::AtRisk);
    if !failing || challenge.spec.solver.wait_instead_of_self_check.is_some() {
        return None;
    }
    Some(if judged.ca.state == CheckState::Passed && outside {
        SkipSelfCheckAdvice::Recommended
    } else {
        SkipSelfCheckAdvice::NoEvidence
    })
}

/// Whether `waitInsteadOfSelfCheck` is a workaround.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipSelfCheckAdvice {
    /// Vantages on the internet get through and nodes do not.
    Recommended,
    /// There is no evidence that the CA gets through.
    NoEvidence,
}

impl SkipSelfCheckAdvice {
    /// Returns the advice as one sentence.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Recommended => {
                "Workaround: clients on the internet get through and nodes do not, so waitInsteadOfSelfCheck: 60s in the issuer's solver (cert-manager 1.21) skips the only check that fails."
            }
            Self::NoEvidence => {
                "waitInsteadOfSelfCheck would skip the self check, but there is no evidence that the CA gets through: a failed validation ends the order, and five failures within an hour block all orders for the name. Test from outside first."
            }
        }
    }
}
