use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use k8s_openapi::api::authentication::v1::UserInfo;

use super::{
    AccessControl, AuthorizedUser, Permission, ReviewCache, UserAuthentication, review::ReviewClient,
};
use crate::{access::ProxyOptions, token::BearerToken};

fn headers(given: &[(&str, &str)]) -> HeaderMap {
    given
        .iter()
        .map(|(name, value)| {
            let name: HeaderName = name.parse().unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        })
        .collect()
}

async fn status(
    access: &AccessControl,
    given: &[(&str, &str)],
    permission: Permission,
) -> Result<String, StatusCode> {
    let answer = access.allow(&headers(given), permission).await;
    answer.map(|person| person.name).map_err(|error| error.status())
}

fn token() -> BearerToken {
    BearerToken::new("correct-horse-battery").unwrap()
}

#[tokio::test]
async fn without_authentication_only_reading_is_open_to_other_machines() {
    let local = AccessControl {
        authentication: UserAuthentication::Unauthenticated { local: true },
        open_read: true,
        allowed_hosts: Arc::default(),
    };
    let remote = AccessControl {
        authentication: UserAuthentication::Unauthenticated { local: false },
        ..local.clone()
    };
    assert!(status(&remote, &[], Permission::Read).await.is_ok());
    assert_eq!(
        status(&remote, &[], Permission::Run).await,
        Err(StatusCode::FORBIDDEN)
    );
    for host in ["127.0.0.1:8080", "localhost:8080", "[::1]:8080"] {
        assert!(
            status(&local, &[("host", host)], Permission::Run).await.is_ok(),
            "{host}"
        );
    }
    // Another site's host name that resolves to this machine (DNS rebinding).
    for host in ["rebound.example.test:8080", "", "127.0.0.1.example.test"] {
        let answer = status(&local, &[("host", host)], Permission::Run).await;
        assert_eq!(answer, Err(StatusCode::FORBIDDEN), "{host}");
    }
}

#[tokio::test]
async fn open_reading_is_refused_under_the_host_name_of_another_site() {
    let access = AccessControl {
        authentication: UserAuthentication::Secret(token()),
        open_read: true,
        allowed_hosts: Arc::new(["parallax.example.test".to_owned()].into()),
    };
    for (host, allowed) in [
        ("10.96.0.7:8080", true),
        ("[fd00::7]:8080", true),
        ("localhost:1234", true),
        ("parallax:8080", true),
        ("parallax.monitoring.svc:8080", true),
        ("parallax.monitoring.svc.cluster.local", true),
        ("Parallax.Example.test", true),
        ("rebound.example.test:8080", false),
        ("svc.cluster.local.example.test", false),
        ("", false),
    ] {
        let answer = status(&access, &[("host", host)], Permission::Read).await;
        assert_eq!(answer.is_ok(), allowed, "{host}");
    }
}

#[tokio::test]
async fn a_secret_opens_everything_and_without_it_only_what_is_open() {
    let mut access = AccessControl {
        authentication: UserAuthentication::Secret(token()),
        open_read: false,
        allowed_hosts: Arc::default(),
    };
    let shown = [("authorization", "Bearer correct-horse-battery")];
    assert!(status(&access, &shown, Permission::Act).await.is_ok());
    assert_eq!(
        status(&access, &[], Permission::Read).await,
        Err(StatusCode::UNAUTHORIZED)
    );
    access.open_read = true;
    assert!(status(&access, &[], Permission::Read).await.is_ok());
    let wrong = [("authorization", "Bearer correct-horse-batterz")];
    assert_eq!(
        status(&access, &wrong, Permission::Run).await,
        Err(StatusCode::UNAUTHORIZED)
    );
}

#[tokio::test]
async fn only_the_proxy_can_set_the_user() {
    let access = AccessControl {
        authentication: UserAuthentication::Proxy(Arc::new(ProxyOptions {
            secret: token(),
            secret_header: HeaderName::from_static("x-proxy-secret"),
            user_header: HeaderName::from_static("x-forwarded-user"),
            groups_header: HeaderName::from_static("x-forwarded-groups"),
            writers: vec!["sre".to_owned()],
        })),
        open_read: false,
        allowed_hosts: Arc::default(),
    };
    let secret = ("x-proxy-secret", "correct-horse-battery");
    let ann = ("x-forwarded-user", "ann");
    let read = status(&access, &[secret, ann], Permission::Read).await;
    assert_eq!(read, Ok("ann".to_owned()));
    let sre = ("x-forwarded-groups", "dev, sre");
    assert!(
        status(&access, &[secret, ann, sre], Permission::Act)
            .await
            .is_ok()
    );
    let dev = ("x-forwarded-groups", "dev,sre2");
    let refused = status(&access, &[secret, ann, dev], Permission::Act).await;
    assert_eq!(refused, Err(StatusCode::FORBIDDEN));
    for forged in [
        vec![ann, sre],
        vec![("x-proxy-secret", "guess"), ann, sre],
        vec![secret],
        // The client's headers, and those that the proxy added.
        vec![secret, ("x-forwarded-user", "root"), ann],
        vec![secret, ann, sre, dev],
    ] {
        let answer = status(&access, &forged, Permission::Read).await;
        assert_eq!(answer, Err(StatusCode::UNAUTHORIZED), "{forged:?}");
    }
}

/// Accepts the token `ann`, with the permissions read and run, and never answers about forged tokens.
#[derive(Debug, Default)]
struct Server {
    asked: Arc<AtomicUsize>,
}

impl ReviewClient for Server {
    fn authenticate<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<UserInfo>, kube::Error>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            if token.starts_with("forged") {
                std::future::pending::<()>().await;
            }
            Ok((token == "ann").then(|| UserInfo {
                username: Some("ann\u{1b}[31m".to_owned()),
                ..UserInfo::default()
            }))
        })
    }

    fn authorize<'a>(
        &'a self,
        _: &'a UserInfo,
        permission: Permission,
    ) -> BoxFuture<'a, Result<(bool, String), kube::Error>> {
        Box::pin(async move { Ok((permission != Permission::Act, String::new())) })
    }
}

#[tokio::test(start_paused = true)]
async fn reviews_of_users_are_cached() {
    let request_count = Arc::new(AtomicUsize::new(0));
    let reviews = ReviewCache::new(Server {
        asked: Arc::clone(&request_count),
    });
    for _ in 0..5 {
        let person = reviews.check_permission("ann", Permission::Run).await.unwrap();
        assert_eq!(
            person,
            AuthorizedUser {
                name: "ann[31m".to_owned()
            },
            "no control characters"
        );
    }
    assert_eq!(request_count.load(Ordering::Relaxed), 1);
    tokio::time::advance(std::time::Duration::from_secs(31)).await;
    reviews.check_permission("ann", Permission::Run).await.unwrap();
    assert_eq!(request_count.load(Ordering::Relaxed), 2);
    let refused = reviews
        .check_permission("ann", Permission::Act)
        .await
        .unwrap_err();
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    let debug_text = format!("{refused:?}");
    assert!(
        debug_text.contains("verbs: [update]") && debug_text.contains("resources: [incidents]"),
        "{debug_text}"
    );
    let unknown = reviews
        .check_permission("eve", Permission::Read)
        .await
        .unwrap_err();
    assert_eq!(unknown.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test(start_paused = true)]
async fn forged_tokens_do_not_delay_the_review_of_a_known_user() {
    let reviews = ReviewCache::new(Server::default());
    let ann = || reviews.check_permission("ann", Permission::Run);
    ann().await.unwrap();
    tokio::time::advance(std::time::Duration::from_secs(31)).await;
    let tokens: Vec<String> = (0..100).map(|i| format!("forged-{i}")).collect();
    let mut forged: FuturesUnordered<_> = tokens
        .iter()
        .map(|token| reviews.check_permission(token, Permission::Read))
        .collect();
    assert!(forged.next().now_or_never().is_none(), "all of them wait");
    let answer = ann().now_or_never();
    assert_eq!(answer.map(|user| user.unwrap().name), Some("ann[31m".to_owned()));
}
