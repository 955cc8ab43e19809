//! Alerts about certificates whose renewal would fail.

use super::{Alert, Severity};
use crate::promql::{Leader, with_own_namespace};

/// Seconds before the expiry of a Certificate from which a renewal that would fail is critical, if the renewal is also
/// due within [`RENEWAL_DUE_SECONDS`]: certificates of a few days always expire soon.
const CRITICAL_BEFORE_EXPIRY_SECONDS: u32 = 7 * 86_400;
const RENEWAL_DUE_SECONDS: u32 = 86_400;

pub(super) fn alerts(leader: Leader) -> Vec<Alert> {
    let of = "on (cluster, job, namespace, certificate)";
    let own = |metric: &str| with_own_namespace(&leader.of(metric));
    let foreseen = format!(
        "max by (cluster, job, namespace, certificate, host, cause) ({})",
        own("parallax_renewal_forecast{forecast=\"would_fail\"}")
    );
    let time = |metric: &str| format!("min by (cluster, job, namespace, certificate) ({})", own(metric));
    let near = format!(
        "(\n  {} - time() < {CRITICAL_BEFORE_EXPIRY_SECONDS}\n  unless {of} {} - time() > {RENEWAL_DUE_SECONDS}\n)",
        time("parallax_certificate_not_after_timestamp_seconds"),
        time("parallax_certificate_renewal_timestamp_seconds"),
    );
    let with = |severity: &str, joined: &str| {
        format!("label_replace({foreseen}\n{joined} {of} {near}, \"severity\", \"{severity}\", \"\", \"\")")
    };
    vec![Alert {
        name: "ParallaxRenewalWouldFail",
        severity: Severity::FromSeries,
        expression: format!("{}\nor\n{}", with("critical", "and"), with("warning", "unless")),
        for_seconds: 1_800,
        summary: "{{ $labels.host }} of the certificate {{ $labels.namespace }}/{{ $labels.certificate }} would not be renewed ({{ $labels.cause }})",
        description: "A forecast, from what is certain without an order: in its current state the CA would refuse this name. `parallax forecasts` shows the reason, the CA's error and what to do.",
    }]
}
