//! Helpers for error messages.

use serde::de::Unexpected;

/// Translates serde's name of a type to the terms of the file.
pub(super) fn expected_type(serde: &str) -> &str {
    match serde {
        "u64" | "u32" => "a whole number",
        "u16" => "a whole number from 0 to 65535",
        "u8" => "a whole number from 0 to 255",
        "a sequence" => "a list",
        "a boolean" => "true or false",
        _ if serde.starts_with("struct ") => "a mapping",
        _ => serde,
    }
}

/// Describes an unexpected value. Long text is truncated, since it may be the whole file.
pub(super) fn describe_value(value: Unexpected<'_>) -> String {
    match value {
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Unsigned(value) => value.to_string(),
        Unexpected::Signed(value) => value.to_string(),
        Unexpected::Float(value) => value.to_string(),
        Unexpected::Str(text) => format!("{:?}", text.chars().take(80).collect::<String>()),
        Unexpected::Unit | Unexpected::Option => "nothing".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a mapping".to_owned(),
        other => other.to_string(),
    }
}

/// Joins alternatives: `a, b or c`.
pub(super) fn join_alternatives(words: &[&str]) -> String {
    match words {
        [] => "nothing".to_owned(),
        [only] => (*only).to_owned(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

/// Returns the most similar word, if it differs by at most two edits.
pub(super) fn most_similar(word: &str, known: &[&'static str]) -> Option<&'static str> {
    known
        .iter()
        .map(|field| (edit_distance(word, field), *field))
        .min()
        .filter(|(distance, _)| *distance <= 2)
        .map(|(_, field)| field)
}

/// Returns the edit distance of two words, ignoring case, dashes and underscores (`interval-ms` equals `intervalMs`).
fn edit_distance(a: &str, b: &str) -> usize {
    let plain = |word: &str| -> String {
        word.chars()
            .take(64)
            .filter(|c| !"-_".contains(*c))
            .flat_map(char::to_lowercase)
            .collect()
    };
    strsim::levenshtein(&plain(a), &plain(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_recognised_and_another_word_is_not() {
        let known = &["intervalMs", "timeoutMs", "targets"];
        assert_eq!(most_similar("intervallMs", known), Some("intervalMs"));
        assert_eq!(most_similar("interval-ms", known), Some("intervalMs"));
        assert_eq!(most_similar("target", known), Some("targets"));
        assert_eq!(most_similar("retries", known), None);
    }

    #[test]
    fn alternatives_read_as_a_sentence() {
        assert_eq!(join_alternatives(&["a", "b", "c"]), "a, b or c");
        assert_eq!(join_alternatives(&["a"]), "a");
    }
}
