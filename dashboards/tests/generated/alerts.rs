//! Rules, their object, Grafana's file, inhibition rules, runbooks and test cases agree.

use std::{collections::BTreeSet, fs};

use parallax_dashboards::{alerts::Alert, promql::Leader};
use serde_json::Value;

use crate::{read, repository, words};

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&read(path)).unwrap()
}

/// The alerts of the rules.
fn all() -> Vec<Alert> {
    parallax_dashboards::alerts::all(Leader::Recorded)
}

fn names() -> BTreeSet<String> {
    all().iter().map(|alert| alert.name.to_owned()).collect()
}

#[test]
fn the_plain_file_and_the_object_of_the_operator_have_the_same_rules() {
    let plain = yaml("dashboards/parallax.rules.yaml");
    let object = yaml("deploy/prometheus-rule.yaml");
    assert_eq!(plain["groups"], object["spec"]["groups"]);
    let rules = plain["groups"][0]["rules"].as_array().unwrap();
    let alerts = rules.iter().filter(|rule| rule["alert"].is_string());
    assert_eq!(alerts.count(), all().len());
    assert_eq!(object["apiVersion"], "monitoring.coreos.com/v1");
    assert_eq!(object["kind"], "PrometheusRule");
    assert_eq!(object["metadata"]["namespace"], "parallax");
}

/// The aggregators that do not count, in rules and in Grafana.
const RECORDED_STANDBY: &str = "(cluster_job_instance:parallax_aggregator_leader:is_max == 0)";
const STANDBY: &str = "(parallax_aggregator_leader < on (cluster, job) group_left () max by (cluster, job) (parallax_aggregator_leader))";

#[test]
fn rules_record_which_aggregators_count_once_and_grafana_needs_no_recorded_series() {
    let rules = read("dashboards/parallax.rules.yaml");
    assert_eq!(rules.matches("record: ").count(), 1);
    let plain = yaml("dashboards/parallax.rules.yaml");
    let first = &plain["groups"][0]["rules"][0];
    let name = "cluster_job_instance:parallax_aggregator_leader:is_max";
    // The alerts after it in the group read the value of the same evaluation.
    assert_eq!(first["record"], name);
    let computed = "max by (cluster, job) (parallax_aggregator_leader)";
    assert!(first["expr"].as_str().unwrap().contains(computed));
    for alert in all() {
        let only_without_a_leader = alert.name == "ParallaxAggregatorLeaderless";
        assert_eq!(
            alert.expression.contains(computed),
            only_without_a_leader,
            "{}",
            alert.name
        );
    }
    assert!(rules.matches(RECORDED_STANDBY).count() > 40);
    for (path, content) in parallax_dashboards::files().unwrap() {
        if path.contains("grafana") || path.ends_with("json") {
            assert!(!content.contains(name), "{path} needs the rules");
        }
    }
}

#[test]
fn grafanas_own_alerting_has_the_same_conditions() {
    let plain = yaml("dashboards/parallax.rules.yaml");
    let grafana = yaml("dashboards/grafana-alerts.yaml");
    assert_eq!(grafana["apiVersion"], 1);
    let all_rules = plain["groups"][0]["rules"].as_array().unwrap();
    let prometheus_rules: Vec<&Value> = all_rules
        .iter()
        .filter(|rule| rule["alert"].is_string())
        .collect();
    let grafana_rules = grafana["groups"][0]["rules"].as_array().unwrap();
    assert_eq!(prometheus_rules.len(), grafana_rules.len());
    let mut uids = BTreeSet::new();
    for (our, their) in prometheus_rules.iter().zip(grafana_rules) {
        assert_eq!(our["alert"], their["title"]);
        assert_eq!(
            our["labels"].as_object().cloned().unwrap_or_default(),
            *their["labels"].as_object().unwrap()
        );
        let lasting = our["for"].as_str().unwrap_or("0m");
        assert_eq!(their["for"], lasting);
        let (value, series, fires) = (&their["data"][0], &their["data"][1], &their["data"][2]);
        let inline = our["expr"].as_str().unwrap().replace(RECORDED_STANDBY, STANDBY);
        assert_eq!(value["model"]["expr"], inline);
        let presence = format!("({}) * 0 + 1", inline.trim_end());
        assert_eq!(series["model"]["expr"].as_str().unwrap().trim_end(), presence);
        assert_eq!(fires["datasourceUid"], "__expr__");
        assert_eq!(fires["model"]["expression"], series["refId"]);
        assert_eq!(their["condition"], fires["refId"]);
        for query in [value, series, fires] {
            assert_eq!(query["refId"], query["model"]["refId"]);
        }
        let uid = their["uid"].as_str().unwrap();
        assert!(uid.len() <= 40 && uids.insert(uid.to_owned()), "{uid}");
    }
}

#[test]
fn every_alert_has_a_severity_of_its_own_or_of_its_series() {
    for alert in all() {
        let inherits = alert.expression.contains("severity");
        assert_eq!(alert.severity.label().is_none(), inherits, "{}", alert.name);
    }
}

#[test]
fn every_alert_has_a_runbook_with_all_its_parts_and_every_runbook_an_alert() {
    let mut pages = BTreeSet::new();
    for entry in fs::read_dir(repository("docs/runbooks")).unwrap() {
        let path = entry.unwrap().path();
        pages.insert(path.file_stem().unwrap().to_str().unwrap().to_owned());
    }
    assert_eq!(pages, names());
    for alert in all() {
        let page = read(&alert.runbook());
        assert!(page.starts_with(&format!("# {}\n", alert.name)), "{}", alert.name);
        for part in [
            "## What it means",
            "## What to look at",
            "## What to do",
            "## False alarms",
        ] {
            assert!(page.contains(part), "{} lacks {part}", alert.runbook());
        }
        assert!(
            read("docs/use/alerts.md").contains(&format!("](../runbooks/{}.md)", alert.name)),
            "{}",
            alert.name
        );
    }
}

#[test]
fn links_of_runbooks_lead_to_pages() {
    let mut links = 0;
    for alert in all() {
        let page = read(&alert.runbook());
        for rest in page.split("](").skip(1) {
            let to = rest.split(')').next().unwrap();
            links += 1;
            let file = repository("docs/runbooks").join(to.split('#').next().unwrap());
            assert!(
                file.exists(),
                "{} links to {to}, which does not exist",
                alert.runbook()
            );
        }
    }
    assert!(links > 8, "{links}");
}

#[test]
fn texts_speak_of_labels_that_the_series_have() {
    let mut count = 0;
    for alert in all() {
        let words = words(&alert.expression);
        let texts = format!("{} {}", alert.summary, alert.description);
        for rest in texts.split("$labels.").skip(1) {
            let label = rest
                .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .next()
                .unwrap();
            count += 1;
            assert!(words.contains(label), "{}: {label}", alert.name);
        }
    }
    assert!(count > 15, "{count}");
}

#[test]
fn every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_stays_silent() {
    let cases = yaml("dashboards/tests/alerts.test.yaml");
    let (mut fires, mut silent) = (BTreeSet::new(), BTreeSet::new());
    for test in cases["tests"].as_array().unwrap() {
        for case in test["alert_rule_test"].as_array().unwrap() {
            let name = case["alertname"].as_str().unwrap().to_owned();
            if case["exp_alerts"].as_array().unwrap().is_empty() {
                silent.insert(name);
            } else {
                fires.insert(name);
            }
        }
    }
    assert_eq!(fires, names());
    assert_eq!(silent, names());
}

#[test]
fn inhibition_speaks_of_alerts_that_there_are() {
    let file = yaml("dashboards/alertmanager-inhibit.yaml");
    let names = names();
    let rules = file["inhibit_rules"].as_array().unwrap();
    assert!(rules.len() > 4);
    for rule in rules {
        for matchers in ["source_matchers", "target_matchers"] {
            let matcher = rule[matchers][0].as_str().unwrap();
            let meant = matcher.split('"').nth(1).unwrap();
            for name in meant.split('|') {
                assert!(names.contains(name), "{name} of {rule}");
            }
        }
    }
}
