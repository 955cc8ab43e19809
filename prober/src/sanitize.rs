//! Sanitizes text that may come from a peer for logs and terminals.

/// Maximum length of a detail in characters; certificates can contain pages of names.
const MAX_DETAIL: usize = 300;

/// Shortens text that may quote the peer, and replaces control characters by spaces.
pub(crate) fn sanitized(text: &str) -> String {
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
        let text = sanitized(&format!("\u{1b}[31m{}", "x".repeat(1000)));
        assert_eq!(text.chars().count(), MAX_DETAIL);
        assert!(!text.contains('\u{1b}'));
    }
}
