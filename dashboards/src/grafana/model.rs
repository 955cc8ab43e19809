//! Grafana's JSON model of a dashboard (version 39 of its schema, that of Grafana 10.4 and newer, which migrate it
//! forward).

use serde_json::{Value, json};

use super::{
    COLUMNS, Dashboard, INSTALLATION_VARIABLES, Panel, PanelStyle, States, ThresholdColor, Unit, Variable,
};
use crate::promql::of_chosen_installations;

/// Version of the JSON schema.
const SCHEMA_VERSION: u8 = 39;

/// The data source selected on the dashboard.
fn data_source() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

pub(super) fn dashboard(dashboard: &Dashboard) -> Value {
    let mut variables = vec![json!({
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
        "includeAll": false,
        "multi": false,
        "options": [],
        "refresh": 1,
        "regex": "",
        "skipUrlSync": false,
    })];
    variables.extend(installation_variables());
    variables.extend(dashboard.variables.iter().map(variable));
    json!({
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["parallax"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": true,
        "graphTooltip": 1,
        "fiscalYearStartMonth": 0,
        "liveNow": false,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timepicker": {},
        "timezone": "",
        "weekStart": "",
        "links": [{
            "asDropdown": false,
            "icon": "external link",
            "includeVars": true,
            "keepTime": true,
            "tags": ["parallax"],
            "targetBlank": false,
            "title": "Parallax",
            "tooltip": "",
            "type": "dashboards",
            "url": "",
        }],
        "annotations": {"list": [incident_annotations()]},
        "templating": {"list": variables},
        "panels": panel_grid(&dashboard.panels),
    })
}

/// Incidents as annotations on every graph.
fn incident_annotations() -> Value {
    json!({
        "name": "Incidents",
        "datasource": data_source(),
        "enable": true,
        "hide": false,
        "iconColor": "red",
        "expr": of_chosen_installations("max by (incident, cause, subject) (parallax_incident)"),
        "titleFormat": "{{cause}} {{subject}}",
        "textFormat": "{{incident}}",
        "step": "30s",
    })
}

/// [`INSTALLATION_VARIABLES`]: several values or all, each among the installations that the variables before it leave.
/// "All" also matches series without the label: most scrapers set no `cluster`.
fn installation_variables() -> Vec<Value> {
    let mut matchers = vec!["__name__=~\"parallax_build_info|parallax_prober_build_info\"".to_owned()];
    let mut variables = Vec::new();
    for name in INSTALLATION_VARIABLES {
        let query = format!("label_values({{{}}}, {name})", matchers.join(","));
        let mut variable = query_variable(name, &query);
        variable["allValue"] = json!(".*");
        variable["current"] = json!({"selected": true, "text": ["All"], "value": ["$__all"]});
        variable["includeAll"] = json!(true);
        variable["multi"] = json!(true);
        variables.push(variable);
        matchers.push(format!("{name}=~\"${name}\""));
    }
    variables
}

/// A variable whose values a query returns. One value is chosen.
fn query_variable(name: &str, query: &str) -> Value {
    json!({
        "name": name,
        "label": name,
        "type": "query",
        "datasource": data_source(),
        "definition": query,
        "query": {"query": query, "refId": name},
        "current": {},
        "hide": 0,
        "includeAll": false,
        "multi": false,
        "options": [],
        "refresh": 2,
        "regex": "",
        "skipUrlSync": false,
        "sort": 1,
    })
}

fn variable(variable: &Variable) -> Value {
    match variable {
        Variable::Label { name, metric } => {
            let query = format!("label_values({}, {name})", of_chosen_installations(metric));
            query_variable(name, &query)
        }
        Variable::Page => {
            let address = "http://localhost:8080";
            json!({
                "name": "page",
                "label": "Page of Parallax",
                "type": "textbox",
                "query": address,
                "current": {"selected": true, "text": address, "value": address},
                "hide": 0,
                "options": [{"selected": true, "text": address, "value": address}],
                "skipUrlSync": false,
            })
        }
    }
}

/// Places panels from left to right, and starts a new row if there is no room left.
fn panel_grid(panels: &[Panel]) -> Vec<Value> {
    let (mut x, mut y, mut tallest) = (0, 0_u16, 0);
    let mut laid = Vec::new();
    for (id, one) in (1_u16..).zip(panels) {
        let (columns, lines) = one.size;
        if x + columns > COLUMNS {
            y += u16::from(tallest);
            (x, tallest) = (0, 0);
        }
        laid.push(panel(one, id, &json!({"x": x, "y": y, "w": columns, "h": lines})));
        x += columns;
        tallest = tallest.max(lines);
    }
    laid
}

fn panel(panel: &Panel, id: u16, place: &Value) -> Value {
    let table = panel.style == PanelStyle::Table;
    let instant = matches!(panel.style, PanelStyle::Table | PanelStyle::Number(_));
    let targets: Vec<Value> = ('A'..)
        .zip(&panel.queries)
        .map(|(name, query)| {
            json!({
                "refId": name.to_string(),
                "datasource": data_source(),
                "editorMode": "code",
                "expr": query.expression(),
                "legendFormat": if query.legend.is_empty() { "__auto" } else { query.legend },
                "format": if table { "table" } else { "time_series" },
                "instant": instant,
                "range": !instant,
            })
        })
        .collect();
    let mut model = json!({
        "id": id,
        "type": panel_type(panel.style),
        "title": panel.title,
        "description": panel.description,
        "datasource": data_source(),
        "gridPos": place,
        "targets": targets,
        "fieldConfig": {"defaults": field_defaults(panel), "overrides": if table { table_links() } else { Vec::new() }},
        "options": panel_options(panel.style),
    });
    if table {
        model["transformations"] = json!([
            {"id": "organize", "options": {"excludeByName": {"Time": true, "job": true}, "indexByName": {}, "renameByName": {}}},
        ]);
    }
    model
}

const fn panel_type(look: PanelStyle) -> &'static str {
    match look {
        PanelStyle::Number(_) => "stat",
        PanelStyle::Lines | PanelStyle::Areas => "timeseries",
        PanelStyle::Timeline(_) => "state-timeline",
        PanelStyle::AlertList => "alertlist",
        PanelStyle::Table => "table",
    }
}

fn field_defaults(panel: &Panel) -> Value {
    let mut defaults = json!({
        "unit": match panel.unit {
            Unit::Count => "short",
            Unit::Share => "percentunit",
            Unit::Seconds => "s",
            Unit::PerSecond => "ops",
            Unit::Bytes => "bytes",
        },
        "color": {"mode": "palette-classic"},
        "mappings": [],
        "thresholds": {"mode": "absolute", "steps": [{"color": "text", "value": null}]},
    });
    match panel.style {
        PanelStyle::Number(colour) => {
            defaults["color"] = json!({"mode": "thresholds"});
            let steps = match colour {
                ThresholdColor::Never => json!([{"color": "text", "value": null}]),
                ThresholdColor::AboveZero => {
                    json!([{"color": "green", "value": null}, {"color": "red", "value": 1}])
                }
                ThresholdColor::BelowOne => {
                    json!([{"color": "red", "value": null}, {"color": "green", "value": 1}])
                }
                ThresholdColor::AboveAMinute => {
                    json!([{"color": "green", "value": null}, {"color": "red", "value": 60}])
                }
            };
            defaults["thresholds"]["steps"] = steps;
        }
        PanelStyle::Lines | PanelStyle::Areas => {
            let stacked = panel.style == PanelStyle::Areas;
            defaults["min"] = json!(0);
            defaults["custom"] = json!({
                "drawStyle": "line",
                "fillOpacity": if stacked { 60 } else { 0 },
                "lineWidth": 1,
                "showPoints": "never",
                "spanNulls": false,
                "stacking": {"group": "A", "mode": if stacked { "normal" } else { "none" }},
            });
            if panel.unit == Unit::Share {
                defaults["max"] = json!(1);
            }
        }
        PanelStyle::Timeline(states) => {
            defaults["color"] = json!({"mode": "thresholds"});
            defaults["custom"] = json!({"fillOpacity": 70, "lineWidth": 0});
            match states {
                States::Reachability => {
                    defaults["thresholds"]["steps"] = json!([
                        {"color": "red", "value": null},
                        {"color": "orange", "value": 0.5},
                        {"color": "green", "value": 0.95},
                    ]);
                }
                States::Severity => {
                    defaults["mappings"] = json!([{"type": "value", "options": {
                        "1": {"color": "orange", "index": 0, "text": "warning"},
                        "2": {"color": "red", "index": 1, "text": "critical"},
                    }}]);
                }
            }
        }
        PanelStyle::AlertList => {}
        PanelStyle::Table => {
            defaults["custom"] =
                json!({"align": "auto", "cellOptions": {"type": "auto"}, "filterable": true});
        }
    }
    defaults
}

fn panel_options(look: PanelStyle) -> Value {
    match look {
        PanelStyle::Number(_) => json!({
            "colorMode": "value",
            "graphMode": "none",
            "justifyMode": "auto",
            "orientation": "auto",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false},
            "textMode": "auto",
        }),
        PanelStyle::Lines | PanelStyle::Areas => json!({
            "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": true},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }),
        PanelStyle::Timeline(_) => json!({
            "alignValue": "left",
            "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": true},
            "mergeValues": true,
            "rowHeight": 0.9,
            "showValue": "auto",
            "tooltip": {"mode": "single", "sort": "none"},
        }),
        // Not by labels: alerts without the label `cluster` would match none of its values.
        PanelStyle::AlertList => json!({
            "alertInstanceLabelFilter": "",
            "alertName": "Parallax",
            "dashboardAlerts": false,
            "groupBy": [],
            "groupMode": "default",
            "maxItems": 20,
            "showInactiveAlerts": false,
            "sortOrder": 3,
            "stateFilter": {"error": true, "firing": true, "noData": false, "normal": false, "pending": true},
            "viewMode": "list",
        }),
        PanelStyle::Table => json!({"cellHeight": "sm", "showHeader": true}),
    }
}

/// Links from an incident to the page, and from a target to its dashboard.
fn table_links() -> Vec<Value> {
    let link = |field: &str, title: &str, url: String, blank: bool| {
        json!({
            "matcher": {"id": "byName", "options": field},
            "properties": [{"id": "links", "value": [{"title": title, "url": url, "targetBlank": blank}]}],
        })
    };
    let installations = INSTALLATION_VARIABLES.map(|name| format!("${{{name}:queryparam}}"));
    let installations = installations.join("&");
    vec![
        link(
            "incident",
            "The incident on the page of Parallax",
            "${page}/incident/${__value.raw:percentencode}".to_owned(),
            true,
        ),
        link(
            "target",
            "The dashboard of this target",
            format!(
                "/d/parallax-target?var-datasource=${{datasource}}&{installations}&var-target=${{__value.raw:percentencode}}&var-page=${{page}}&${{__url_time_range}}"
            ),
            false,
        ),
    ]
}
