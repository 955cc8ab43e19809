//! Suppresses repeated log messages about the same failure.

/// The reason with which a failure was last logged. Repetitions are not logged, other reasons are.
#[derive(Debug, Default)]
pub(crate) struct LoggedReason(Option<String>);

impl LoggedReason {
    /// Records the reason of a failure and reports whether it is to be logged.
    pub(crate) fn is_new(&mut self, reason: &str) -> bool {
        if self.0.as_deref() == Some(reason) {
            return false;
        }
        self.0 = Some(reason.to_owned());
        true
    }

    /// Records the end of a failure and reports whether there was one.
    pub(crate) fn clear(&mut self) -> bool {
        self.0.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_new_once_and_again_after_another_one_or_after_the_end() {
        let mut logged = LoggedReason::default();
        assert!(!logged.clear());
        assert!(logged.is_new("no CA file"));
        assert!(!logged.is_new("no CA file"));
        assert!(logged.is_new("the name does not resolve"));
        assert!(logged.is_new("no CA file"));
        assert!(logged.clear());
        assert!(logged.is_new("no CA file"));
    }
}
