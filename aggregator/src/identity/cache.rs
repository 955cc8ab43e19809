//! Cache of token reviews by token hash, bounded in size; no entry outlives its token.

use std::{collections::BTreeMap, time::Duration};

use parallax_model::Vantage;
use ring::digest;
use tokio::time::Instant;

use super::{refusal::RefusalReason, review::TokenSubject};

/// Maximum number of accepted tokens: three for each prober of a 5 000-node mesh (old token, new token, Pod being
/// replaced).
const MOST: usize = 16_384;
/// Maximum number of rejected tokens, cached briefly to spare the API server.
const MOST_REFUSED: usize = 1_024;

/// TTL of a rejection: a revoked token in use causes six reviews a minute.
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// TTL of an accepted token. The Pod is looked up on every request, so this bounds only how long the token of a deleted
/// `ServiceAccount` keeps working while its Pod runs.
const FRESH: Duration = Duration::from_mins(5);
/// TTL for enrolled vantages, which have no Pod: a revoked vantage is rejected after this at the latest.
const FRESH_OUTSIDE: Duration = Duration::from_mins(1);
/// Time between reviews of a known token while the API server is unavailable. Known tokens keep working.
const ASK_AGAIN: Duration = Duration::from_secs(15);

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
    pub(super) outside: Option<Vantage>,
}

#[derive(Debug)]
struct CacheEntry {
    holder: TokenHolder,
    /// When the token must be reviewed again.
    fresh: Instant,
    /// Expiry of the token.
    end: Instant,
}

/// Result of a cache lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CachedIdentity {
    /// Accepted recently.
    Fresh(TokenHolder),
    /// Accepted earlier: review it again; valid if the API server is unavailable.
    Stale(TokenHolder),
    /// Rejected recently.
    Refused(RefusalReason),
    Nothing,
}

/// The cache.
#[derive(Debug, Default)]
pub(super) struct TokenCache {
    held: BTreeMap<TokenHash, CacheEntry>,
    refused: BTreeMap<TokenHash, (RefusalReason, Instant)>,
}

impl TokenCache {
    pub(super) fn look(&self, hash: &TokenHash) -> CachedIdentity {
        let now = Instant::now();
        if let Some(entry) = self.held.get(hash).filter(|entry| now < entry.end) {
            let holder = entry.holder.clone();
            return if now < entry.fresh {
                CachedIdentity::Fresh(holder)
            } else {
                CachedIdentity::Stale(holder)
            };
        }
        match self.refused.get(hash) {
            Some((reason, until)) if now < *until => CachedIdentity::Refused(*reason),
            _ => CachedIdentity::Nothing,
        }
    }

    /// Caches a holder for the remaining lifetime of the token.
    pub(super) fn hold(&mut self, hash: TokenHash, holder: TokenHolder, good_for: Duration) {
        let now = Instant::now();
        let stands = if holder.outside.is_some() {
            FRESH_OUTSIDE
        } else {
            FRESH
        };
        self.refused.remove(&hash);
        if !self.held.contains_key(&hash) {
            make_room(&mut self.held, MOST, now, |entry| entry.end);
        }
        self.held.insert(
            hash,
            CacheEntry {
                holder,
                fresh: now + stands,
                end: now + good_for,
            },
        );
    }

    /// Caches a rejection briefly and removes an earlier acceptance.
    pub(super) fn refuse(&mut self, hash: TokenHash, reason: RefusalReason) {
        let now = Instant::now();
        self.held.remove(&hash);
        make_room(&mut self.refused, MOST_REFUSED, now, |(_, until)| *until);
        self.refused.insert(hash, (reason, now + REFUSED_FOR));
    }

    /// Extends a known token while the API server is unavailable, so that not every request waits for a review.
    pub(super) fn postpone(&mut self, hash: &TokenHash) {
        if let Some(entry) = self.held.get_mut(hash) {
            entry.fresh = Instant::now() + ASK_AGAIN;
        }
    }

    /// Removes the token of a deleted Pod.
    pub(super) fn forget(&mut self, hash: &TokenHash) {
        self.held.remove(hash);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.held.len() + self.refused.len()
    }
}

/// Evicts expired entries, then those that expire first.
fn make_room<T>(map: &mut BTreeMap<TokenHash, T>, most: usize, now: Instant, end: impl Fn(&T) -> Instant) {
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
            outside: outside.map(|text| text.parse().unwrap()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_said_is_believed_for_a_while_then_asked_again_and_never_past_the_tokens_end() {
        let mut cache = TokenCache::default();
        let hash = TokenHash::of("a");
        cache.hold(hash, holder(None), Duration::from_hours(1));
        assert_eq!(cache.look(&hash), CachedIdentity::Fresh(holder(None)));
        tokio::time::advance(FRESH).await;
        assert_eq!(cache.look(&hash), CachedIdentity::Stale(holder(None)));
        cache.postpone(&hash);
        assert_eq!(cache.look(&hash), CachedIdentity::Fresh(holder(None)));
        tokio::time::advance(Duration::from_hours(1)).await;
        cache.postpone(&hash);
        assert_eq!(cache.look(&hash), CachedIdentity::Nothing);
    }

    #[tokio::test(start_paused = true)]
    async fn an_enrolled_vantage_is_asked_for_sooner_as_no_pod_vouches_for_it() {
        let mut cache = TokenCache::default();
        let hash = TokenHash::of("a");
        cache.hold(hash, holder(Some("vpc:bastion")), Duration::from_hours(1));
        tokio::time::advance(FRESH_OUTSIDE).await;
        assert!(matches!(cache.look(&hash), CachedIdentity::Stale(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_replaces_what_was_known_and_is_soon_forgotten() {
        let mut cache = TokenCache::default();
        let hash = TokenHash::of("a");
        cache.hold(hash, holder(None), Duration::from_hours(1));
        cache.refuse(hash, RefusalReason::Invalid);
        assert_eq!(cache.look(&hash), CachedIdentity::Refused(RefusalReason::Invalid));
        tokio::time::advance(REFUSED_FOR).await;
        assert_eq!(cache.look(&hash), CachedIdentity::Nothing);
    }

    #[tokio::test(start_paused = true)]
    async fn however_many_tokens_come_the_memory_is_bounded_and_the_newest_are_known() {
        let mut cache = TokenCache::default();
        let hash = |i: usize| TokenHash::of(&i.to_string());
        for i in 0..MOST + 50 {
            let seconds = u64::try_from(i).unwrap();
            cache.hold(hash(i), holder(None), Duration::from_secs(10_000 + seconds));
            cache.refuse(hash(MOST + 100 + i), RefusalReason::Invalid);
        }
        assert_eq!(cache.len(), MOST + MOST_REFUSED);
        assert_eq!(cache.look(&hash(0)), CachedIdentity::Nothing);
        assert!(matches!(cache.look(&hash(MOST + 49)), CachedIdentity::Fresh(_)));
    }
}
