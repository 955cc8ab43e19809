//! The objects of the Prometheus operator.

use serde_json::Value;

use super::{
    Objects,
    helm::{self, with_values},
    installations::of,
    objects, read,
};

fn rule(all: &Objects) -> &Value {
    of(all, &["PrometheusRule"]).next().unwrap()
}

#[test]
fn the_alerts_of_the_chart_are_those_of_the_file_for_the_operator() {
    let Some(helm) = helm::installed("the_alerts_of_the_chart_are_those_of_the_file_for_the_operator") else {
        return;
    };
    let rendered = with_values(
        &helm,
        "parallax",
        "podMonitor: {rules: true}\npageNamespaces: [monitoring]",
    );
    let file = objects(&read("deploy/prometheus-rule.yaml"));
    assert_eq!(rule(&rendered), rule(&file));
}

#[test]
fn an_installation_chooses_when_what_never_worked_raises_an_alert_and_whether() {
    let test = "an_installation_chooses_when_what_never_worked_raises_an_alert_and_whether";
    let Some(helm) = helm::installed(test) else {
        return;
    };
    let rules = |minutes: u32| {
        let values = format!(
            "podMonitor: {{rules: true, neverWorkedMinutes: {minutes}}}\npageNamespaces: [monitoring]"
        );
        let all = with_values(&helm, "parallax", &values);
        rule(&all)["spec"]["groups"][0]["rules"]
            .as_array()
            .unwrap()
            .clone()
    };
    let never = |rules: &[Value]| {
        let mut found = rules
            .iter()
            .filter(|rule| rule["alert"] == "ParallaxTargetNeverWorked");
        found.next().map(|rule| rule["for"].clone())
    };
    assert_eq!(never(&rules(45)), Some("45m".into()));
    assert_eq!(never(&rules(0)), None);
    assert_eq!(rules(0).len() + 1, rules(45).len());
}
