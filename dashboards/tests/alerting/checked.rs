//! The checks of the tools' own linters.

use std::{path::Path, process::Command};

use parallax_dashboards::promql::Leader;

use crate::{is_skipped, repository, tool};

/// Runs a tool that must succeed.
fn run_tool(name: &str, folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(tool(name))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {arguments:?}: {text}");
    text
}

#[test]
fn prometheus_takes_the_rules() {
    if is_skipped("prometheus_takes_the_rules") {
        return;
    }
    let text = run_tool(
        "promtool",
        &repository("dashboards"),
        &["check", "rules", "parallax.rules.yaml"],
    );
    let alerts = parallax_dashboards::alerts::all(Leader::Recorded).len();
    // And the recorded series.
    let rules = alerts + 1;
    assert!(text.contains(&format!("{rules} rules found")), "{text}");
}

#[test]
fn each_alert_fires_and_stays_silent_as_its_cases_say() {
    if is_skipped("each_alert_fires_and_stays_silent_as_its_cases_say") {
        return;
    }
    run_tool(
        "promtool",
        &repository("dashboards/tests"),
        &["test", "rules", "alerts.test.yaml"],
    );
}

#[test]
fn alertmanager_takes_the_inhibition() {
    if is_skipped("alertmanager_takes_the_inhibition") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("alertmanager.yaml");
    let inhibit = std::fs::read_to_string(repository("dashboards/alertmanager-inhibit.yaml")).unwrap();
    std::fs::write(
        &config,
        format!("route: {{receiver: nobody}}\nreceivers: [{{name: nobody}}]\n{inhibit}"),
    )
    .unwrap();
    let text = run_tool(
        "amtool",
        folder.path(),
        &["check-config", config.to_str().unwrap()],
    );
    assert!(text.contains("7 inhibit rules"), "{text}");
}
