//! Makes untrusted text safe for a terminal: bounded, and without characters that control the terminal or
//! hide text.

/// Maximum number of characters of one text.
const MAX_CHARS: usize = 160;

/// Escapes all characters that a terminal would interpret or not display, and truncates long text.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len().min(MAX_CHARS));
    for (n, c) in text.chars().enumerate() {
        if n == MAX_CHARS {
            safe.push('…');
            break;
        }
        if is_unsafe(c) {
            safe.extend(c.escape_unicode());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Whether the character controls the terminal, or reorders or hides text (Unicode's bidirectional and
/// invisible format characters).
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        assert_eq!(escape("\u{1b}[31mred\r\n"), r"\u{1b}[31mred\u{d}\u{a}");
        assert_eq!(escape("gpj.\u{202e}exe"), r"gpj.\u{202e}exe");
        assert_eq!(escape("Bücher, 日本"), "Bücher, 日本");
    }

    proptest! {
        #[test]
        fn whatever_comes_is_bounded_and_acts_on_nothing(text in "(?s).{0,400}") {
            let safe = escape(&text);
            prop_assert!(!safe.chars().any(is_unsafe));
            // An escaped character has at most ten characters.
            prop_assert!(safe.chars().count() <= MAX_CHARS * 10 + 1);
        }
    }
}
