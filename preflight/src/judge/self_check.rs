//! The verdict on cert-manager's self check, which one Pod makes on one node.

use parallax_api::preflight::CheckState;
use parallax_model::{Network, Vantage};

use super::{CheckInput, FailureGroup, join_name_refs, join_names, short_name};

/// The vantage of cert-manager's Pod. If no prober in the Pod's own network responded on that node, the node's
/// other network stands in.
fn pod_vantage(
    input: &CheckInput<'_>,
    passed: &[Vantage],
    failing: &[FailureGroup],
    caveats: &mut Vec<String>,
) -> Option<Vantage> {
    let node = input.pod_node?;
    let at = |network| Vantage::Cluster {
        node: node.clone(),
        network,
    };
    let (own, other) = if input.pod_uses_host_network {
        (at(Network::Host), at(Network::Pod))
    } else {
        (at(Network::Pod), at(Network::Host))
    };
    let answered = |vantage: &Vantage| {
        passed.contains(vantage) || failing.iter().any(|group| group.vantages.contains(vantage))
    };
    if !answered(&own) && answered(&other) {
        caveats.push(format!(
            "no prober responded at {own}, the network of cert-manager's Pod; {other} is used instead"
        ));
        return Some(other);
    }
    Some(own)
}

/// Why there is no result of a vantage.
fn absence(vantage: &Vantage, silent: &[Vantage]) -> &'static str {
    if silent.contains(vantage) {
        "did not respond"
    } else {
        "was not asked, because it has no prober; run one there (the tolerations of the DaemonSet decide)"
    }
}

/// Returns the result and its sentence.
pub(super) fn judge(
    input: &CheckInput<'_>,
    passed: &[Vantage],
    failing: &[FailureGroup],
    silent: &[Vantage],
    caveats: &mut Vec<String>,
) -> (CheckState, String) {
    let pod_vantage = pod_vantage(input, passed, failing, caveats);
    let failed: Vec<&Vantage> = failing.iter().flat_map(|group| &group.vantages).collect();
    let total = passed.len() + failed.len() + silent.len();
    let reason = failing.first().map_or("", |group| group.reason.as_str());
    let counts = format!(
        "{} on {} of {total} vantages",
        if input.key_served {
            "passes"
        } else {
            "gets a response"
        },
        passed.len()
    );
    let (state, mut sentence) = match &pod_vantage {
        _ if total == silent.len() => (
            CheckState::Unknown,
            "no vantage responded, so the result of the self check is unknown".to_owned(),
        ),
        Some(pod_vantage) if failed.contains(&pod_vantage) => {
            let group = failing.iter().find(|group| group.vantages.contains(pod_vantage));
            let reason = group.map_or(reason, |group| group.reason.as_str());
            (
                CheckState::Failed,
                format!(
                    "cert-manager's Pod runs on {}, where the check fails: {reason}; it {counts}",
                    short_name(pod_vantage)
                ),
            )
        }
        Some(pod_vantage) if passed.contains(pod_vantage) && failed.is_empty() => {
            if !silent.is_empty() {
                caveats.push(format!("{} did not answer", join_names(silent)));
            }
            (
                CheckState::Passed,
                format!(
                    "{counts}, including {}, where cert-manager's Pod runs",
                    short_name(pod_vantage)
                ),
            )
        }
        Some(pod_vantage) if passed.contains(pod_vantage) => (
            CheckState::AtRisk,
            format!(
                "{counts}: on {}, where cert-manager's Pod runs now, but not on {} ({reason}); the result depends on the node of that Pod",
                short_name(pod_vantage),
                join_name_refs(&failed)
            ),
        ),
        None if failed.is_empty() && silent.is_empty() => (
            CheckState::Passed,
            format!("{counts}, whichever of them cert-manager's Pod runs on"),
        ),
        Some(pod_vantage) if failed.is_empty() => (
            CheckState::Unknown,
            format!(
                "{counts}, but cert-manager's Pod runs on {}, which {}",
                short_name(pod_vantage),
                absence(pod_vantage, silent)
            ),
        ),
        None if failed.is_empty() => (
            CheckState::Unknown,
            format!(
                "{counts}; {} did not respond, and the node of cert-manager's Pod is unknown",
                join_names(silent)
            ),
        ),
        Some(pod_vantage) => (
            CheckState::Failed,
            format!(
                "{counts}, not on {} ({reason}); {}, where cert-manager's Pod runs, {}",
                join_name_refs(&failed),
                short_name(pod_vantage),
                absence(pod_vantage, silent)
            ),
        ),
        None => (
            CheckState::Failed,
            format!(
                "{counts}, not on {} ({reason}); the node of cert-manager's Pod is unknown",
                join_name_refs(&failed)
            ),
        ),
    };
    caveats.extend(input.path_differences.iter().cloned());
    // The Pod itself may get another result than the prober on the same node.
    let state = if input.path_differences.is_empty() {
        state
    } else {
        sentence = format!(
            "{sentence}. But cert-manager's own Pod {}",
            input.path_differences.join(", and ")
        );
        CheckState::Unknown
    };
    (state, sentence)
}
