//! Generates docs/reference/metrics.md from the table of families, and compares the exposition with the table.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

use super::{
    families::{FamilyDescription, MetricKind, SECTIONS},
    tests::{COUNTED, OK, scene},
};
use parallax_diagnosis::ObservationResult;
use parallax_fixtures as fixtures;

const INTRODUCTION: &str = "\
# Metrics of the aggregator

`GET /metrics` returns OpenMetrics text, or protobuf if the scraper prefers it (only protobuf carries native histograms).
`metrics: {classicBuckets: false}` in the configuration leaves out the classic buckets of `parallax_probe_phase_seconds`,
most of the series of a large installation; only a scraper of native histograms can then compute quantiles. The aggregator
exposes all series of targets. No series has both a node and a target as labels, so the cost of a scrape does not depend
on the number of nodes. [prober-metrics.md](prober-metrics.md) lists the metrics of a prober about itself,
[alerts.md](../use/alerts.md) the alerting rules, the dashboards, and the cost of a scrape of 2 000 targets.

The series of a removed target, vantage or hazard and of a closed incident end at the next scrape. Both replicas of an
aggregator expose all metrics; rules and dashboards use those of the leader, which has `parallax_aggregator_leader` 1.

Names, labels, types and help texts are an API checked by tests. This page is generated from the table that registers them.
";

const PROCESS: &str = "
## The process

| metric | type | meaning |
|---|---|---|
| `process_cpu_seconds_total` | counter | Total user and system CPU time. |
| `process_resident_memory_bytes`, `process_virtual_memory_bytes` | gauge | Memory of the process. |
| `process_open_fds`, `process_max_fds` | gauge | Open file descriptors, and their limit (no series without one). |
| `process_threads` | gauge | Threads. |
| `process_start_time_seconds` | gauge | Start time since the Unix epoch. |

They have the names and meanings of the official Prometheus clients, so that dashboards for any process show them.
";

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for (section, families) in SECTIONS {
        let _ = write!(
            page,
            "\n## {section}\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n"
        );
        for family in *families {
            let labels: Vec<_> = family.labels.iter().map(|label| format!("`{label}`")).collect();
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} |",
                query_name(family),
                type_name(family.kind),
                labels.join(", "),
                family.help
            );
        }
    }
    page.push_str(PROCESS);
    page
}

/// Returns the name as used in queries.
fn query_name(family: &FamilyDescription) -> String {
    let total = if family.kind == MetricKind::Counter {
        "_total"
    } else {
        ""
    };
    format!("parallax_{}{total}", family.name)
}

const fn type_name(kind: MetricKind) -> &'static str {
    match kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    }
}

#[test]
fn the_reference_page_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/metrics.md");
    let now = page();
    if std::env::var_os("PARALLAX_BLESS").is_some() {
        fs::write(&path, &now).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == now,
        "docs/reference/metrics.md is out of date; to regenerate it, run:\n  \
         PARALLAX_BLESS=1 cargo test --workspace --lib the_reference_page"
    );
}

#[test]
fn the_exposition_matches_the_table() {
    let mut troubled = fixtures::troubled();
    troubled.vantages[3].explained_by = Some("i-5f3a9c01".to_owned());
    let scenes = [fixtures::outage(), fixtures::warned(), troubled].map(|view| {
        let harness = scene(view, &["http://a.example.test/"]);
        harness.observe(OK, COUNTED);
        harness.observe(OK, ObservationResult::Late);
        harness.foresee();
        harness.text()
    });
    let mut exposed = BTreeMap::new();
    let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for text in &scenes {
        // The metrics of the process are not a family of ours.
        for line in text.lines().filter(|line| !line.contains("process_")) {
            if let Some((name, rest)) = line.strip_prefix("# HELP ").and_then(|line| line.split_once(' ')) {
                exposed
                    .entry(name.to_owned())
                    .or_insert((rest.to_owned(), String::new()));
            } else if let Some((name, kind)) =
                line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' '))
            {
                exposed.get_mut(name).unwrap().1 = kind.to_owned();
            } else if let Some((name, rest)) = line.split_once('{') {
                let names = rest.rsplit_once('}').unwrap().0.split(',');
                // A comma in a value would look like a label without a name; no value here contains one.
                let names = names.filter_map(|pair| Some(pair.split_once('=')?.0.to_owned()));
                labels.entry(name.to_owned()).or_default().extend(names);
            }
        }
    }
    let mut documented = BTreeMap::new();
    for family in SECTIONS.iter().flat_map(|(_, families)| *families) {
        let name = format!("parallax_{}", family.name);
        let texts = (family.help.to_owned(), type_name(family.kind).to_owned());
        assert!(
            documented.insert(name, texts).is_none(),
            "{} is there twice",
            family.name
        );
        let wanted: BTreeSet<String> = family.labels.iter().map(ToString::to_string).collect();
        let sample = match family.kind {
            MetricKind::Counter => format!("parallax_{}_total", family.name),
            MetricKind::Gauge => format!("parallax_{}", family.name),
            MetricKind::Histogram => format!("parallax_{}_count", family.name),
        };
        let found = labels.remove(&sample).unwrap_or_default();
        assert_eq!(found, wanted, "{sample}");
    }
    assert_eq!(exposed, documented);
}
