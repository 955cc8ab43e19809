mod cells;
mod history;
mod incidents;
mod warnings;

use std::sync::Arc;

use parallax_diagnosis::{
    requests::{ProbeRequest, ProbeVariant, RequestDestination},
    topology::Topology,
    verdict::IncidentState,
    view::{CellState, VantageState, View},
};
use parallax_fixtures::*;
use parallax_history::store::{IncidentEnd, IncidentEnding, IncidentSummary, Status, StoreState};
use parallax_kubernetes::topology_state::{SourceError, SourceNote, TopologyState};
use parallax_model::{Channel, OwnFault, Probability};

use super::*;

fn sound() -> TopologyState {
    TopologyState::new(Arc::new(Topology::default()))
}

/// Renders the whole page. If `PARALLAX_GALLERY` is set, also writes it to that folder, to be viewed in a browser.
fn page(name: &str, view: &View, topology: &TopologyState) -> String {
    page_with(name, view, topology, &StoreState::off())
}

fn page_with(name: &str, view: &View, topology: &TopologyState, store: &StoreState) -> String {
    let overview = OverviewPage::new(view, topology, &[], store, NOW);
    let html = PageFrame::overview(&overview)
        .and_then(|page| page.render())
        .unwrap();
    if let Some(folder) = std::env::var_os("PARALLAX_GALLERY") {
        std::fs::write(std::path::Path::new(&folder).join(format!("{name}.html")), &html).unwrap();
    }
    html
}

/// Returns the text of the first `tag` element up to the next markup.
fn text_of<'a>(html: &'a str, tag: &str) -> &'a str {
    let start = html.find(&format!("<{tag}>")).unwrap() + tag.len() + 2;
    &html[start..start + html[start..].find('<').unwrap()]
}

#[test]
fn before_the_first_report_everything_is_unknown() {
    let html = page("waiting", &waiting(), &sound());
    assert_eq!(text_of(&html, "h1"), "Waiting for the first report of 4 vantages");
    assert!(html.contains("headline unknown"));
    assert!(!html.contains("class=\"cell ok\" role"), "no cell is ok");
    assert!(html.contains("n1/pod: unknown; has not reported yet"));
}

#[test]
fn ok_requires_all_vantages_and_fresh_evidence_for_all_targets() {
    let healthy = healthy();
    let html = page("healthy", &healthy, &sound());
    assert_eq!(text_of(&html, "h1"), "All targets reachable");
    let doubtful = |change: fn(&mut View)| {
        let mut view = healthy.clone();
        change(&mut view);
        let html = page("doubtful", &view, &sound());
        assert!(
            html.contains("headline unknown") || html.contains("headline warning"),
            "{html}"
        );
    };
    doubtful(|view| view.vantages[1] = vantage("n2/pod", VantageState::Silent));
    doubtful(|view| view.vantages[1] = vantage("n2/pod", VantageState::Waiting));
    doubtful(|view| {
        for cell in &mut view.matrix[0].cells {
            cell.state = CellState::Unknown;
        }
    });
    doubtful(|view| {
        view.matrix[0].cells[0].state = CellState::Flaky;
        view.matrix[0].cells[0].failures = 2;
    });
    doubtful(|view| view.matrix.clear());
    doubtful(|view| view.vantages.clear());
}

#[test]
fn a_silent_vantage_is_unknown_with_the_time_since_when() {
    let html = page("troubled", &troubled(), &sound());
    assert!(html.contains("n4/pod: unknown; silent since 12:56:53 UTC (3 min 7 s)"));
}

#[test]
fn a_topology_error_is_shown_with_line_and_age() {
    let mut topology = sound();
    topology.error = Some(SourceError {
        message: "topology.yaml:3:7: nodes[1].nam: unknown field \"nam\"; did you mean \"name\"?".to_owned(),
        since: ago(75),
    });
    let html = page("broken-topology", &troubled(), &topology);
    assert!(
        html.contains(
            "Reading the topology has failed for 1 min 15 s; this page uses the last known topology"
        )
    );
    assert!(html.contains("topology.yaml:3:7: nodes[1].nam: unknown field &#34;nam&#34;"));
}

#[test]
fn a_stale_view_is_marked() {
    let mut view = healthy();
    view.at = ago(40);
    assert!(page("stale", &view, &sound()).contains("The diagnosis has not advanced for 40 s"));
    view.at = ago(1);
    assert!(!page("fresh", &view, &sound()).contains("has not advanced"));
}

#[test]
fn a_cell_that_was_not_probed_says_why() {
    let mut view = troubled();
    let cell = &mut view.matrix[0].cells[0];
    cell.state = CellState::Unknown;
    cell.not_probed = Some(OwnFault::CredentialRefused);
    let html = page("not-probed", &view, &sound());
    assert!(html.contains("not probed: the prober&#39;s configuration does not allow the credential"));
}

#[test]
fn text_from_outside_stays_text() {
    const EVIL: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>";
    let mut view = troubled();
    let incident = &mut view.incidents[0];
    incident.id = EVIL.to_owned();
    let verdict = &mut incident.verdict;
    verdict.sentence = EVIL.to_owned();
    verdict.probability = Probability::new(0.5).unwrap();
    verdict.region = region(EVIL, &[EVIL]);
    verdict.class = vec![verdict.region.clone(), verdict.region.clone()];
    verdict.separating_probes = vec![EVIL.to_owned()];
    verdict.locality = vec![EVIL.to_owned()];
    verdict.evidence[0].clients = EVIL.to_owned();
    verdict.evidence[0].kinds = vec![(EVIL.to_owned(), 1)];
    verdict.targets = vec!["http://a/<script>alert(3)</script>".parse().unwrap()];
    view.investigations[0].sentence = EVIL.to_owned();
    view.matrix[0].target = "http://a/\"onmouseover=alert(4)".parse().unwrap();
    view.matrix[0].cells[0].last_failure = Some(EVIL.to_owned());
    view.vantages[0].vantage = named("<b>n1</b>\"onclick=x/pod");
    let mut topology = sound();
    topology.error = Some(SourceError {
        message: EVIL.to_owned(),
        since: ago(1),
    });
    let html = page("hostile", &view, &topology);
    for raw in [
        "<script>alert",
        "<img src=x",
        "<b>n1",
        "\"onclick",
        "\"onmouseover",
    ] {
        assert!(!html.contains(raw), "{raw} reached the page as markup");
    }
    assert!(html.contains("&#60;script&#62;alert(1)"), "it is still shown");
    let one = model::IncidentPage::of(&view.incidents[0], &view);
    let html = PageFrame::incident(&one).and_then(|page| page.render()).unwrap();
    assert!(!html.contains("<script>alert"));
    assert!(html.contains("data-fragment=\"/incident/%3Cscript%3E"));
}
