//! The dashboards match Grafana's documented JSON model and can be used.

use std::collections::BTreeSet;

use parallax_dashboards::{
    grafana::{COLUMNS, INSTALLATION_VARIABLES, Query, dashboards},
    promql::{Leader, OWN_NAMESPACE},
};
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

/// A panel type that every Grafana has, with the names that its `options` and `fieldConfig.defaults.custom` may have.
struct PanelType {
    name: &'static str,
    options: &'static [&'static str],
    custom: &'static [&'static str],
}

/// From the schema of Grafana 10.4 (npm package `@grafana/schema`, `raw/composable`); that of `alertlist` from the panel's
/// source. Grafana ignores other names without a message.
const PANEL_TYPES: &[PanelType] = &[
    PanelType {
        name: "stat",
        options: &[
            "colorMode",
            "graphMode",
            "justifyMode",
            "orientation",
            "reduceOptions",
            "showPercentChange",
            "text",
            "textMode",
            "wideLayout",
        ],
        custom: &[],
    },
    PanelType {
        name: "timeseries",
        options: &["legend", "timezone", "tooltip"],
        custom: &[
            "drawStyle",
            "fillOpacity",
            "lineInterpolation",
            "lineWidth",
            "showPoints",
            "spanNulls",
            "stacking",
        ],
    },
    PanelType {
        name: "state-timeline",
        options: &[
            "alignValue",
            "legend",
            "mergeValues",
            "rowHeight",
            "showValue",
            "timezone",
            "tooltip",
        ],
        custom: &["fillOpacity", "hideFrom", "lineWidth"],
    },
    PanelType {
        name: "table",
        options: &["cellHeight", "footer", "frameIndex", "showHeader", "sortBy"],
        custom: &[
            "align",
            "cellOptions",
            "filterable",
            "inspect",
            "minWidth",
            "width",
        ],
    },
    PanelType {
        name: "alertlist",
        options: &[
            "alertInstanceLabelFilter",
            "alertName",
            "dashboardAlerts",
            "datasource",
            "folder",
            "groupBy",
            "groupMode",
            "maxItems",
            "showInactiveAlerts",
            "sortOrder",
            "stateFilter",
            "viewMode",
        ],
        custom: &[],
    },
];

/// The type of a panel, whose names are those of the type.
fn check_type<'a>(panel: &'a Value, of: &str) -> &'a str {
    let name = text(&panel["type"]);
    let known = PANEL_TYPES.iter().find(|known| known.name == name);
    let known = known.unwrap_or_else(|| panic!("{of}: Grafana has no panel type {name}"));
    let names = |value: &Value| -> Vec<String> {
        let fields = value.as_object();
        fields.map_or_else(Vec::new, |fields| fields.keys().cloned().collect())
    };
    for option in names(&panel["options"]) {
        assert!(known.options.contains(&option.as_str()), "{of}: option {option}");
    }
    for field in names(&panel["fieldConfig"]["defaults"]["custom"]) {
        assert!(known.custom.contains(&field.as_str()), "{of}: field {field}");
    }
    name
}

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
    let (mut uids, mut types) = (BTreeSet::new(), BTreeSet::new());
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
            let panel_type = check_type(panel, &of);
            types.insert(panel_type.to_owned());
            assert!(!text(&panel["title"]).is_empty());
            let mut names = BTreeSet::new();
            for target in panel["targets"].as_array().unwrap() {
                assert!(names.insert(text(&target["refId"])), "{of}");
                assert!(
                    target["expr"].is_string() && target["instant"] != target["range"],
                    "{of}"
                );
            }
            assert_eq!(
                names.is_empty(),
                panel_type == "alertlist",
                "{of}: queries {names:?}"
            );
        }
    }
    assert_eq!(uids.len(), 5);
    let known: BTreeSet<String> = PANEL_TYPES.iter().map(|known| known.name.to_owned()).collect();
    assert_eq!(types, known);
}

#[test]
fn overview_and_target_show_states_over_time_with_the_limits_of_the_alerts() {
    let alerts = parallax_dashboards::alerts::all(Leader::Inline);
    let condition = |name: &str| {
        let alert = alerts.iter().find(|alert| alert.name == name);
        alert.unwrap().expression.clone()
    };
    for dashboard in dashboards() {
        let model = dashboard.model();
        let panels = model["panels"].as_array().unwrap();
        let timelines: Vec<&Value> = panels
            .iter()
            .filter(|panel| panel["type"] == "state-timeline")
            .collect();
        let with_timelines = ["parallax-overview", "parallax-target"].contains(&dashboard.uid);
        assert_eq!(
            timelines.len(),
            if with_timelines { 2 } else { 0 },
            "{}",
            dashboard.uid
        );
        for panel in timelines {
            let defaults = &panel["fieldConfig"]["defaults"];
            let steps = defaults["thresholds"]["steps"].as_array().unwrap();
            let limits: Vec<f64> = steps.iter().filter_map(|step| step["value"].as_f64()).collect();
            if let [unreachable, unreliable] = *limits.as_slice() {
                assert_eq!(defaults["mappings"], Value::Array(Vec::new()));
                assert!(condition("ParallaxTargetUnreachable").contains(&format!(" < {unreachable} ")));
                let between = format!(" >= {unreachable} < {unreliable} ");
                assert!(condition("ParallaxTargetUnreliable").contains(&between));
            } else {
                assert!(limits.is_empty(), "{limits:?}");
                assert_eq!(defaults["mappings"][0]["options"]["1"]["text"], "warning");
                assert_eq!(defaults["mappings"][0]["options"]["2"]["text"], "critical");
            }
        }
    }
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
            // The last one is that of a `label_replace`, which Grafana leaves as it is.
            .chain(["__rate_interval", "__value", "__url_time_range", "__all", "1"])
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
fn each_dashboard_starts_with_all_installations_and_offers_a_choice() {
    for dashboard in dashboards() {
        let model = dashboard.model();
        let variables = model["templating"]["list"].as_array().unwrap();
        for (variable, name) in variables.iter().skip(1).zip(INSTALLATION_VARIABLES) {
            assert_eq!(variable["name"], name);
            let query = text(&variable["query"]["query"]);
            assert!(query.ends_with(&format!(", {name})")), "{query}");
            assert_eq!(variable["multi"], true);
            assert_eq!(variable["includeAll"], true);
            // Also matches series without the label.
            assert_eq!(variable["allValue"], ".*");
            assert_eq!(variable["current"]["value"][0], "$__all");
        }
        let links = &model["links"][0];
        assert_eq!(links["includeVars"], true);
        assert_eq!(links["keepTime"], true);
    }
}

#[test]
fn every_selector_of_every_expression_is_of_the_chosen_installations() {
    let mut selectors = 0;
    for dashboard in dashboards() {
        let model = dashboard.model();
        let annotations = text(&model["annotations"]["list"][0]["expr"]).to_owned();
        let queries = dashboard.panels.iter().flat_map(|panel| &panel.queries);
        for expression in queries.map(Query::expression).chain([annotations]) {
            for rest in expression.split("parallax_").skip(1) {
                selectors += 1;
                let (name, matchers) = rest.split_once('{').unwrap_or((rest, ""));
                let matchers = matchers.split('}').next().unwrap_or_default();
                let own = OWN_NAMESPACE.contains(&format!("parallax_{name}").as_str());
                for variable in INSTALLATION_VARIABLES {
                    let chosen = matchers.contains(&format!("{variable}=~\"${variable}\""));
                    let expected = variable != "namespace" || !own;
                    assert_eq!(
                        chosen, expected,
                        "{}: {variable} of {expression}",
                        dashboard.title
                    );
                }
            }
        }
    }
    assert!(selectors > 150, "{selectors}");
}

#[test]
fn metrics_with_a_namespace_of_their_own_are_those_of_the_reference() {
    let reference =
        crate::read("docs/reference/metrics.md") + &crate::read("docs/reference/prober-metrics.md");
    let with_namespace: BTreeSet<&str> = reference
        .lines()
        .filter_map(|line| {
            let columns: Vec<&str> = line.split(" | ").collect();
            let name = columns.first()?.strip_prefix("| `")?.strip_suffix('`')?;
            columns.get(2)?.contains("`namespace`").then_some(name)
        })
        .collect();
    assert_eq!(with_namespace, OWN_NAMESPACE.into());
}

#[test]
fn a_link_to_the_dashboard_of_a_target_sets_all_of_its_variables() {
    let all = dashboards();
    let target = all
        .iter()
        .find(|dashboard| dashboard.uid == "parallax-target")
        .unwrap();
    let model = target.model();
    let mut links = 0;
    for dashboard in &all {
        let text_of_it = dashboard.model().to_string();
        for rest in text_of_it.split("/d/parallax-target?").skip(1) {
            links += 1;
            let parameters: Vec<&str> = rest.split('"').next().unwrap().split('&').collect();
            for variable in model["templating"]["list"].as_array().unwrap() {
                let name = text(&variable["name"]);
                let single = format!("var-{name}=$");
                let several = format!("${{{name}:queryparam}}");
                let set = |parameter: &&str| parameter.starts_with(&single) || **parameter == several;
                assert!(parameters.iter().any(set), "{name} of {parameters:?}");
            }
        }
    }
    assert!(links > 5, "{links}");
}

#[test]
fn what_lists_nodes_or_targets_one_by_one_ends_after_twenty() {
    for dashboard in dashboards() {
        for panel in &dashboard.panels {
            for query in &panel.queries {
                let expression = query.expression();
                let words = crate::words(&expression);
                let chosen = ["$target", "$vantage"]
                    .iter()
                    .any(|chosen| expression.contains(chosen));
                let one_by_one = expression.contains("by (job, instance) (parallax_prober")
                    || expression.contains("target, placement")
                    || (words.contains("vantage") && !chosen);
                assert!(
                    !one_by_one || expression.contains("topk(20") || expression.contains("bottomk(20"),
                    "{} / {}",
                    dashboard.title,
                    panel.title
                );
            }
        }
    }
}
