//! Classifies errors of the API server.

use std::time::Duration;

use kube::core::Status;

use super::{MAX_ERROR_LENGTH, Reflector, WatchEnd};
use crate::watch::{
    WatchedResource,
    health::{WatchFailure, WatchFailureReason},
};

/// Why a list failed.
pub(super) enum ListError {
    Absent,
    Failed(WatchFailure),
}

impl From<WatchFailure> for ListError {
    fn from(failure: WatchFailure) -> Self {
        Self::Failed(failure)
    }
}

impl<S: WatchedResource> Reflector<S> {
    pub(super) fn end_of_error(&self, error: &kube::Error) -> WatchEnd {
        match error {
            kube::Error::Api(status) => self.end_of_status(status),
            // The connection broke between two events; resuming from the known version loses nothing.
            _ => match self.list_error(error) {
                ListError::Absent => WatchEnd::Relist,
                ListError::Failed(failure) => WatchEnd::Failed(failure),
            },
        }
    }

    pub(super) fn end_of_status(&self, status: &Status) -> WatchEnd {
        if status.code == 410 || (status.code == 404 && self.source.is_optional()) {
            return WatchEnd::Relist;
        }
        WatchEnd::Failed(self.status_failure(status))
    }

    pub(super) fn list_error(&self, error: &kube::Error) -> ListError {
        match error {
            kube::Error::Api(status) if status.code == 404 && self.source.is_optional() => ListError::Absent,
            kube::Error::Api(status) => self.status_failure(status).into(),
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
                self.failure(WatchFailureReason::Other, error).into()
            }
            _ => self
                .failure(WatchFailureReason::Connection, &error_chain(error))
                .into(),
        }
    }

    fn status_failure(&self, status: &Status) -> WatchFailure {
        let reason = match status.code {
            410 => WatchFailureReason::Gone,
            401 | 403 => WatchFailureReason::Forbidden,
            429 | 500..=599 => WatchFailureReason::Unavailable,
            _ => WatchFailureReason::Other,
        };
        let advice = match reason {
            WatchFailureReason::Forbidden => format!(
                "; grant list and watch on {} to {}",
                match self.source.group() {
                    "" => self.source.plural().to_owned(),
                    group => format!("{}.{group}", self.source.plural()),
                },
                self.source.account()
            ),
            _ => String::new(),
        };
        let message: String = status.message.chars().take(MAX_ERROR_LENGTH).collect();
        let mut failure = self.failure(reason, &format_args!("{} {message}{advice}", status.code));
        let seconds = status
            .details
            .as_ref()
            .map_or(0, |details| details.retry_after_seconds);
        failure.retry_after = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
        failure
    }

    #[expect(clippy::unused_self, reason = "consistent with the other constructors")]
    pub(super) fn failure(
        &self,
        reason: WatchFailureReason,
        message: &impl std::fmt::Display,
    ) -> WatchFailure {
        let message: String = message.to_string().chars().filter(|c| !c.is_control()).collect();
        WatchFailure {
            reason,
            message,
            silent_for: Duration::ZERO,
            retry_after: None,
        }
    }
}

/// Formats an error with its sources: the reason of a failed connection is at the end of the chain.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text.chars().take(MAX_ERROR_LENGTH).collect()
}
