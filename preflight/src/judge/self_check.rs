//! cert-manager's own check: one pod's, on one node.

use parallax_api::preflight::CheckState;
use parallax_model::{Network, Vantage};

use super::{CheckInput, FailureGroup, list, list_refs, name};

/// Where cert-manager's pod sits, as a vantage. Where nobody asks from its network on that node, the other network
/// of the node stands for it.
fn seat(
    asked: &CheckInput<'_>,
    passed: &[Vantage],
    failing: &[FailureGroup],
    caveats: &mut Vec<String>,
) -> Option<Vantage> {
    let node = asked.seat?;
    let at = |network| Vantage::Cluster {
        node: node.clone(),
        network,
    };
    let (own, other) = if asked.seat_in_host_network {
        (at(Network::Host), at(Network::Pod))
    } else {
        (at(Network::Pod), at(Network::Host))
    };
    let answered = |vantage: &Vantage| {
        passed.contains(vantage) || failing.iter().any(|group| group.vantages.contains(vantage))
    };
    if !answered(&own) && answered(&other) {
        caveats.push(format!(
            "nobody answered from {own}, where the pod's network is; {other} stands for it"
        ));
        return Some(other);
    }
    Some(own)
}

/// How it stands, in a sentence.
pub(super) fn judge(
    asked: &CheckInput<'_>,
    passed: &[Vantage],
    failing: &[FailureGroup],
    silent: &[Vantage],
    caveats: &mut Vec<String>,
) -> (CheckState, String) {
    let seat = seat(asked, passed, failing, caveats);
    let failed: Vec<&Vantage> = failing.iter().flat_map(|group| &group.vantages).collect();
    let total = passed.len() + failed.len() + silent.len();
    let what = failing.first().map_or("", |group| group.words.as_str());
    let counts = format!(
        "{} on {} of {total} vantages",
        if asked.with_key { "passes" } else { "finds its way" },
        passed.len()
    );
    let (standing, mut sentence) = match &seat {
        _ if total == silent.len() => (
            CheckState::Unknown,
            "nobody answered, so nothing is known of the self check".to_owned(),
        ),
        Some(seat) if failed.contains(&seat) => {
            let group = failing.iter().find(|group| group.vantages.contains(seat));
            let what = group.map_or(what, |group| group.words.as_str());
            (
                CheckState::Failed,
                format!(
                    "cert-manager's pod sits on {}, where it fails: {what}; it {counts}",
                    name(seat)
                ),
            )
        }
        Some(seat) if passed.contains(seat) && failed.is_empty() => {
            if !silent.is_empty() {
                caveats.push(format!("{} did not answer", list(silent)));
            }
            (
                CheckState::Passed,
                format!("{counts}, on {} too, where cert-manager's pod sits", name(seat)),
            )
        }
        Some(seat) if passed.contains(seat) => (
            CheckState::AtRisk,
            format!(
                "{counts}: on {}, where cert-manager's pod sits now, but not on {} ({what}); it depends on where that pod runs",
                name(seat),
                list_refs(&failed)
            ),
        ),
        _ if failed.is_empty() && silent.is_empty() => (
            CheckState::Passed,
            format!("{counts}, whichever node cert-manager's pod is on"),
        ),
        Some(seat) if failed.is_empty() => (
            CheckState::Unknown,
            format!(
                "{counts}, and cert-manager's pod sits on {}, which did not answer",
                name(seat)
            ),
        ),
        None if failed.is_empty() => (
            CheckState::Unknown,
            format!(
                "{counts}; {} did not answer, and where cert-manager's pod sits is not known",
                list(silent)
            ),
        ),
        Some(seat) => (
            CheckState::Failed,
            format!(
                "{counts}, not on {} ({what}); {}, where cert-manager's pod sits, did not answer",
                list_refs(&failed),
                name(seat)
            ),
        ),
        None => (
            CheckState::Failed,
            format!(
                "{counts}, not on {} ({what}); where cert-manager's pod sits is not known",
                list_refs(&failed)
            ),
        ),
    };
    caveats.extend(asked.differs.iter().cloned());
    // What the pod itself meets is another thing than what a prober beside it met.
    let standing = if asked.differs.is_empty() {
        standing
    } else {
        sentence = format!(
            "{sentence}. But cert-manager's own pod {}",
            asked.differs.join(", and ")
        );
        CheckState::Unknown
    };
    (standing, sentence)
}
