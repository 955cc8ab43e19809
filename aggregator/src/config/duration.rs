//! Durations with a unit, such as `10m`.

use parallax_model::{Micros, units};

/// Parses a duration with s, m, h or d; `None` unless it is within the minimum and maximum, in seconds.
pub(super) fn parse_within(text: &str, (min, max): (u64, u64)) -> Option<Micros> {
    units::parse_with_unit(text, &units::SECONDS)
        .filter(|seconds| (min..=max).contains(seconds))
        .map(Micros::from_secs)
}
