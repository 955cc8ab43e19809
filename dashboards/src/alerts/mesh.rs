//! The mesh that looks: what it does not see, nobody is told.

use super::{Alert, Severity};
use crate::promql::{beyond_rounds, once, speaking};

pub(super) fn alerts() -> Vec<Alert> {
    let share = format!(
        "sum by (job) {} / sum by (job) {}",
        speaking("parallax_vantages{state!=\"reporting\"}"),
        speaking("parallax_vantages")
    );
    vec![
        Alert {
            name: "ParallaxVantageSilent",
            severity: Severity::Warning,
            expression: once("max", "job, vantage", &beyond_rounds("parallax_vantage_silent_seconds", 6, 60)),
            lasting: 60,
            summary: "{{ $labels.vantage }} has said nothing for {{ $value | humanizeDuration }}",
            description: "What is seen from there is unknown, not fine.",
        },
        Alert {
            name: "ParallaxCoverageLost",
            severity: Severity::Critical,
            expression: format!(
                "{share} > 0.2\nand on (job) sum by (job) {} >= 2",
                speaking("parallax_vantages{state!=\"reporting\"}")
            ),
            lasting: 300,
            summary: "{{ $value | humanizePercentage }} of the vantages do not report",
            description: "Failures that only these would see go unnoticed, and causes cannot be told apart as well as usual.",
        },
        Alert {
            name: "ParallaxNodesWithoutProber",
            severity: Severity::Warning,
            expression: format!("{} > 0", once("max", "job", "parallax_nodes{prober=\"no\"}")),
            lasting: 1_800,
            summary: "{{ $value }} nodes have no prober",
            description: "Whether clients on these nodes reach anything is not looked at. The page lists the nodes, and why as far as they tell.",
        },
        Alert {
            name: "ParallaxTargetUnseen",
            severity: Severity::Warning,
            expression: format!(
                "{} == 0",
                once("sum", "job, target", "parallax_target_vantages{state!=\"unknown\"}")
            ),
            lasting: 300,
            summary: "nobody knows whether {{ $labels.target }} can be reached",
            description: "No vantage has anything fresh to say of it.",
        },
        Alert {
            name: "ParallaxProberLate",
            severity: Severity::Warning,
            expression: "histogram_quantile(0.95, sum by (job, instance, le) (rate(parallax_prober_late_seconds_bucket[5m]))) > 1\n\
                         or\n\
                         sum by (job, instance) (rate(parallax_prober_probes_total{result=\"not_asked\"}[5m]))\n  \
                         / sum by (job, instance) (rate(parallax_prober_probes_total[5m])) > 0.05"
                .to_owned(),
            lasting: 600,
            summary: "the prober at {{ $labels.instance }} is short of something",
            description: "Its probes start late, or are not made at all. What it reports is not held against targets, but it sees less.",
        },
        Alert {
            name: "ParallaxProberPlanOld",
            severity: Severity::Warning,
            expression: "max by (job, instance) (parallax_prober_plan_age_seconds) > 120".to_owned(),
            lasting: 60,
            summary: "the prober at {{ $labels.instance }} has had no word of the aggregator for {{ $value | humanizeDuration }}",
            description: "It goes on with its last plan, and keeps what it sees as long as there is room.",
        },
        Alert {
            name: "ParallaxReportsLost",
            severity: Severity::Warning,
            expression: "sum by (job, instance) (increase(parallax_prober_spool_dropped_total[10m])) > 0".to_owned(),
            lasting: 0,
            summary: "the prober at {{ $labels.instance }} gave up {{ $value | humanize }} observations",
            description: "It could not deliver them for so long that there was no room for more, or the aggregator refused them for good.",
        },
    ]
}
