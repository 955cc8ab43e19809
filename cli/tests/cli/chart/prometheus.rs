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
    // The chart knows the job of its PodMonitor; the file is for any other.
    let file = read("deploy/prometheus-rule.yaml");
    let any_job = "job=~\".+\"";
    assert_eq!(file.matches(any_job).count(), 1);
    let file = objects(&file.replace(any_job, "job=\"parallax/parallax-aggregator\""));
    assert_eq!(rule(&rendered), rule(&file));
}

#[test]
fn the_alert_of_a_missing_aggregator_asks_for_the_job_of_the_pod_monitor() {
    let Some(helm) = helm::installed("the_alert_of_a_missing_aggregator_asks_for_the_job_of_the_pod_monitor")
    else {
        return;
    };
    for namespace in ["parallax", "ears"] {
        let values = "podMonitor: {rules: true}\npageNamespaces: [monitoring]";
        let all = with_values(&helm, namespace, values);
        let monitor = of(&all, &["PodMonitor"])
            .find(|monitor| monitor["metadata"]["labels"]["app.kubernetes.io/component"] == "aggregator")
            .unwrap();
        let metadata = &monitor["metadata"];
        // The operator's label of its targets.
        let job = format!(
            "{}/{}",
            metadata["namespace"].as_str().unwrap(),
            metadata["name"].as_str().unwrap()
        );
        assert_eq!(job, format!("{namespace}/parallax-aggregator"));
        let rules = rule(&all)["spec"]["groups"][0]["rules"].as_array().unwrap();
        let alert = rules
            .iter()
            .find(|rule| rule["alert"] == "ParallaxAggregatorDown");
        let expected = format!("absent(parallax_aggregator_leader{{job=\"{job}\"}})\n");
        assert_eq!(alert.unwrap()["expr"], expected);
    }
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
