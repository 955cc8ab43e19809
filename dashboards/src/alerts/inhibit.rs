//! Inhibition rules: which alert makes which other one redundant.

use serde::Serialize;

use crate::{SerializationError, yaml};

/// One rule of Alertmanager's `inhibit_rules`.
#[derive(Debug, Clone, Serialize)]
pub struct Inhibition {
    source_matchers: Vec<String>,
    target_matchers: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    equal: Vec<&'static str>,
}

#[derive(Serialize)]
struct InhibitionFile {
    inhibit_rules: Vec<Inhibition>,
}

const HEADER: &str = "\
# Generated from dashboards/src/alerts; do not edit. For the configuration of Alertmanager: one notification per fault.
# Group by cluster, job and incident (group_by: [cluster, job, alertname, incident]), so that one cause of fifty failing hosts notifies once.
";

fn inhibition(source: &str, targets: &[&str], equal: &[&'static str]) -> Inhibition {
    Inhibition {
        source_matchers: vec![format!("alertname=\"{source}\"")],
        target_matchers: vec![format!("alertname=~\"{}\"", targets.join("|"))],
        equal: equal.to_vec(),
    }
}

/// All inhibition rules.
#[must_use]
pub fn inhibitions() -> Vec<Inhibition> {
    let mut worse = inhibition(
        "ParallaxIncident",
        &["ParallaxIncident"],
        &["cluster", "job", "incident"],
    );
    worse.source_matchers.push("severity=\"critical\"".to_owned());
    worse.target_matchers.push("severity=\"warning\"".to_owned());
    vec![
        // The incident explains the targets. A target without an incident has an empty label, which never equals that
        // of an incident.
        inhibition(
            "ParallaxIncident",
            &["ParallaxTargetUnreachable", "ParallaxTargetUnreliable"],
            &["cluster", "job", "incident"],
        ),
        worse,
        inhibition(
            "ParallaxTargetUnreachable",
            &["ParallaxTargetUnreliable"],
            &["cluster", "job", "target", "placement"],
        ),
        inhibition(
            "ParallaxCoverageLost",
            &["ParallaxVantageSilent", "ParallaxTargetUnseen"],
            &["cluster", "job"],
        ),
        inhibition(
            "ParallaxEvidenceStale",
            &[
                "ParallaxVantageSilent",
                "ParallaxTargetUnseen",
                "ParallaxCoverageLost",
            ],
            &["cluster", "job"],
        ),
        // With the chart, both name the installation.
        inhibition("ParallaxAggregatorDown", &["ParallaxInstallationDown"], &["job"]),
        // The probers are another job, and an aggregator that is down has no series.
        inhibition(
            "ParallaxAggregatorDown",
            &["ParallaxProberPlanOld", "ParallaxReportsLost"],
            &[],
        ),
        inhibition("ParallaxAggregatorLeaderless", &["ParallaxProberPlanOld"], &[]),
    ]
}

/// The section `inhibit_rules` of Alertmanager's configuration.
pub fn inhibition_file() -> Result<String, SerializationError> {
    let file = InhibitionFile {
        inhibit_rules: inhibitions(),
    };
    Ok(format!("{HEADER}{}", yaml(&file)?))
}
