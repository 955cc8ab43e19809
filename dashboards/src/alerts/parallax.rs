//! Alerts about Parallax itself.

use super::{Alert, Severity};
use crate::promql::{Leader, exceeding_rounds};

/// The selector of any installation in `ParallaxAggregatorDown`. `absent` returns the labels that its selector
/// requires to be equal: the chart replaces this one by the job of its own `PodMonitor`, so that the alert names the
/// installation, and fires although others are scraped.
pub const ANY_INSTALLATION: &str = "job=~\".+\"";

pub(super) fn alerts(leader: Leader) -> Vec<Alert> {
    vec![
        Alert {
            name: "ParallaxAggregatorDown",
            severity: Severity::Critical,
            expression: format!("absent(parallax_aggregator_leader{{{ANY_INSTALLATION}}})"),
            for_seconds: 120,
            summary: "no aggregator of {{ with $labels.job }}{{ . }}{{ else }}Parallax{{ end }} can be scraped",
            description: "Nothing is judged. The alerts of open incidents keep firing for an hour; no other alert of {{ with $labels.job }}this installation{{ else }}Parallax{{ end }} can fire.",
        },
        // With several installations, that alert is silent as long as one of them is scraped. This one covers the installations
        // that were scraped within its range, which is longer than a weekend.
        Alert {
            name: "ParallaxInstallationDown",
            severity: Severity::Critical,
            expression: "(group by (cluster, job) (last_over_time(parallax_aggregator_leader[1w])) unless group by (cluster, job) (parallax_aggregator_leader)) and on () group(parallax_aggregator_leader)".to_owned(),
            for_seconds: 120,
            summary: "no aggregator of {{ $labels.job }}{{ with $labels.cluster }} in cluster {{ . }}{{ end }} can be scraped, unlike those of other installations",
            description: "Nothing is judged by this installation. The alerts of its open incidents keep firing for an hour, and this one for a week.",
        },
        Alert {
            name: "ParallaxAggregatorLeaderless",
            severity: Severity::Critical,
            expression: "max by (cluster, job) (parallax_aggregator_leader) == 0".to_owned(),
            for_seconds: 60,
            summary: "none of the aggregators is the leader",
            description: "Verdicts are still reached, but plans no longer follow the cluster, and runs and actions on incidents have to wait.",
        },
        Alert {
            name: "ParallaxEvidenceStale",
            severity: Severity::Critical,
            expression: leader.aggregate(
                "max",
                "cluster, job",
                &exceeding_rounds("parallax_evidence_age_seconds", 6, 60),
            ),
            for_seconds: 60,
            summary: "no round has been judged for {{ $value | humanizeDuration }}",
            description: "The page shows the last known state, not the present: neither a failure nor a recovery would be noticed.",
        },
        Alert {
            name: "ParallaxTopologyStale",
            severity: Severity::Warning,
            expression: format!(
                "{} > 300",
                leader.aggregate("max", "cluster, job", "parallax_topology_age_seconds")
            ),
            for_seconds: 60,
            summary: "the topology was last known to be current {{ $value | humanizeDuration }} ago",
            description: "Probing and judging continue with it. Endpoints that have moved since are judged with the wrong placement, and new objects are not probed.",
        },
        Alert {
            name: "ParallaxStoreDown",
            severity: Severity::Warning,
            expression: "min by (cluster, job, instance) (parallax_store_up) == 0".to_owned(),
            for_seconds: 300,
            summary: "the store of the aggregator at {{ $labels.instance }} is unavailable",
            description: "Probing and judging continue; until it is back, history is in memory only.",
        },
        Alert {
            name: "ParallaxNotificationsFailing",
            severity: Severity::Warning,
            expression: format!(
                "{} > 300\nor\nsum by (cluster, job, receiver) (increase(parallax_notifications_total{{result=~\"refused|dropped\"}}[15m])) > 0",
                leader.aggregate("max", "cluster, job, receiver", "parallax_notifications_oldest_seconds")
            ),
            for_seconds: 60,
            summary: "{{ $labels.receiver }} does not get notifications of incidents",
            description: "A notification has been pending for five minutes, or was rejected permanently or dropped. People are not notified through this receiver.",
        },
    ]
}
