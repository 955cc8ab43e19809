//! What is to be said of a Challenge that waits: its reason in our words, and whether skipping the self check is right.

use std::fmt::Write as _;

use parallax_api::preflight::CheckState;

use super::{fetch::of_the_internet, judge::HostVerdict, reason::SelfCheckFailure, types::Challenge};

/// What its reason means, in a sentence.
#[must_use]
pub fn meaning(challenge: &Challenge, waiting: &SelfCheckFailure) -> String {
    let status = &challenge.status;
    let said = match waiting {
        SelfCheckFailure::Nothing if !status.processing => {
            "cert-manager has not started it: it is queued (at most 60 at once, and one for each name), not failing"
                .to_owned()
        }
        SelfCheckFailure::Nothing if !status.presented => "its solver is not there yet".to_owned(),
        SelfCheckFailure::Nothing => "cert-manager says nothing of it yet".to_owned(),
        SelfCheckFailure::SelfCheck(failure) => {
            let mut said = format!("cert-manager's self check: {}", failure.kind.words());
            if let Some(status) = failure.status {
                let _ = write!(said, " ({status})");
            }
            if let Some(address) = failure.address {
                let _ = write!(said, " at {address}");
            }
            if let Some(resolver) = failure.resolver {
                let _ = write!(said, ", as {resolver} says");
            }
            format!("{said}; it repeats that for ever, often {}", failure.usual.join(", "))
        }
        SelfCheckFailure::Delay(time) => {
            format!("the self check is skipped: it waits {time} and then asks the CA (waitInsteadOfSelfCheck)")
        }
        SelfCheckFailure::Refused(said) => format!("the CA has refused it, and the order is over: {said}"),
        SelfCheckFailure::NotPresented(said) => format!("its solver could not be made: {said}"),
        SelfCheckFailure::Other(said) => format!("cert-manager says: {said}"),
    };
    said.replace(char::is_control, " ")
}

/// Skipping the self check is right precisely where nodes fail and the internet does not; elsewhere it burns orders.
/// Nothing where the self check does not fail, or is skipped already.
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

/// Whether `waitInsteadOfSelfCheck` is a way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipSelfCheck {
    /// The internet gets through and nodes do not.
    Right,
    /// Nothing shows that the CA gets through.
    NotShown,
}

impl SkipSelfCheck {
    /// In a sentence.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Right => {
                "Way out: the internet gets through and nodes do not, so waitInsteadOfSelfCheck: 60s in the issuer's solver (cert-manager 1.21) skips the one check that fails."
            }
            Self::NotShown => {
                "waitInsteadOfSelfCheck would skip the self check, but nothing shows that the CA gets through: a failed validation ends the order, and five an hour end all. Ask from outside first."
            }
        }
    }
}
