//! Formats lists, counts and probabilities for sentences.

/// Maximum number of names in a list within a sentence.
pub(crate) const MAX_LISTED_NAMES: usize = 6;

/// "n2", "n2 and n3", "n2, n3 and 4 more".
pub(crate) fn join_names(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        [one] => one.clone(),
        _ if names.len() <= MAX_LISTED_NAMES => {
            let (last, rest) = names.split_last().map_or(("", &[][..]), |(l, r)| (l.as_str(), r));
            format!("{} and {last}", rest.join(", "))
        }
        _ => format!(
            "{} and {} more",
            names[..MAX_LISTED_NAMES].join(", "),
            names.len() - MAX_LISTED_NAMES
        ),
    }
}

/// "1 node", "3 nodes".
pub(crate) fn pluralize(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

/// Formats a probability, always rounded down.
pub(crate) fn format_probability(probability: f64) -> String {
    // Two digits would round to certainty, which no evidence gives.
    if probability > 0.99 {
        return "over 0.99".to_owned();
    }
    // The epsilon keeps exact hundredths that a float represents slightly too small.
    let hundredths = libm::floor(probability * 100.0 + 1e-9);
    format!("{:.2}", hundredths / 100.0)
}
