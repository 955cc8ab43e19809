//! What holds for the whole mesh: the length of a round, the deadline of a probe, and the times that follow from them.

use parallax_model::Micros;

/// What holds for the whole mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Length of a round; not zero.
    pub interval: Micros,
    /// Longest timeout of any probe.
    pub timeout: Micros,
}

/// The TTL of `CoreDNS`'s cache (`cache 30`) for answers with and without addresses.
const CACHE_TTL: Micros = Micros::from_secs(30);

/// How long a cache may repeat what was true before a change, with two rounds until the resolver has learned of it.
pub(crate) fn cache_ttl(settings: Settings) -> Micros {
    Micros(CACHE_TTL.0.saturating_add(settings.interval.0.saturating_mul(2)))
}
