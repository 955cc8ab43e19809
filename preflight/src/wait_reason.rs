//! Explains a waiting Challenge: the meaning of its reason, and whether skipping the self check is advisable.

use std::fmt::Write as _;

use parallax_api::preflight::CheckState;

use super::{fetch::of_the_internet, judge::HostVerdict, reason::SelfCheckFailure, types::Challenge};

/// Returns the meaning of the reason as one sentence.
#[must_use]
pub fn meaning(challenge: &Challenge, waiting: &SelfCheckFailure) -> String {
    let status = &challenge.status;
    let said = match waiting {
        SelfCheckFailure::Nothing if !status.processing => {
            "cert-manager has not started it: it is queued (at most 60 at once and one per name), not failing"
                .to_owned()
        }
        SelfCheckFailure::Nothing if !status.presented => "its solver does not exist yet".to_owned(),
        SelfCheckFailure::Nothing => "cert-manager reports no reason yet".to_owned(),
        SelfCheckFailure::SelfCheck(failure) => {
            let mut said = format!("cert-manager's self check: {}", failure.kind.words());
            if let Some(status) = failure.status {
                let _ = write!(said, " ({status})");
            }
            if let Some(address) = failure.address {
                let _ = write!(said, " at {address}");
            }
            if let Some(resolver) = failure.resolver {
                let _ = write!(said, ", according to {resolver}");
            }
            format!(
                "{said}; cert-manager repeats the check indefinitely; usual causes: {}",
                failure.usual.join(", ")
            )
        }
        SelfCheckFailure::Delay(time) => {
            format!(
                "the self check is skipped: cert-manager waits {time}, then requests validation from the CA (waitInsteadOfSelfCheck)"
            )
        }
        SelfCheckFailure::Refused(said) => format!("the CA has rejected it, and the order is over: {said}"),
        SelfCheckFailure::NotPresented(said) => format!("its solver could not be created: {said}"),
        SelfCheckFailure::Other(said) => format!("cert-manager reports: {said}"),
    };
    said.replace(char::is_control, " ")
}

/// Skipping the self check is advisable only if nodes fail and the internet gets through; in all other cases it
/// uses up orders. Returns `None` if the self check does not fail or is already skipped.
#[must_use]
pub fn wait_instead(judged: &HostVerdict, challenge: &Challenge) -> Option<SkipSelfCheck> {
    let outside = judged.ca.passed.iter().any(of_the_internet);
    let failing = matches!(
        judged.self_check.standing,
        CheckState::Failed | CheckState::AtRisk
    );
    if !failing || challenge.spec.solver.wait_instead_of_self_check.is_some() {
        return None;
    }
    Some(if judged.ca.standing == CheckState::Passed && outside {
        SkipSelfCheck::Right
    } else {
        SkipSelfCheck::NotShown
    })
}

/// Whether `waitInsteadOfSelfCheck` is a workaround.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipSelfCheck {
    /// Vantages on the internet get through and nodes do not.
    Right,
    /// There is no evidence that the CA gets through.
    NotShown,
}

impl SkipSelfCheck {
    /// Returns the advice as one sentence.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Right => {
                "Workaround: clients on the internet get through and nodes do not, so waitInsteadOfSelfCheck: 60s in the issuer's solver (cert-manager 1.21) skips the only check that fails."
            }
            Self::NotShown => {
                "waitInsteadOfSelfCheck would skip the self check, but there is no evidence that the CA gets through: a failed validation ends the order, and five failures within an hour block all orders for the name. Test from outside first."
            }
        }
    }
}
