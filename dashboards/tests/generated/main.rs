//! The committed files are what the code generates, agree with each other, and have the formats of Prometheus,
//! Alertmanager and Grafana.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod alerts;
mod dashboards;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use parallax_dashboards::promql::Leader;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn read(path: &str) -> String {
    let path = repository(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The words of an expression: metrics, labels, functions.
fn words(expression: &str) -> BTreeSet<&str> {
    expression
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .collect()
}

/// The expressions of all alerts and panels.
fn expressions() -> Vec<String> {
    let alerts = parallax_dashboards::alerts::all(Leader::Inline)
        .into_iter()
        .map(|alert| alert.expression);
    let panels = parallax_dashboards::grafana::dashboards()
        .into_iter()
        .flat_map(|dashboard| dashboard.panels)
        .flat_map(|panel| panel.queries)
        .map(|query| query.expression());
    alerts.chain(panels).collect()
}

#[test]
fn what_is_committed_is_what_the_code_generates() {
    // Cargo succeeds, and writes nothing, if no test has the name.
    assert!(read("Makefile").contains("--test generated what_is_committed\n"));

    for (path, now) in parallax_dashboards::files().unwrap() {
        let file = repository(&path);
        if std::env::var_os("PARALLAX_BLESS").is_some() {
            fs::write(&file, &now).unwrap();
        }
        assert!(
            fs::read_to_string(&file).unwrap_or_default() == now,
            "{path} is not what the code generates; if the change is intended, write the file with:\n  make dashboards"
        );
    }
}

#[test]
fn every_queried_metric_is_in_the_reference() {
    let reference = read("docs/reference/metrics.md") + &read("docs/reference/prober-metrics.md");
    let mut queries = 0;
    for expression in expressions() {
        for word in words(&expression)
            .into_iter()
            .filter(|word| word.starts_with("parallax_"))
        {
            queries += 1;
            let name = word.strip_suffix("_bucket").unwrap_or(word);
            assert!(
                reference.contains(&format!("| `{name}` |")),
                "{word} of {expression}"
            );
        }
    }
    assert!(queries > 100, "{queries}");
}

#[test]
fn no_expression_multiplies_nodes_by_targets() {
    for expression in expressions() {
        let words = words(&expression);
        let of_nodes = ["vantage", "node"].iter().any(|word| words.contains(word));
        assert!(!(words.contains("target") && of_nodes), "{expression}");
    }
}
