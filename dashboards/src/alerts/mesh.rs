//! Alerts about the mesh: what it does not observe is unknown.

use super::{Alert, Severity};
use crate::promql::{Leader, exceeding_rounds};

pub(super) fn alerts(leader: Leader) -> Vec<Alert> {
    let share = format!(
        "sum by (cluster, job) {} / sum by (cluster, job) {}",
        leader.of("parallax_vantages{state!=\"reporting\"}"),
        leader.of("parallax_vantages")
    );
    vec![
        Alert {
            name: "ParallaxVantageSilent",
            severity: Severity::Warning,
            // A vantage that an open incident silences belongs to that incident, which has an alert.
            expression: format!(
                "{}\nunless on (cluster, job, vantage) {}",
                leader.aggregate("max", "cluster, job, vantage", &exceeding_rounds("parallax_vantage_silent_seconds", 6, 60)),
                leader.of("parallax_vantage_incident")
            ),
            for_seconds: 60,
            summary: "{{ $labels.vantage }} has not reported for {{ $value | humanizeDuration }}",
            description: "The state of targets as seen from this vantage is unknown, not ok.",
        },
        Alert {
            name: "ParallaxCoverageLost",
            severity: Severity::Critical,
            expression: format!(
                "{share} > 0.2\nand on (cluster, job) sum by (cluster, job) {} >= 2",
                leader.of("parallax_vantages{state!=\"reporting\"}")
            ),
            for_seconds: 300,
            summary: "{{ $value | humanizePercentage }} of the vantages do not report",
            description: "Failures that only these vantages would see go unnoticed, and causes are harder to tell apart.",
        },
        Alert {
            name: "ParallaxNodesWithoutProber",
            severity: Severity::Warning,
            expression: format!("{} > 0", leader.aggregate("max", "cluster, job", "parallax_nodes{prober=\"no\"}")),
            for_seconds: 1_800,
            summary: "{{ $value }} nodes have no prober",
            description: "What clients on these nodes can reach is unknown. The page lists the nodes and, if known, the reason.",
        },
        Alert {
            name: "ParallaxTargetUnseen",
            severity: Severity::Warning,
            expression: format!(
                "{} == 0",
                leader.aggregate("sum", "cluster, job, target", "parallax_target_vantages{state!=\"unknown\"}")
            ),
            for_seconds: 300,
            summary: "{{ $labels.target }} is not observed",
            description: "No vantage has a fresh observation of the target. Its state is unknown, which is not the same as reachable.",
        },
        Alert {
            name: "ParallaxProberLate",
            severity: Severity::Warning,
            expression: "histogram_quantile(0.95, sum by (cluster, job, instance, le) (rate(parallax_prober_late_seconds_bucket[5m]))) > 1\n\
                         or\n\
                         sum by (cluster, job, instance) (rate(parallax_prober_probes_total{result=\"not_asked\"}[5m]))\n  \
                         / sum by (cluster, job, instance) (rate(parallax_prober_probes_total[5m])) > 0.05"
                .to_owned(),
            for_seconds: 600,
            summary: "the prober at {{ $labels.instance }} starts probes late or skips them",
            description: "A fault of the prober (CPU, ports, resolver). It never counts against a target, but the prober observes less.",
        },
        Alert {
            name: "ParallaxProberPlanOld",
            severity: Severity::Warning,
            expression: "max by (cluster, job, instance) (parallax_prober_plan_age_seconds) > 120".to_owned(),
            for_seconds: 60,
            summary: "the prober at {{ $labels.instance }} has received nothing from the aggregator for {{ $value | humanizeDuration }}",
            description: "It continues with its last plan, and buffers its observations as long as there is room.",
        },
        Alert {
            name: "ParallaxReportsLost",
            severity: Severity::Warning,
            expression: "sum by (cluster, job, instance) (increase(parallax_prober_spool_dropped_total[10m])) > 0".to_owned(),
            for_seconds: 0,
            summary: "the prober at {{ $labels.instance }} dropped {{ $value | humanize }} observations",
            description: "Its buffer was full because it could not deliver them for too long, or the aggregator rejected them permanently.",
        },
    ]
}
