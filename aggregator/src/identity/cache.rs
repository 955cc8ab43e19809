//! Cache of token reviews by token hash, bounded in size; no entry outlives its token.

use std::{collections::BTreeMap, time::Duration};

use parallax_model::Vantage;
use ring::digest;
use tokio::time::Instant;

use super::{refusal::RefusalReason, review::TokenSubject};

/// Maximum number of accepted tokens: three for each prober of a 5 000-node mesh (old token, new token, Pod being
/// replaced).
const MAX_ACCEPTED: usize = 16_384;
/// Maximum number of rejected tokens, cached briefly to spare the API server.
const MAX_REJECTED: usize = 1_024;

/// TTL of a rejection: a revoked token in use causes six reviews a minute.
const REJECTION_TTL: Duration = Duration::from_secs(10);
/// TTL of an accepted token. The Pod is looked up on every request, so this bounds only how long the token of a deleted
/// `ServiceAccount` keeps working while its Pod runs.
const POD_TOKEN_TTL: Duration = Duration::from_mins(5);
/// TTL for enrolled vantages, which have no Pod: a revoked vantage is rejected after this at the latest.
const ENROLLED_TOKEN_TTL: Duration = Duration::from_mins(1);
/// Time between reviews of a known token while the API server is unavailable. Known tokens keep working.
const REVIEW_RETRY_DELAY: Duration = Duration::from_secs(15);

/// SHA-256 of a token; the token itself is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TokenHash([u8; 32]);

impl TokenHash {
    pub(super) fn of(token: &str) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
        Self(hash)
    }
}

/// The holder of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TokenHolder {
    pub(super) subject: TokenSubject,
    /// The enrolled vantage, if the holder is not a Pod.
    pub(super) enrolled_vantage: Option<Vantage>,
}

#[derive(Debug)]
struct CacheEntry {
    holder: TokenHolder,
    /// When the token must be reviewed again.
    fresh_until: Instant,
    /// Expiry of the token.
    expires: Instant,
}

/// Result of a cache lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CachedIdentity {
    /// Accepted recently.
    Fresh(TokenHolder),
    /// Accepted earlier: review it again; valid if the API server is unavailable.
    Stale(TokenHolder),
    /// Rejected recently.
    Rejected(RefusalReason),
    Unknown,
}

/// The cache.
#[derive(Debug, Default)]
pub(super) struct TokenCache {
    accepted: BTreeMap<TokenHash, CacheEntry>,
    rejected: BTreeMap<TokenHash, (RefusalReason, Instant)>,
}

impl TokenCache {
    pub(super) fn get(&self, hash: &TokenHash) -> CachedIdentity {
        let now = Instant::now();
        if let Some(entry) = self.accepted.get(hash).filter(|entry| now < entry.expires) {
            let holder = entry.holder.clone();
            return if now < entry.fresh_until {
                CachedIdentity::Fresh(holder)
            } else {
                CachedIdentity::Stale(holder)
            };
        }
        match self.rejected.get(hash) {
            Some((reason, until)) if now < *until => CachedIdentity::Rejected(*reason),
            _ => CachedIdentity::Unknown,
        }
    }

    /// Caches a holder for the remaining lifetime of the token.
    pub(super) fn insert(&mut self, hash: TokenHash, holder: TokenHolder, good_for: Duration) {
        let now = Instant::now();
        let stands = if holder.enrolled_vantage.is_some() {
            ENROLLED_TOKEN_TTL
        } else {
            POD_TOKEN_TTL
        };
        self.rejected.remove(&hash);
        if !self.accepted.contains_key(&hash) {
            evict(&mut self.accepted, MAX_ACCEPTED, now, |entry| entry.expires);
        }
        self.accepted.insert(
            hash,
            CacheEntry {
                holder,
                fresh_until: now + stands,
                expires: now + good_for,
            },
        );
    }

    /// Caches a rejection briefly and removes an earlier acceptance.
    pub(super) fn insert_rejection(&mut self, hash: TokenHash, reason: RefusalReason) {
        let now = Instant::now();
        self.accepted.remove(&hash);
        evict(&mut self.rejected, MAX_REJECTED, now, |(_, until)| *until);
        self.rejected.insert(hash, (reason, now + REJECTION_TTL));
    }

    /// Extends a known token while the API server is unavailable, so that not every request waits for a review.
    pub(super) fn extend(&mut self, hash: &TokenHash) {
        if let Some(entry) = self.accepted.get_mut(hash) {
            entry.fresh_until = Instant::now() + REVIEW_RETRY_DELAY;
        }
    }

    /// Removes the token of a deleted Pod.
    pub(super) fn remove(&mut self, hash: &TokenHash) {
        self.accepted.remove(hash);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.accepted.len() + self.rejected.len()
    }
}

/// Evicts expired entries, then those that expire first.
fn evict<T>(map: &mut BTreeMap<TokenHash, T>, most: usize, now: Instant, end: impl Fn(&T) -> Instant) {
    if map.len() < most {
        return;
    }
    map.retain(|_, entry| now < end(entry));
    while map.len() >= most {
        let first = map
            .iter()
            .min_by_key(|(_, entry)| end(entry))
            .map(|(hash, _)| *hash);
        let Some(first) = first else { return };
        map.remove(&first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(outside: Option<&str>) -> TokenHolder {
        TokenHolder {
            subject: TokenSubject {
                account: "parallax/parallax-prober".parse().unwrap(),
                pod_uid: Some("uid-1".to_owned()),
                node: None,
            },
            enrolled_vantage: outside.map(|text| text.parse().unwrap()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn entries_become_stale_and_never_outlive_the_token() {
        let mut cache = TokenCache::default();
        let hash = TokenHash::of("a");
        cache.insert(hash, holder(None), Duration::from_hours(1));
        assert_eq!(cache.get(&hash), CachedIdentity::Fresh(holder(None)));
        tokio::time::advance(POD_TOKEN_TTL).await;
        assert_eq!(cache.get(&hash), CachedIdentity::Stale(holder(None)));
        cache.extend(&hash);
        assert_eq!(cache.get(&hash), CachedIdentity::Fresh(holder(None)));
        tokio::time::advance(Duration::from_hours(1)).await;
        cache.extend(&hash);
        assert_eq!(cache.get(&hash), CachedIdentity::Unknown);
    }

    #[tokio::test(start_paused = true)]
    async fn enrolled_vantages_have_a_shorter_ttl() {
        let mut cache = TokenCache::default();
        let hash = TokenHash::of("a");
        cache.insert(hash, holder(Some("vpc:bastion")), Duration::from_hours(1));
        tokio::time::advance(ENROLLED_TOKEN_TTL).await;
        assert!(matches!(cache.get(&hash), CachedIdentity::Stale(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_rejection_replaces_an_acceptance_and_expires_soon() {
        let mut cache = TokenCache::default();
        let hash = TokenHash::of("a");
        cache.insert(hash, holder(None), Duration::from_hours(1));
        cache.insert_rejection(hash, RefusalReason::Invalid);
        assert_eq!(cache.get(&hash), CachedIdentity::Rejected(RefusalReason::Invalid));
        tokio::time::advance(REJECTION_TTL).await;
        assert_eq!(cache.get(&hash), CachedIdentity::Unknown);
    }

    #[tokio::test(start_paused = true)]
    async fn the_cache_is_bounded_and_evicts_what_expires_first() {
        let mut cache = TokenCache::default();
        let hash = |i: usize| TokenHash::of(&i.to_string());
        for i in 0..MAX_ACCEPTED + 50 {
            let seconds = u64::try_from(i).unwrap();
            cache.insert(hash(i), holder(None), Duration::from_secs(10_000 + seconds));
            cache.insert_rejection(hash(MAX_ACCEPTED + 100 + i), RefusalReason::Invalid);
        }
        assert_eq!(cache.len(), MAX_ACCEPTED + MAX_REJECTED);
        assert_eq!(cache.get(&hash(0)), CachedIdentity::Unknown);
        assert!(matches!(
            cache.get(&hash(MAX_ACCEPTED + 49)),
            CachedIdentity::Fresh(_)
        ));
    }
}
