//! Every expression of every dashboard in both states, and promtool's lint of the exposition.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::Write as _,
    process::{Command, Stdio},
};

use parallax_dashboards::grafana::{ExpectedResult, dashboards};

use crate::{monitoring::Monitoring, tool};

/// The jobs of the test, and one that does not exist.
const JOBS: &str = "parallax/parallax-aggregator|parallax/parallax-prober|recorded";
const OTHER_JOB: &str = "other/parallax-aggregator|other/parallax-prober";

/// Substitutes Grafana's variables: all clusters, and the namespace and the jobs that are chosen.
fn substitute_variables(expression: &str, namespace: &str, jobs: &str) -> String {
    expression
        .replace("$cluster", ".*")
        .replace("$namespace", namespace)
        .replace("$job", &format!("({jobs})"))
        .replace("$__rate_interval", "8s")
        .replace("$target", "http://shop.example.test/")
        .replace("$vantage", "n3/pod")
}

/// Runs every query before and after the fault. Without a chosen installation it finds nothing.
pub(crate) async fn show_the_difference(monitoring: &Monitoring, healthy: f64, broken: f64) {
    let mut wrong = String::new();
    let mut queries = 0;
    for dashboard in dashboards() {
        for panel in &dashboard.panels {
            for query in &panel.queries {
                queries += 1;
                let expression = substitute_variables(&query.expression(), "parallax", JOBS);
                let before = monitoring.series(&expression, Some(healthy)).await.unwrap();
                let after = monitoring.series(&expression, Some(broken)).await.unwrap();
                let mut others = Vec::new();
                for (namespace, jobs) in [("other", JOBS), (".*", OTHER_JOB)] {
                    let other = substitute_variables(&query.expression(), namespace, jobs);
                    let series = monitoring.series(&other, Some(broken)).await.unwrap();
                    // A count of nothing is zero.
                    others.extend(series.into_iter().filter(|(_, value)| *value != 0.0));
                }
                let good = others.is_empty()
                    && match query.expected {
                        ExpectedResult::Changes => !after.is_empty() && before != after,
                        ExpectedResult::NotEmpty => !before.is_empty() && !after.is_empty(),
                        ExpectedResult::NeedsCluster | ExpectedResult::TestedElsewhere => true,
                    };
                if !good {
                    let (title, panel) = (dashboard.title, panel.title);
                    let _ = writeln!(
                        wrong,
                        "{title} / {panel}: {expression}\n  {before:?}\n  {after:?}\n  of other installations: {others:?}"
                    );
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(queries > 50, "{queries}");
}

/// Checks an exposition with promtool's lint. The lint reads the older text format, in which the metadata of a counter
/// name `…_total`; Prometheus tests that the exposition is `OpenMetrics`, because it scrapes it as such.
pub(crate) async fn exposition_is_clean(client: &reqwest::Client, url: &str) {
    let answer = client.get(format!("{url}/metrics")).send().await.unwrap();
    let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    let text = answer.text().await.unwrap();
    assert!(text.ends_with("# EOF\n"));
    let types: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .collect();
    let mut older = String::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        let described = line.strip_prefix("# ").and_then(|rest| {
            let (keyword, rest) = rest.split_once(' ')?;
            let (name, rest) = rest.split_once(' ')?;
            (types.get(name) == Some(&"counter")).then(|| format!("# {keyword} {name}_total {rest}"))
        });
        older += &described.unwrap_or_else(|| line.to_owned());
        older.push('\n');
    }
    let mut lint = Command::new(tool("promtool"))
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    lint.stdin.take().unwrap().write_all(older.as_bytes()).unwrap();
    let output = lint.wait_with_output().unwrap();
    let report =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && report.is_empty(), "{report}");
}
