//! Parallax itself: who watches the watchers.

use super::{Alert, Severity};
use crate::promql::{beyond_rounds, once};

pub(super) fn alerts() -> Vec<Alert> {
    vec![
        Alert {
            name: "ParallaxAggregatorDown",
            severity: Severity::Critical,
            expression: "absent(parallax_aggregator_leader)".to_owned(),
            lasting: 120,
            summary: "no aggregator of Parallax can be scraped",
            description: "Nothing is judged. The alerts of open incidents keep firing for an hour; no other alert of Parallax can fire.",
        },
        Alert {
            name: "ParallaxAggregatorLeaderless",
            severity: Severity::Critical,
            expression: "max by (job) (parallax_aggregator_leader) == 0".to_owned(),
            lasting: 60,
            summary: "none of the aggregators leads",
            description: "Verdicts are still reached, but plans do not follow the cluster any more, and runs and whatever people do about incidents wait.",
        },
        Alert {
            name: "ParallaxEvidenceStale",
            severity: Severity::Critical,
            expression: once(
                "max",
                "job",
                &beyond_rounds("parallax_evidence_age_seconds", 6, 60),
            ),
            lasting: 60,
            summary: "no round was judged for {{ $value | humanizeDuration }}",
            description: "What is shown is the last that was known, not the present: neither a failure nor a recovery would be noticed.",
        },
        Alert {
            name: "ParallaxTopologyStale",
            severity: Severity::Warning,
            expression: format!("{} > 300", once("max", "job", "parallax_topology_age_seconds")),
            lasting: 60,
            summary: "the topology was last known to be current {{ $value | humanizeDuration }} ago",
            description: "Probing and judging go on with it. Endpoints that have moved since are judged with the wrong placement, and what is new is not probed.",
        },
        Alert {
            name: "ParallaxStoreDown",
            severity: Severity::Warning,
            expression: "min by (job, instance) (parallax_store_up) == 0".to_owned(),
            lasting: 300,
            summary: "the store of the aggregator at {{ $labels.instance }} cannot be used",
            description: "Probing and judging go on; history is not kept meanwhile.",
        },
        Alert {
            name: "ParallaxNotificationsFailing",
            severity: Severity::Warning,
            expression: format!(
                "{} > 300\nor\nsum by (job, receiver) (increase(parallax_notifications_total{{result=~\"refused|dropped\"}}[15m])) > 0",
                once("max", "job, receiver", "parallax_notifications_oldest_seconds")
            ),
            lasting: 60,
            summary: "{{ $labels.receiver }} does not hear of incidents",
            description: "What Parallax has to tell it was not delivered for five minutes, or was refused for good. People are not called by this way.",
        },
    ]
}
