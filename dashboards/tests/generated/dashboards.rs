//! The dashboards match Grafana's documented JSON model and can be used.

use std::collections::BTreeSet;

use parallax_dashboards::grafana::{COLUMNS, dashboards};
use serde_json::Value;

/// A required field and the check of its type.
type Field = (&'static str, fn(&Value) -> bool);

/// Required fields of a dashboard.
const TOP: &[Field] = &[
    ("uid", Value::is_string),
    ("title", Value::is_string),
    ("tags", Value::is_array),
    ("schemaVersion", Value::is_u64),
    ("version", Value::is_u64),
    ("editable", Value::is_boolean),
    ("graphTooltip", Value::is_u64),
    ("refresh", Value::is_string),
    ("time", Value::is_object),
    ("timepicker", Value::is_object),
    ("timezone", Value::is_string),
    ("links", Value::is_array),
    ("annotations", Value::is_object),
    ("templating", Value::is_object),
    ("panels", Value::is_array),
];

/// Required fields of a panel.
const PANEL: &[Field] = &[
    ("id", Value::is_u64),
    ("type", Value::is_string),
    ("title", Value::is_string),
    ("datasource", Value::is_object),
    ("gridPos", Value::is_object),
    ("targets", Value::is_array),
    ("fieldConfig", Value::is_object),
    ("options", Value::is_object),
];

fn check_fields(object: &Value, fields: &[Field], of: &str) {
    for (field, is) in fields {
        assert!(is(&object[*field]), "{of}: {field} is {}", object[*field]);
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[test]
fn each_dashboard_is_what_grafana_imports() {
    let mut uids = BTreeSet::new();
    for dashboard in dashboards() {
        let model = dashboard.model();
        check_fields(&model, TOP, dashboard.uid);
        // 36 is the first version with data sources as objects; an import drops `id`, and one with inputs asks for
        // edits.
        assert!(model["schemaVersion"].as_u64().unwrap() >= 36);
        assert!(model["id"].is_null() && model["__inputs"].is_null());
        assert!(text(&model["uid"]).len() <= 40 && uids.insert(dashboard.uid));
        let mut ids = BTreeSet::new();
        for panel in model["panels"].as_array().unwrap() {
            let of = format!("{} / {}", dashboard.title, panel["title"]);
            check_fields(panel, PANEL, &of);
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{of}: duplicate id");
            // Panel types that every Grafana has.
            assert!(
                ["stat", "timeseries", "table"].contains(&text(&panel["type"])),
                "{of}"
            );
            assert!(!text(&panel["title"]).is_empty());
            let mut names = BTreeSet::new();
            for target in panel["targets"].as_array().unwrap() {
                assert!(names.insert(text(&target["refId"])), "{of}");
                assert!(
                    target["expr"].is_string() && target["instant"] != target["range"],
                    "{of}"
                );
            }
            assert!(!names.is_empty(), "{of} has no query");
        }
    }
    assert_eq!(uids.len(), 5);
}

#[test]
fn the_data_source_is_a_variable_everywhere() {
    fn look(value: &Value, found: &mut usize) {
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    if name == "datasource" && field.is_object() {
                        *found += 1;
                        assert_eq!(field["uid"], "${datasource}");
                        assert_eq!(field["type"], "prometheus");
                    }
                    look(field, found);
                }
            }
            Value::Array(values) => values.iter().for_each(|value| look(value, found)),
            _ => {}
        }
    }
    for dashboard in dashboards() {
        let model = dashboard.model();
        let first = &model["templating"]["list"][0];
        assert_eq!(
            (text(&first["name"]), text(&first["type"])),
            ("datasource", "datasource")
        );
        let mut found = 0;
        look(&model, &mut found);
        assert!(found > dashboard.panels.len() * 2, "{found}");
    }
}

#[test]
fn panels_lie_within_the_grid_and_do_not_overlap() {
    for dashboard in dashboards() {
        let mut taken = BTreeSet::new();
        for panel in dashboard.model()["panels"].as_array().unwrap() {
            let at = |field: &str| panel["gridPos"][field].as_u64().unwrap();
            assert!(at("x") + at("w") <= u64::from(COLUMNS) && at("w") > 0 && at("h") > 0);
            for x in at("x")..at("x") + at("w") {
                for y in at("y")..at("y") + at("h") {
                    assert!(taken.insert((x, y)), "{} / {}", dashboard.title, panel["title"]);
                }
            }
        }
    }
}

#[test]
fn every_variable_that_is_used_can_be_chosen() {
    for dashboard in dashboards() {
        let model = dashboard.model();
        let known: BTreeSet<&str> = model["templating"]["list"]
            .as_array()
            .unwrap()
            .iter()
            .map(|variable| text(&variable["name"]))
            .chain(["__rate_interval", "__value", "__url_time_range"])
            .collect();
        let written = model.to_string();
        for rest in written.split('$').skip(1) {
            let rest = rest.trim_start_matches('{');
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .unwrap_or(rest.len());
            assert!(
                known.contains(&rest[..end]),
                "{}: ${}",
                dashboard.title,
                &rest[..end]
            );
        }
    }
}

#[test]
fn what_lists_nodes_or_targets_one_by_one_ends_after_twenty() {
    for dashboard in dashboards() {
        for panel in &dashboard.panels {
            for query in &panel.queries {
                let words = crate::words(&query.expression);
                let chosen = ["$target", "$vantage"]
                    .iter()
                    .any(|chosen| query.expression.contains(chosen));
                let one_by_one = query.expression.contains("by (job, instance) (parallax_prober")
                    || query.expression.contains("target, placement")
                    || (words.contains("vantage") && !chosen);
                assert!(
                    !one_by_one
                        || query.expression.contains("topk(20")
                        || query.expression.contains("bottomk(20"),
                    "{} / {}",
                    dashboard.title,
                    panel.title
                );
            }
        }
    }
}
