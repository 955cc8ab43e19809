//! Cached reviews, and an unavailable API server.

use super::*;

#[tokio::test(start_paused = true)]
async fn reviews_are_cached_until_their_ttl_expires() {
    let scene = Scene::new();
    for _ in 0..100 {
        scene.vantage(&scene.good).await;
    }
    assert_eq!(scene.reviews(), 1);
    tokio::time::advance(Duration::from_mins(6)).await;
    scene.vantage(&scene.good).await;
    assert_eq!(scene.reviews(), 2);
    // Rejections are cached too, briefly.
    let forged = token("parallax", 3_600, "forged");
    for _ in 0..100 {
        assert_eq!(scene.reason(&forged).await, RefusalReason::Invalid);
    }
    assert_eq!(scene.reviews(), 3);
}

#[tokio::test(start_paused = true)]
async fn known_tokens_keep_working_while_the_api_server_is_unavailable() {
    let scene = Scene::new();
    scene.vantage(&scene.good).await;
    scene.world.away.store(true, Ordering::Relaxed);
    let fresh = token("parallax", 3_600, "fresh");
    assert_eq!(scene.reason(&fresh).await, RefusalReason::ReviewUnavailable);
    assert_eq!(
        RefusalReason::ReviewUnavailable.status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
    let before = scene.reviews();
    for _ in 0..10 {
        tokio::time::advance(Duration::from_mins(1)).await;
        for _ in 0..10 {
            assert_eq!(scene.vantage(&scene.good).await, "n1/pod");
        }
    }
    let asked = scene.reviews() - before;
    assert!(
        (1..=10).contains(&asked),
        "not every request waits for an unavailable API server: {asked}"
    );
    // The API server is back and rejects the token, which was revoked in the meantime.
    scene.world.away.store(false, Ordering::Relaxed);
    scene.world.tokens.lock().clear();
    tokio::time::advance(Duration::from_mins(1)).await;
    assert_eq!(scene.reason(&scene.good).await, RefusalReason::Invalid);
}

#[tokio::test(start_paused = true)]
async fn a_known_token_works_to_its_end_and_no_longer_even_while_the_api_server_is_away() {
    let scene = Scene::new();
    let short = token("parallax", 600, "short");
    scene.knows(&short, Ok(subject("parallax/prober", Some("uid-1"), None)));
    scene.vantage(&short).await;
    scene.world.away.store(true, Ordering::Relaxed);
    tokio::time::advance(Duration::from_secs(599)).await;
    scene.vantage(&short).await;
    tokio::time::advance(Duration::from_secs(2)).await;
    // By the wall clock, which this test does not advance, the token is still valid; the cache entry expires
    // regardless.
    assert_eq!(scene.reason(&short).await, RefusalReason::ReviewUnavailable);
}
