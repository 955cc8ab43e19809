//! What the API server said of tokens, by their hash: bounded, and no longer believed than a token is good for.

use std::{collections::BTreeMap, time::Duration};

use parallax_model::Vantage;
use ring::digest;
use tokio::time::Instant;

use super::{refusal::RefusalReason, review::TokenSubject};

/// Tokens remembered: three for each prober of a 5 000-node mesh (an old and a new one, and a Pod that is being replaced).
const MOST: usize = 16_384;
/// Refused ones remembered, for a short time: enough to spare the API server, not enough to be worth filling.
const MOST_REFUSED: usize = 1_024;

/// How long a refusal stands without being asked again: a revoked token costs six reviews a minute.
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// How long the word of the API server stands. The Pod behind a token is looked up at each request, so this bounds only
/// for how long the token of an account that was removed works on while its Pod runs.
const FRESH: Duration = Duration::from_mins(5);
/// The same for enrolled vantages, which no Pod vouches for: a revoked one is out within this.
const FRESH_OUTSIDE: Duration = Duration::from_mins(1);
/// While the API server is away, known tokens work on and it is asked again after this.
const ASK_AGAIN: Duration = Duration::from_secs(15);

/// SHA-256 of a token; the token itself is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TokenHash([u8; 32]);

impl TokenHash {
    pub(super) fn of(token: &str) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
        Self(hash)
    }
}

/// Who holds a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TokenHolder {
    pub(super) subject: TokenSubject,
    /// The vantage that it was enrolled as, for one that is no Pod.
    pub(super) outside: Option<Vantage>,
}

#[derive(Debug)]
struct CacheEntry {
    holder: TokenHolder,
    /// The API server is asked again after this.
    fresh: Instant,
    /// The token's own end.
    end: Instant,
}

/// What is known of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CachedIdentity {
    /// As the API server said a short while ago.
    Fresh(TokenHolder),
    /// As it said once; it should be asked again, and holds where it cannot be asked.
    Stale(TokenHolder),
    /// It said no.
    Refused(RefusalReason),
    Nothing,
}

/// The memory.
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

    /// Remembers a holder for as long as the token is good.
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

    /// Remembers a refusal for a moment, and that nothing holds of what was said before.
    pub(super) fn refuse(&mut self, hash: TokenHash, reason: RefusalReason) {
        let now = Instant::now();
        self.held.remove(&hash);
        make_room(&mut self.refused, MOST_REFUSED, now, |(_, until)| *until);
        self.refused.insert(hash, (reason, now + REFUSED_FOR));
    }

    /// The API server could not be asked: what is known holds on, and not every request waits for it.
    pub(super) fn postpone(&mut self, hash: &TokenHash) {
        if let Some(entry) = self.held.get_mut(hash) {
            entry.fresh = Instant::now() + ASK_AGAIN;
        }
    }

    /// The Pod behind it is gone.
    pub(super) fn forget(&mut self, hash: &TokenHash) {
        self.held.remove(hash);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.held.len() + self.refused.len()
    }
}

/// Drops what is over; where that is not enough, what ends first.
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
