//! Series of certificate renewals.

use super::*;

/// Returns the lines of the renewal and certificate families, in order.
fn renewals(text: &str) -> String {
    let mut lines = String::new();
    for line in text.lines() {
        let name = line
            .strip_prefix("# ")
            .map_or(line, |rest| rest.split_once(' ').unwrap_or_default().1);
        if name.starts_with("parallax_renewal_") || name.starts_with("parallax_certificate_") {
            lines.push_str(line);
            lines.push('\n');
        }
    }
    lines + "# EOF\n"
}

/// Prometheus scrapes this file in the test suite of the dashboards.
#[test]
fn renewals_are_exposed_as_the_suite_of_the_dashboards_scrapes_them() {
    let harness = scene(fixtures::waiting(), &[]);
    harness.forecasts.send_replace(Arc::new(foreseen()));
    let now = renewals(&harness.text());
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../dashboards/tests/fixtures/renewals.om"
    );
    if std::env::var_os("PARALLAX_BLESS").is_some() {
        std::fs::write(file, &now).unwrap();
    }
    assert_eq!(std::fs::read_to_string(file).unwrap_or_default(), now);
}

#[test]
fn series_of_a_certificate_vanish_with_it() {
    let harness = scene(fixtures::waiting(), &[]);
    harness.forecasts.send_replace(Arc::new(foreseen()));
    assert!(harness.text().contains(r#"certificate="web""#));
    let mut without = foreseen();
    without.forecasts.retain(|forecast| forecast.certificate != "web");
    without.certificates.retain(|term| term.certificate != "web");
    harness.forecasts.send_replace(Arc::new(without));
    let text = harness.text();
    assert!(!text.contains(r#"certificate="web""#), "{text}");
    assert!(text.contains(r#"forecast="unknown",cause="""#), "{text}");
}
