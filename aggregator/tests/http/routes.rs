//! The table of routes in `docs/reference/api.md`: complete, and what the router does.

use std::collections::BTreeSet;

use reqwest::{Method, StatusCode};

use crate::common::Running;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/api.md");

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    Anyone,
    Reader,
    Runner,
    Operator,
    /// A form of the page, then a user with the permission of its action.
    Form,
    Prober,
}

use Caller::{Anyone, Form, Operator, Prober, Reader, Runner};

/// Method, path, who may use it, and the maximum length of a body in KiB.
const ROUTES: [(&str, &str, Caller, Option<usize>); 35] = [
    ("GET", "/", Reader, None),
    ("GET", "/fragment", Reader, None),
    ("GET", "/incident/{id}", Reader, None),
    ("GET", "/incident/{id}/fragment", Reader, None),
    ("POST", "/incident/{id}/handle", Form, Some(16)),
    ("POST", "/maintenance/handle", Form, Some(16)),
    ("GET", "/assets/app.js", Anyone, None),
    ("GET", "/assets/style.css", Anyone, None),
    ("GET", "/assets/mark.svg", Anyone, None),
    ("GET", "/healthz", Anyone, None),
    ("GET", "/readyz", Anyone, None),
    ("GET", "/metrics", Anyone, None),
    ("GET", "/v1/state", Reader, None),
    ("GET", "/v1/incidents", Reader, None),
    ("GET", "/v1/incidents/{id}", Reader, None),
    ("GET", "/v1/incidents/{id}/verdicts", Reader, None),
    ("POST", "/v1/incidents/{id}/acknowledge", Operator, Some(16)),
    ("POST", "/v1/incidents/{id}/silence", Operator, Some(16)),
    ("POST", "/v1/incidents/{id}/verify", Runner, Some(16)),
    ("POST", "/v1/baselines/reset", Operator, Some(16)),
    ("GET", "/v1/notifications", Reader, None),
    ("GET", "/v1/maintenance", Reader, None),
    ("POST", "/v1/maintenance", Operator, Some(16)),
    ("POST", "/v1/maintenance/{id}/end", Operator, Some(16)),
    ("GET", "/v1/challenges", Reader, None),
    ("GET", "/v1/installation", Reader, None),
    ("GET", "/v1/openapi.json", Reader, None),
    ("GET", "/v1/runs", Reader, None),
    ("POST", "/v1/runs", Runner, Some(16)),
    ("GET", "/v1/runs/{id}", Reader, None),
    ("GET", "/v1/forecasts", Reader, None),
    ("GET", "/v1/history/rollups", Reader, None),
    ("GET", "/v1/history/failures", Reader, None),
    ("GET", "/v1/plan", Prober, None),
    ("POST", "/v1/observations", Prober, Some(8_192)),
];

impl Caller {
    /// What the router answers to a request without credentials.
    const fn refusal(self) -> Option<StatusCode> {
        match self {
            Anyone => None,
            Reader | Runner | Operator | Prober => Some(StatusCode::UNAUTHORIZED),
            Form => Some(StatusCode::FORBIDDEN),
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Anyone => "anyone",
            Reader => "`list incidents`",
            Runner => "`create runs`",
            Operator => "`update incidents`",
            Form => "a form of the page with its proof, then the permission of the action",
            Prober => "probers",
        }
    }
}

fn rendered() -> String {
    let rows = ROUTES.map(|(method, path, caller, limit)| {
        let limit = limit.map_or_else(|| "–".to_owned(), |kib| format!("{kib} KiB"));
        format!("| {method} | `{path}` | {} | {limit} |", caller.description())
    });
    format!(
        "| method | path | who may | longest body |\n|---|---|---|--:|\n{}\n",
        rows.join("\n")
    )
}

/// `PARALLAX_BLESS=1` rewrites the table of the page.
#[test]
fn the_reference_page_shows_every_route() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once("<!-- routes -->\n").unwrap();
    let (shown, after) = rest.split_once("<!-- /routes -->").unwrap();
    if std::env::var_os("PARALLAX_BLESS").is_some() {
        let page = format!("{before}<!-- routes -->\n{}<!-- /routes -->{after}", rendered());
        std::fs::write(PAGE, page).unwrap();
        return;
    }
    assert_eq!(
        shown,
        rendered(),
        "docs/reference/api.md is out of date; regenerate it with PARALLAX_BLESS=1 and review the diff"
    );
}

#[test]
fn every_route_of_the_router_is_listed_and_no_other() {
    let sources = [
        include_str!("../../src/serve/mod.rs"),
        include_str!("../../src/serve/page/mod.rs"),
    ];
    let served: BTreeSet<&str> = sources
        .iter()
        .flat_map(|source| source.split(".route(").skip(1))
        .filter_map(|rest| rest.split('"').nth(1))
        .collect();
    let listed: BTreeSet<&str> = ROUTES.iter().map(|(_, path, ..)| *path).collect();
    assert_eq!(listed, served);
}

#[tokio::test]
async fn the_router_refuses_what_the_table_does_not_allow() {
    let aggregator = Running::with("tokenFile: token\naccess: {tokenFile: token}\n").await;
    let request = |method: Method, path: &str| {
        let path = path.replace("{id}", "i-1");
        let request = aggregator
            .client
            .request(method, format!("{}{path}", aggregator.url));
        request.header("content-type", "application/json")
    };
    for (method, path, caller, limit) in ROUTES {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let response = request(method.clone(), path).send().await.unwrap();
        let status = response.status();
        match caller.refusal() {
            Some(refusal) => assert_eq!(status, refusal, "{method} {path} without credentials"),
            None => assert_eq!(status, StatusCode::OK, "{method} {path}"),
        }
        if let Some(kib) = limit {
            // Longer bodies are refused before authorization.
            let length = kib * 1_024 + 1;
            let response = request(method.clone(), path)
                .body(vec![b' '; length])
                .send()
                .await
                .unwrap();
            assert_eq!(
                response.status(),
                StatusCode::PAYLOAD_TOO_LARGE,
                "{method} {path}"
            );
        }
    }
    let listed: BTreeSet<(&str, &str)> = ROUTES.iter().map(|(method, path, ..)| (*method, *path)).collect();
    for (_, path, caller, _) in ROUTES {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            if listed.contains(&(method, path)) {
                continue;
            }
            let sent = Method::from_bytes(method.as_bytes()).unwrap();
            let status = request(sent, path).send().await.unwrap().status();
            // Reading is authorized before the method is known.
            let unauthorized = caller != Anyone && method == "GET" && status == StatusCode::UNAUTHORIZED;
            assert!(
                status == StatusCode::METHOD_NOT_ALLOWED || unauthorized,
                "{method} {path}: {status}"
            );
        }
    }
    aggregator.stop().await;
}

#[tokio::test]
async fn metrics_are_not_served_under_the_host_name_of_another_site() {
    let aggregator = Running::start().await;
    let scrape = |host: &'static str| aggregator.get("/metrics").header("host", host).send();
    let foreign = scrape("rebound.example.test").await.unwrap();
    assert_eq!(foreign.status(), StatusCode::FORBIDDEN);
    for own in ["10.244.1.9:8080", "parallax.parallax.svc:8080"] {
        assert_eq!(scrape(own).await.unwrap().status(), StatusCode::OK, "{own}");
    }
    aggregator.stop().await;
}
