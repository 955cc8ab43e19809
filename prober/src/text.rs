//! Text that a peer may have written, made fit for a log or a terminal.

/// Longest [`ProbeResult::detail`], in characters; certificates can carry pages of names.
const MAX_DETAIL: usize = 300;

/// Text of a library that may quote the peer.
pub(crate) fn tamed(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_DETAIL)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_library_quotes_of_the_peer_is_bounded_and_without_control_characters() {
        let said = tamed(&format!("\u{1b}[31m{}", "x".repeat(1000)));
        assert_eq!(said.chars().count(), MAX_DETAIL);
        assert!(!said.contains('\u{1b}'));
    }
}
