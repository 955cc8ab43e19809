//! Temporary unavailability of the API server: known targets are still probed and judged, and changes are picked up
//! afterwards.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use parallax_control_plane::print_uncaptured;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    discovery::{BALANCER, SmallMesh, publish, wait_until_probed},
    lock,
    parallax::{InstalledAggregator, installed, until},
    plane,
    web::WebServer,
};

/// Duration of the unavailability in seconds: `600` for the promised ten minutes, which are too long for a suite.
const DURATION_VARIABLE: &str = "PARALLAX_API_SERVER_AWAY_SECONDS";
const SHORT: u64 = 20;

/// Polling interval, and the time without changes required before the server is killed.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const STILL: usize = 10;
/// Timeout until the state is stable; only a failing test reaches it.
const STABLE_TIMEOUT: Duration = Duration::from_mins(3);
/// Number of polls without a new observation that is a gap: a round is one second here.
const MAX_POLLS_WITHOUT_OBSERVATION: usize = 5;
/// A round and the longest timeout: a displayed age is at least this much older.
const AGE_TOLERANCE_S: f64 = 5.0;

fn length() -> Duration {
    let seconds = std::env::var(DURATION_VARIABLE).map_or(SHORT, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{DURATION_VARIABLE}: expected seconds, found {text:?}"))
    });
    Duration::from_secs(seconds)
}

/// The page's state as seen by a reader: the colour of each cell, and the open incidents.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PageState {
    colours: BTreeMap<(String, u64), String>,
    open: BTreeSet<String>,
}

struct PageSample {
    picture: PageState,
    counted: u64,
    trouble: bool,
}

async fn look(aggregator: &InstalledAggregator) -> PageSample {
    let state = aggregator.state().await;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut colours = BTreeMap::new();
    for row in list(&state["matrix"]) {
        for cell in list(&row["cells"]) {
            let at = (text(&row["target"]), cell["vantage"].as_u64().unwrap());
            colours.insert(at, text(&cell["state"]));
        }
    }
    let open = list(&state["incidents"])
        .iter()
        .filter(|incident| incident["state"] == "open")
        .map(|incident| {
            let (region, subject) = (&incident["region"]["region"], &incident["subject"]["name"]);
            format!("{} {} {}", text(&incident["id"]), text(region), text(subject))
        })
        .collect();
    PageSample {
        picture: PageState { colours, open },
        counted: state["counters"]["counted"].as_u64().unwrap(),
        trouble: !state["topology_error"].is_null(),
    }
}

/// Waits until the state is as expected and stable; returns it with the observations per second.
async fn wait_until_stable(
    aggregator: &InstalledAggregator,
    wished: impl Fn(&PageState) -> bool,
) -> (PageState, f64) {
    let begin = Instant::now();
    let mut looks: Vec<PageSample> = Vec::new();
    loop {
        assert!(
            begin.elapsed() < STABLE_TIMEOUT,
            "the state is not stable: {:?}",
            looks.last().map(|look| &look.picture)
        );
        let new = look(aggregator).await;
        if !wished(&new.picture) || looks.last().is_some_and(|last| last.picture != new.picture) {
            looks.clear();
        }
        looks.push(new);
        if looks.len() > STILL && wished(&looks[0].picture) {
            let rate = rate(&looks);
            return (looks.remove(0).picture, rate);
        }
        sleep(POLL_INTERVAL).await;
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below what a float counts exactly")]
fn rate(looks: &[PageSample]) -> f64 {
    let counted = looks.last().unwrap().counted - looks[0].counted;
    counted as f64 / ((looks.len() - 1) as f64 * POLL_INTERVAL.as_secs_f64())
}

#[tokio::test]
async fn an_api_server_that_is_away_stops_no_probe_changes_no_colour_and_its_watches_come_back() {
    let _turn = lock().await;
    let Some(mut plane) = plane("an unavailable API server").await else {
        return;
    };
    let client = plane.admin().await.unwrap();
    let (good, bad) = (WebServer::at(BALANCER).await, WebServer::at(BALANCER).await);
    let url = |name: &str, web: &WebServer| format!("http://{name}.example.test:{}/", web.address.port());
    let (good_url, bad_url) = (url("good", &good), url("bad", &bad));
    let more = format!("targets: [{{url: '{good_url}'}}, {{url: '{bad_url}'}}]\n");
    let Some(installation) = installed("an unavailable API server", "intervalMs: 1000\n") else {
        return;
    };
    let mut mesh = SmallMesh::with_installation(&plane, &client, &installation, &more).await;
    publish(&client, "shop.example.test").await;
    wait_until_probed(&mesh.aggregator, "shop.example.test").await;
    let colour = |page: &PageState, url: &str, wished: &str| {
        let own = page.colours.iter().filter(|((target, _), _)| target == url);
        let all: Vec<&str> = own.map(|(_, colour)| colour.as_str()).collect();
        all.len() == 2 && all.iter().all(|colour| *colour == wished)
    };
    wait_until_stable(&mesh.aggregator, |page| {
        colour(page, &good_url, "ok") && colour(page, &bad_url, "ok")
    })
    .await;
    // A verdict that could change: a target that worked fails permanently.
    drop(bad);
    let (before, usual) = wait_until_stable(&mesh.aggregator, |page| {
        colour(page, &bad_url, "failing") && !page.open.is_empty()
    })
    .await;

    let length = length();
    plane.kill_api_server();
    let gone = Instant::now();
    let mut looks = Vec::new();
    while gone.elapsed() < length {
        looks.push(look(&mesh.aggregator).await);
        let now = looks.last().unwrap();
        assert_eq!(now.picture, before, "after {:?}", gone.elapsed());
        if let Some(then) = looks.len().checked_sub(MAX_POLLS_WITHOUT_OBSERVATION + 1) {
            let known = looks[then].counted;
            assert!(now.counted > known, "no observations since {known}");
        }
        sleep(POLL_INTERVAL).await;
    }
    assert!(
        looks.last().unwrap().trouble,
        "the page reports that the topology is stale"
    );
    let age = mesh.aggregator.metric("parallax_topology_age_seconds").await;
    assert!(
        age > gone.elapsed().as_secs_f64() - AGE_TOLERANCE_S,
        "{age} s, unavailable for {:?}",
        gone.elapsed()
    );

    plane.start_api_server().await.unwrap();
    let back = Instant::now();
    mesh.aggregator.wait_until_watching().await;
    let settled = back.elapsed();
    publish(&client, "after.example.test").await;
    let published = Instant::now();
    wait_until_probed(&mesh.aggregator, "after.example.test").await;
    let first_probe = published.elapsed();
    until("the topology is current", async || {
        (mesh.aggregator.metric("parallax_topology_age_seconds").await <= 0.0).then_some(())
    })
    .await;
    assert!(mesh.aggregator.is_running(), "the aggregator was not restarted");
    assert!(
        mesh.probers
            .iter_mut()
            .all(|prober| prober.exit_status().is_none())
    );
    let after = look(&mesh.aggregator).await.picture;
    let changed: Vec<_> = before
        .colours
        .iter()
        .filter(|(cell, colour)| after.colours.get(*cell) != Some(colour))
        .collect();
    assert!(changed.is_empty() && after.open == before.open, "{changed:?}");
    print_uncaptured(&format!(
        "MEASURED: the API server unavailable for {length:?}: {} observations, {:.1} per second ({usual:.1} before), {} polls of {} \
         cells and {} open incidents without a change, age shown {age:.1} s; watches up {settled:?} after it was ready, \
         the next Ingress probed after {first_probe:?}",
        looks.last().unwrap().counted - looks[0].counted,
        rate(&looks),
        looks.len(),
        before.colours.len(),
        before.open.len(),
    ));
}
