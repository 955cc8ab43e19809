//! Settings of the whole mesh: the round length, the probe timeout, and times derived from them.

use parallax_model::Micros;

/// Settings of the whole mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Length of a round; must not be zero.
    pub interval: Micros,
    /// Longest timeout of any probe.
    pub timeout: Micros,
}

/// TTL of the `CoreDNS` cache (`cache 30`), for positive and negative answers.
pub(crate) const CACHE_TTL: Micros = Micros::from_secs(30);

/// How long a cache may return an answer from before a change, if its TTL is not known.
pub(crate) fn cache_ttl(settings: Settings) -> Micros {
    cache_allowance(CACHE_TTL, settings.interval)
}

/// How long a cache may return an answer from before a change: the TTL, plus two rounds until the resolver has
/// learned of the change.
pub(crate) fn cache_allowance(ttl: Micros, interval: Micros) -> Micros {
    Micros(ttl.0.saturating_add(interval.0.saturating_mul(2)))
}
