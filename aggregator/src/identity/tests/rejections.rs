//! Rejected tokens and vantages.

use super::*;

#[tokio::test]
async fn rejections_have_a_reason_and_are_counted() {
    let harness = Scene::new();
    let mark = |mark: &str| token("parallax", 3_600, mark);
    let cases = [
        (
            RefusalReason::Malformed,
            StatusCode::UNAUTHORIZED,
            "no-jwt-at-all".to_owned(),
            None,
        ),
        (
            RefusalReason::WrongAudience,
            StatusCode::UNAUTHORIZED,
            token("https://kubernetes.default.svc", 3_600, "a"),
            None,
        ),
        (
            RefusalReason::Expired,
            StatusCode::UNAUTHORIZED,
            token("parallax", -1, "b"),
            None,
        ),
        (
            RefusalReason::Invalid,
            StatusCode::UNAUTHORIZED,
            mark("forged"),
            None,
        ),
        // The claims contain the audience but the review does not: the review decides.
        (
            RefusalReason::WrongAudience,
            StatusCode::UNAUTHORIZED,
            mark("c"),
            Some(Err(RefusalReason::WrongAudience)),
        ),
        (
            RefusalReason::WrongAccount,
            StatusCode::FORBIDDEN,
            mark("another account of the namespace"),
            Some(Ok(subject("parallax/default", Some("uid-1"), None))),
        ),
        (
            RefusalReason::WrongAccount,
            StatusCode::FORBIDDEN,
            mark("the same name elsewhere"),
            Some(Ok(subject("shop/prober", Some("uid-1"), None))),
        ),
        (
            RefusalReason::NotBound,
            StatusCode::FORBIDDEN,
            mark("made by hand"),
            Some(Ok(subject("parallax/prober", None, None))),
        ),
        (
            RefusalReason::UnknownPod,
            StatusCode::FORBIDDEN,
            mark("not watched"),
            Some(Ok(subject("parallax/prober", Some("uid-9"), None))),
        ),
        (
            RefusalReason::OtherNode,
            StatusCode::FORBIDDEN,
            mark("moved"),
            Some(Ok(subject("parallax/prober", Some("uid-1"), Some("n2")))),
        ),
    ];
    for (expected, status, token, answer) in cases {
        if let Some(answer) = answer {
            harness.knows(&token, answer);
        }
        let before = harness.metrics.rejected_count(expected);
        let refused = harness.admit(&token).await.unwrap_err();
        assert_eq!((refused.reason, expected.status()), (expected, status));
        assert_eq!(
            harness.metrics.rejected_count(expected),
            before + 1,
            "{expected:?}"
        );
    }
    let missing = harness
        .identity
        .authenticate(&HeaderMap::new())
        .await
        .unwrap_err();
    assert_eq!(missing.reason, RefusalReason::Missing);
}

#[tokio::test]
async fn a_prober_cannot_act_for_another_vantage() {
    let harness = Scene::new();
    let caller = harness.admit(&harness.good).await.unwrap();
    let vantage = |text: &str| text.parse::<Vantage>().unwrap();
    assert!(
        harness
            .identity
            .check_vantage(&caller, &vantage("n1/pod"))
            .is_ok()
    );
    for other in ["n2/pod", "n1/host", "internet:laptop"] {
        let refused = harness
            .identity
            .check_vantage(&caller, &vantage(other))
            .unwrap_err();
        assert_eq!(refused.reason, RefusalReason::OtherVantage);
        assert!(
            refused.sender.contains("n1/pod") && refused.sender.contains(other),
            "{}",
            refused.sender
        );
    }
    assert_eq!(harness.metrics.rejected_count(RefusalReason::OtherVantage), 3);
}

#[tokio::test]
async fn before_the_pods_are_listed_rejections_are_temporary() {
    let harness = Scene::new();
    harness.world.not_listed_yet.store(true, Ordering::Relaxed);
    assert_eq!(harness.reason(&harness.good).await, RefusalReason::PodsUnknown);
    assert_eq!(
        RefusalReason::PodsUnknown.status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
    harness.world.not_listed_yet.store(false, Ordering::Relaxed);
    assert_eq!(harness.vantage(&harness.good).await, "n1/pod");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_one_reason_is_one_line_now_and_then_and_hides_no_other_reason() {
    let log = RefusalLog::default();
    assert_eq!(log.take_suppressed(RefusalReason::Invalid), Some(0));
    for _ in 0..1_000 {
        assert_eq!(log.take_suppressed(RefusalReason::Invalid), None);
    }
    assert_eq!(log.take_suppressed(RefusalReason::OtherVantage), Some(0));
    tokio::time::advance(LOG_INTERVAL).await;
    assert_eq!(log.take_suppressed(RefusalReason::Invalid), Some(1_000));
    assert_eq!(log.take_suppressed(RefusalReason::Invalid), None);
}
