//! Alerts about failures that users notice.

use super::{Alert, Severity};
use crate::promql::{Leader, ready_leader, surviving_restarts, targets_with_ratio};

pub(super) fn alerts(leader: Leader) -> Vec<Alert> {
    let never = "parallax_target_never_ok{pending=\"no\"}";
    vec![
        Alert {
            name: "ParallaxIncident",
            severity: Severity::FromSeries,
            expression: surviving_restarts(
                leader,
                "cluster, job, incident, cause, severity, subject",
                "cluster, job, incident",
                "parallax_incident{action=\"none\"}",
                &leader.of("parallax_incident{action!=\"none\"}"),
            ),
            for_seconds: 0,
            summary: "{{ $labels.subject }}: cause {{ $labels.cause }} (incident {{ $labels.incident }})",
            description: "Parallax has named the cause of a failure. `parallax explain {{ $labels.incident }}` shows the sentence, its evidence, what was ruled out, and the remedies with their trade-offs.",
        },
        Alert {
            name: "ParallaxTargetUnreachable",
            severity: Severity::Critical,
            expression: targets_with_ratio(leader, "< 0.5"),
            for_seconds: 60,
            summary: "{{ $labels.target }} is unreachable for clients with placement {{ $labels.placement }}",
            description: "{{ $value | humanizePercentage }} of the probes that take the path of a user succeed.",
        },
        Alert {
            name: "ParallaxTargetUnreliable",
            severity: Severity::Warning,
            expression: targets_with_ratio(leader, ">= 0.5 < 0.95"),
            for_seconds: 900,
            summary: "{{ $labels.target }} fails intermittently for clients with placement {{ $labels.placement }}",
            description: "{{ $value | humanizePercentage }} of the probes that take the path of a user succeed.",
        },
        Alert {
            // The chart changes its time, or leaves it out: podMonitor.neverWorkedMinutes.
            name: "ParallaxTargetNeverWorked",
            severity: Severity::Warning,
            expression: format!(
                "max by (cluster, job, target) (last_over_time({never}[10m])) unless on (cluster, job) {}\nor on (cluster, job, target)\n{}",
                ready_leader(),
                leader.aggregate("max", "cluster, job, target", never)
            ),
            for_seconds: 30 * 60,
            summary: "{{ $labels.target }} has never worked",
            description: "No probe of it has succeeded since it appeared. If it is not in service yet, mark it: with the annotation parallax.dev/pending: \"true\" of its Service, Ingress or HTTPRoute, or the field pending of the target.",
        },
        Alert {
            name: "ParallaxExposure",
            severity: Severity::FromSeries,
            expression: format!(
                "{} > 0",
                leader.aggregate(
                    "max",
                    "cluster, job, finding, catalogue, severity",
                    "parallax_finding{finding=\"exposed\",severity!=\"notice\"}"
                )
            ),
            for_seconds: 60,
            summary: "{{ $value }} hosts are served where they must not be",
            description: "A front serves a host of another ingress class, or a target responds where, or to clients to which, it must not. The page lists the vantages that see it.",
        },
        Alert {
            name: "ParallaxFinding",
            severity: Severity::FromSeries,
            expression: format!(
                "{} > 0",
                leader.aggregate(
                    "max",
                    "cluster, job, finding, catalogue, severity",
                    "parallax_finding{finding!=\"exposed\",severity!=\"notice\"}"
                )
            ),
            for_seconds: 600,
            summary: "{{ $value }} names with the finding {{ $labels.finding }} ({{ $labels.catalogue }})",
            description: "The answers for a name differ between resolvers, nodes or the public view, or the responses of a target have changed. The page shows which vantage gets which answer.",
        },
        Alert {
            name: "ParallaxHazard",
            severity: Severity::FromSeries,
            expression: format!(
                "{} > 0",
                leader.aggregate(
                    "max",
                    "cluster, job, hazard, subject, severity",
                    "parallax_hazard{severity!=\"notice\"}"
                )
            ),
            for_seconds: 900,
            summary: "{{ $labels.subject }}: {{ $labels.hazard }}",
            description: "Nothing fails yet. The configuration shows which clients would fail, and the page shows how to prevent it.",
        },
    ]
}
