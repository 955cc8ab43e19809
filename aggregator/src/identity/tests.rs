mod rejections;
mod review_cache;

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
    /// The API server never answers about unknown tokens.
    stalled: AtomicBool,
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
        if self.0.stalled.load(Ordering::Relaxed) && !self.0.tokens.lock().contains_key(token) {
            return Box::pin(std::future::pending());
        }
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
    token_of_pod(audience, expires_in, mark, None)
}

/// A token that names a Pod, as bound tokens do.
fn token_of_pod(audience: &str, expires_in: i64, mark: &str, pod: Option<&str>) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let end = i64::try_from(now.as_secs()).unwrap() + expires_in;
    let mut payload = serde_json::json!({"aud": [audience], "exp": end, "jti": mark});
    if let Some(uid) = pod {
        payload["kubernetes.io"] = serde_json::json!({"pod": {"uid": uid}});
    }
    let payload = payload.to_string();
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
        let harness = Self {
            world,
            identity,
            metrics,
            good,
        };
        harness.knows(
            &harness.good,
            Ok(subject("parallax/prober", Some("uid-1"), Some("n1"))),
        );
        harness
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
    let harness = Scene::new();
    assert_eq!(harness.vantage(&harness.good).await, "n1/pod");
    harness
        .world
        .pods
        .lock()
        .insert("uid-2".to_owned(), pod("host-1", "n2", Network::Host));
    let host = token("parallax", 3_600, "host");
    // An older API server does not return the node.
    harness.knows(&host, Ok(subject("parallax/prober", Some("uid-2"), None)));
    assert_eq!(harness.vantage(&host).await, "n2/host");
}

#[tokio::test]
async fn a_responder_is_known_and_reports_nothing() {
    let harness = Scene::new();
    let responder = token("parallax", 3_600, "responder");
    harness.knows(&responder, Ok(subject("parallax/responder", Some("uid-1"), None)));
    let caller = harness.admit(&responder).await.unwrap();
    assert_eq!(caller.role, ProberRole::Responder);
    assert!(harness.identity.check_may_report(&caller).is_err());
    let prober = harness.admit(&harness.good).await.unwrap();
    assert!(harness.identity.check_may_report(&prober).is_ok());
}

#[tokio::test]
async fn a_pod_that_is_gone_takes_its_token_along() {
    let harness = Scene::new();
    harness.vantage(&harness.good).await;
    let gone = harness.world.pods.lock().remove("uid-1").unwrap();
    assert_eq!(harness.reason(&harness.good).await, RefusalReason::UnknownPod);
    // The cache entry is gone: the token is reviewed again even if a Pod with that UID reappears.
    harness.world.pods.lock().insert("uid-1".to_owned(), gone);
    let before = harness.reviews();
    harness.vantage(&harness.good).await;
    assert_eq!(harness.reviews(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn an_enrolled_vantage_is_accepted_until_it_is_revoked() {
    let harness = Scene::new();
    let outside = token("parallax", 86_400, "outside");
    let account = "parallax/parallax-vantage-laptop";
    harness.knows(&outside, Ok(subject(account, None, None)));
    harness
        .world
        .enrolled
        .lock()
        .insert(account.to_owned(), "internet:laptop".parse().unwrap());
    assert_eq!(harness.vantage(&outside).await, "internet:laptop");
    harness.world.tokens.lock().clear();
    tokio::time::advance(Duration::from_mins(1)).await;
    assert_eq!(harness.reason(&outside).await, RefusalReason::Invalid);
    // The same labels in another namespace do not enrol a vantage.
    let other_token = token("parallax", 86_400, "elsewhere");
    harness.knows(
        &other_token,
        Ok(subject("shop/parallax-vantage-laptop", None, None)),
    );
    assert_eq!(harness.reason(&other_token).await, RefusalReason::WrongAccount);
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
