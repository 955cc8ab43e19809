//! What users meet.

use super::{Alert, Severity, rules::NEVER_WORKED_MINUTES};
use crate::promql::{once, outliving, ready, speaking, targets_where};

/// The alert whose duration an installation chooses.
pub(super) const NEVER_WORKED: &str = "ParallaxTargetNeverWorked";

pub(super) fn alerts() -> Vec<Alert> {
    let never = "parallax_target_never_ok{pending=\"no\"}";
    vec![
        Alert {
            name: "ParallaxIncident",
            severity: Severity::OfSeries,
            expression: outliving(
                "job, incident, cause, severity, subject",
                "job, incident",
                "parallax_incident{handling=\"none\"}",
                &speaking("parallax_incident{handling!=\"none\"}"),
            ),
            lasting: 0,
            summary: "{{ $labels.subject }}: cause {{ $labels.cause }} (incident {{ $labels.incident }})",
            description: "Parallax has named the cause of a failure. `parallax explain {{ $labels.incident }}` shows the sentence, its evidence, what was ruled out and what each way out costs.",
        },
        Alert {
            name: "ParallaxTargetUnreachable",
            severity: Severity::Critical,
            expression: targets_where("< 0.5"),
            lasting: 60,
            summary: "{{ $labels.target }} is unreachable for clients whose placement is {{ $labels.placement }}",
            description: "{{ $value | humanizePercentage }} of the probes that go the way a user would succeed.",
        },
        Alert {
            name: "ParallaxTargetUnreliable",
            severity: Severity::Warning,
            expression: targets_where(">= 0.5 < 0.95"),
            lasting: 900,
            summary: "{{ $labels.target }} fails now and then for clients whose placement is {{ $labels.placement }}",
            description: "{{ $value | humanizePercentage }} of the probes that go the way a user would succeed.",
        },
        Alert {
            name: NEVER_WORKED,
            severity: Severity::Warning,
            expression: format!(
                "max by (job, target) (last_over_time({never}[10m])) unless on (job) {}\nor on (job, target)\n{}",
                ready(),
                once("max", "job, target", never)
            ),
            lasting: NEVER_WORKED_MINUTES * 60,
            summary: "{{ $labels.target }} has never worked",
            description: "No probe of it has succeeded since it appeared. A target that is not in service yet says so: the annotation parallax.dev/pending: \"true\" of its Service, Ingress or HTTPRoute, or the field pending of the target.",
        },
        Alert {
            name: "ParallaxExposure",
            severity: Severity::OfSeries,
            expression: format!(
                "{} > 0",
                once(
                    "max",
                    "job, finding, catalogue, severity",
                    "parallax_finding{finding=\"exposed\",severity!=\"notice\"}"
                )
            ),
            lasting: 60,
            summary: "{{ $value }} hosts are served where they must not be",
            description: "A front answers for a host of another ingress class, or a target answers where, or to whom, it must not. The page lists who sees it.",
        },
        Alert {
            name: "ParallaxFinding",
            severity: Severity::OfSeries,
            expression: format!(
                "{} > 0",
                once(
                    "max",
                    "job, finding, catalogue, severity",
                    "parallax_finding{finding!=\"exposed\",severity!=\"notice\"}"
                )
            ),
            lasting: 600,
            summary: "{{ $value }} names with the finding {{ $labels.finding }} ({{ $labels.catalogue }})",
            description: "What a name is told to be differs between resolvers, nodes or the public view. The page shows who is told what.",
        },
        Alert {
            name: "ParallaxHazard",
            severity: Severity::OfSeries,
            expression: format!(
                "{} > 0",
                once(
                    "max",
                    "job, hazard, subject, severity",
                    "parallax_hazard{severity!=\"notice\"}"
                )
            ),
            lasting: 900,
            summary: "{{ $labels.subject }}: {{ $labels.hazard }}",
            description: "Nobody fails yet. Configuration says who would, and the page says what to do before that.",
        },
    ]
}
