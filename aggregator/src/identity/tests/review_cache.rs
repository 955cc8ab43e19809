//! Cached reviews, and an unavailable API server.

use super::*;

#[tokio::test(start_paused = true)]
async fn reviews_are_cached_until_their_ttl_expires() {
    let harness = Scene::new();
    for _ in 0..100 {
        harness.vantage(&harness.good).await;
    }
    assert_eq!(harness.reviews(), 1);
    tokio::time::advance(Duration::from_mins(6)).await;
    harness.vantage(&harness.good).await;
    assert_eq!(harness.reviews(), 2);
    // Rejections are cached too, briefly.
    let forged = token("parallax", 3_600, "forged");
    for _ in 0..100 {
        assert_eq!(harness.reason(&forged).await, RefusalReason::Invalid);
    }
    assert_eq!(harness.reviews(), 3);
}

#[tokio::test(start_paused = true)]
async fn known_tokens_keep_working_while_the_api_server_is_unavailable() {
    let harness = Scene::new();
    harness.vantage(&harness.good).await;
    harness.world.away.store(true, Ordering::Relaxed);
    let fresh = token("parallax", 3_600, "fresh");
    assert_eq!(harness.reason(&fresh).await, RefusalReason::ReviewUnavailable);
    assert_eq!(
        RefusalReason::ReviewUnavailable.status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
    let before = harness.reviews();
    for _ in 0..10 {
        tokio::time::advance(Duration::from_mins(1)).await;
        for _ in 0..10 {
            assert_eq!(harness.vantage(&harness.good).await, "n1/pod");
        }
    }
    let reviews = harness.reviews() - before;
    assert!(
        (1..=10).contains(&reviews),
        "not every request waits for an unavailable API server: {reviews}"
    );
    // The API server is back and rejects the token, which was revoked in the meantime.
    harness.world.away.store(false, Ordering::Relaxed);
    harness.world.tokens.lock().clear();
    tokio::time::advance(Duration::from_mins(1)).await;
    assert_eq!(harness.reason(&harness.good).await, RefusalReason::Invalid);
}

#[tokio::test(start_paused = true)]
async fn a_known_token_works_to_its_end_and_no_longer_even_while_the_api_server_is_away() {
    let harness = Scene::new();
    let short = token("parallax", 600, "short");
    harness.knows(&short, Ok(subject("parallax/prober", Some("uid-1"), None)));
    harness.vantage(&short).await;
    harness.world.away.store(true, Ordering::Relaxed);
    tokio::time::advance(Duration::from_secs(599)).await;
    harness.vantage(&short).await;
    tokio::time::advance(Duration::from_secs(2)).await;
    // By the wall clock, which this test does not advance, the token is still valid; the cache entry expires
    // regardless.
    assert_eq!(harness.reason(&short).await, RefusalReason::ReviewUnavailable);
}
