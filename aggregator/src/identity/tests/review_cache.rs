//! Cached reviews, and an unavailable API server.

use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};

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

#[tokio::test(start_paused = true)]
async fn forged_tokens_delay_neither_a_known_token_nor_that_of_a_running_pod() {
    let harness = Scene::new();
    harness.vantage(&harness.good).await;
    tokio::time::advance(Duration::from_mins(6)).await;
    harness.world.stalled.store(true, Ordering::Relaxed);
    // Half of them name the Pod of a prober, whose UID is not a secret.
    let forged: Vec<String> = (0..100)
        .map(|i| {
            let pod = (i % 2 == 0).then_some("uid-1");
            token_of_pod("parallax", 3_600, &format!("forged-{i}"), pod)
        })
        .collect();
    let mut waiting: FuturesUnordered<_> = forged.iter().map(|token| harness.admit(token)).collect();
    assert!(waiting.next().now_or_never().is_none(), "all of them wait");
    let known = harness.admit(&harness.good).now_or_never();
    assert!(matches!(known, Some(Ok(_))), "{known:?}");
    // The aggregator has never seen the token of a Pod that has just started.
    let mut pods = harness.world.pods.lock();
    pods.insert("uid-2".to_owned(), pod("prober-2", "n2", Network::Pod));
    drop(pods);
    let started = token_of_pod("parallax", 3_600, "started", Some("uid-2"));
    harness.knows(&started, Ok(subject("parallax/prober", Some("uid-2"), None)));
    let started = harness.admit(&started).now_or_never();
    assert!(matches!(started, Some(Ok(_))), "{started:?}");
}
