use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use axum::http::{HeaderValue, StatusCode};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use futures_util::future::BoxFuture;
use parallax_model::Network;

use super::{review::ReviewerUnavailable, *};
use parallax_kubernetes::{object_key::ObjectKey, prober_pods::ProberPod};

/// State of the fake API server and Pod watch; a test can change it while it runs.
#[derive(Debug, Default)]
struct World {
    tokens: Mutex<BTreeMap<String, Result<TokenSubject, RefusalReason>>>,
    enrolled: Mutex<BTreeMap<String, Vantage>>,
    away: AtomicBool,
    reviews: AtomicU64,
    pods: Mutex<BTreeMap<String, ProberPod>>,
    not_listed_yet: AtomicBool,
}

#[derive(Debug, Clone)]
struct Shown(Arc<World>);

impl TokenReviewer for Shown {
    fn review<'a>(
        &'a self,
        token: &'a str,
        _audience: &'a str,
    ) -> BoxFuture<'a, Result<Result<TokenSubject, RefusalReason>, ReviewerUnavailable>> {
        self.0.reviews.fetch_add(1, Ordering::Relaxed);
        let answer = if self.0.away.load(Ordering::Relaxed) {
            Err(ReviewerUnavailable("connection refused".to_owned()))
        } else {
            Ok(self
                .0
                .tokens
                .lock()
                .get(token)
                .cloned()
                .unwrap_or(Err(RefusalReason::Invalid)))
        };
        Box::pin(async move { answer })
    }

    fn enrolled_vantage<'a>(
        &'a self,
        account: &'a ObjectKey,
    ) -> BoxFuture<'a, Result<Option<Vantage>, ReviewerUnavailable>> {
        let found = self.0.enrolled.lock().get(&account.to_string()).cloned();
        Box::pin(async move { Ok(found) })
    }
}

impl ProberPods for Shown {
    fn find(&self, uid: &str) -> PodLookup {
        if self.0.not_listed_yet.load(Ordering::Relaxed) {
            return PodLookup::NotSynced;
        }
        self.0
            .pods
            .lock()
            .get(uid)
            .cloned()
            .map_or(PodLookup::Unknown, PodLookup::Known)
    }
}

fn token(audience: &str, expires_in: i64, mark: &str) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let end = i64::try_from(now.as_secs()).unwrap() + expires_in;
    let payload = serde_json::json!({"aud": [audience], "exp": end, "jti": mark}).to_string();
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(payload))
}

fn headers(token: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let value = format!("Bearer {token}");
    headers.insert(header::AUTHORIZATION, HeaderValue::from_str(&value).unwrap());
    headers
}

fn subject(account: &str, uid: Option<&str>, node: Option<&str>) -> TokenSubject {
    TokenSubject {
        account: account.parse().unwrap(),
        pod_uid: uid.map(str::to_owned),
        node: node.map(str::to_owned),
    }
}

fn pod(name: &str, node: &str, network: Network) -> ProberPod {
    ProberPod {
        name: name.parse().unwrap(),
        node: node.parse().unwrap(),
        network,
    }
}

struct Scene {
    world: Arc<World>,
    identity: ProberAuthenticator,
    metrics: IdentityMetrics,
    good: String,
}

impl Scene {
    /// Starts with one prober Pod on n1 and its token.
    fn new() -> Self {
        let world = Arc::new(World::default());
        let good = token("parallax", 3_600, "good");
        world
            .pods
            .lock()
            .insert("uid-1".to_owned(), pod("prober-1", "n1", Network::Pod));
        let options = IdentityOptions {
            audience: "parallax".to_owned(),
            probers: vec!["parallax/prober".parse().unwrap()],
            responders: vec!["parallax/responder".parse().unwrap()],
            vantages: Some("parallax".parse().unwrap()),
        };
        let metrics = IdentityMetrics::new();
        let shown = Shown(world.clone());
        let identity = ProberAuthenticator::with_reviewer(
            options,
            Box::new(shown.clone()),
            Arc::new(shown),
            metrics.clone(),
        );
        let scene = Self {
            world,
            identity,
            metrics,
            good,
        };
        scene.knows(
            &scene.good,
            Ok(subject("parallax/prober", Some("uid-1"), Some("n1"))),
        );
        scene
    }

    fn knows(&self, token: &str, answer: Result<TokenSubject, RefusalReason>) {
        self.world.tokens.lock().insert(token.to_owned(), answer);
    }

    async fn admit(&self, token: &str) -> Result<AuthenticatedProber, AuthenticationError> {
        self.identity.authenticate(&headers(token)).await
    }

    async fn vantage(&self, token: &str) -> String {
        self.admit(token).await.unwrap().vantage.to_string()
    }

    async fn reason(&self, token: &str) -> RefusalReason {
        self.admit(token).await.unwrap_err().reason
    }

    fn reviews(&self) -> u64 {
        self.world.reviews.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn a_token_leads_to_its_pod_and_the_pod_to_node_and_network() {
    let scene = Scene::new();
    assert_eq!(scene.vantage(&scene.good).await, "n1/pod");
    scene
        .world
        .pods
        .lock()
        .insert("uid-2".to_owned(), pod("host-1", "n2", Network::Host));
    let host = token("parallax", 3_600, "host");
    // An older API server does not return the node.
    scene.knows(&host, Ok(subject("parallax/prober", Some("uid-2"), None)));
    assert_eq!(scene.vantage(&host).await, "n2/host");
}

#[tokio::test]
async fn rejections_have_a_reason_and_are_counted() {
    let scene = Scene::new();
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
            scene.knows(&token, answer);
        }
        let before = scene.metrics.rejected_count(expected);
        let refused = scene.admit(&token).await.unwrap_err();
        assert_eq!((refused.reason, expected.status()), (expected, status));
        assert_eq!(scene.metrics.rejected_count(expected), before + 1, "{expected:?}");
    }
    let missing = scene.identity.authenticate(&HeaderMap::new()).await.unwrap_err();
    assert_eq!(missing.reason, RefusalReason::Missing);
}

#[tokio::test]
async fn a_prober_cannot_act_for_another_vantage() {
    let scene = Scene::new();
    let caller = scene.admit(&scene.good).await.unwrap();
    let vantage = |text: &str| text.parse::<Vantage>().unwrap();
    assert!(scene.identity.check_vantage(&caller, &vantage("n1/pod")).is_ok());
    for other in ["n2/pod", "n1/host", "internet:laptop"] {
        let refused = scene
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
    assert_eq!(scene.metrics.rejected_count(RefusalReason::OtherVantage), 3);
}

#[tokio::test]
async fn a_responder_is_known_and_reports_nothing() {
    let scene = Scene::new();
    let responder = token("parallax", 3_600, "responder");
    scene.knows(&responder, Ok(subject("parallax/responder", Some("uid-1"), None)));
    let caller = scene.admit(&responder).await.unwrap();
    assert_eq!(caller.role, ProberRole::Responder);
    assert!(scene.identity.check_may_report(&caller).is_err());
    let prober = scene.admit(&scene.good).await.unwrap();
    assert!(scene.identity.check_may_report(&prober).is_ok());
}

#[tokio::test]
async fn a_pod_that_is_gone_takes_its_token_along() {
    let scene = Scene::new();
    scene.vantage(&scene.good).await;
    let gone = scene.world.pods.lock().remove("uid-1").unwrap();
    assert_eq!(scene.reason(&scene.good).await, RefusalReason::UnknownPod);
    // The cache entry is gone: the token is reviewed again even if a Pod with that UID reappears.
    scene.world.pods.lock().insert("uid-1".to_owned(), gone);
    let before = scene.reviews();
    scene.vantage(&scene.good).await;
    assert_eq!(scene.reviews(), before + 1);
}

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

#[tokio::test(start_paused = true)]
async fn an_enrolled_vantage_is_accepted_until_it_is_revoked() {
    let scene = Scene::new();
    let outside = token("parallax", 86_400, "outside");
    let account = "parallax/parallax-vantage-laptop";
    scene.knows(&outside, Ok(subject(account, None, None)));
    scene
        .world
        .enrolled
        .lock()
        .insert(account.to_owned(), "internet:laptop".parse().unwrap());
    assert_eq!(scene.vantage(&outside).await, "internet:laptop");
    scene.world.tokens.lock().clear();
    tokio::time::advance(Duration::from_mins(1)).await;
    assert_eq!(scene.reason(&outside).await, RefusalReason::Invalid);
    // The same labels in another namespace do not enrol a vantage.
    let elsewhere = token("parallax", 86_400, "elsewhere");
    scene.knows(
        &elsewhere,
        Ok(subject("shop/parallax-vantage-laptop", None, None)),
    );
    assert_eq!(scene.reason(&elsewhere).await, RefusalReason::WrongAccount);
}

#[tokio::test]
async fn before_the_pods_are_listed_rejections_are_temporary() {
    let scene = Scene::new();
    scene.world.not_listed_yet.store(true, Ordering::Relaxed);
    assert_eq!(scene.reason(&scene.good).await, RefusalReason::PodsUnknown);
    assert_eq!(
        RefusalReason::PodsUnknown.status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
    scene.world.not_listed_yet.store(false, Ordering::Relaxed);
    assert_eq!(scene.vantage(&scene.good).await, "n1/pod");
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

#[test]
fn the_documentation_explains_every_reason_with_its_status_and_no_other() {
    let page = include_str!("../../../docs/use/install.md");
    let rows: Vec<(&str, &str)> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .filter_map(|(reason, rest)| Some((reason, rest.split_once(" |")?.0)))
        .filter(|(_, status)| status.parse::<u16>().is_ok())
        .collect();
    let expected: Vec<(&str, String)> = RefusalReason::ALL
        .iter()
        .map(|reason| (reason.label(), reason.status().as_u16().to_string()))
        .collect();
    let expected: Vec<(&str, &str)> = expected
        .iter()
        .map(|(reason, status)| (*reason, status.as_str()))
        .collect();
    assert_eq!(rows, expected);
}
