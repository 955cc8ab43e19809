//! Pending cert-manager Challenges, as explained by the aggregator.

use std::fmt::Write as _;

use parallax_api::challenges::{ChallengeList, WaitingChallenge};
use parallax_terminal::ColorMode;

use super::ApiClient;
use crate::exit::Failure;

/// Queries the pending Challenges. An aggregator too old for this request has none.
pub(super) async fn fetch(client: &ApiClient) -> Result<ChallengeList, Failure> {
    match client.get(&["v1", "challenges"], &[]).await {
        Err(Failure::Usage(_)) => Ok(empty()),
        result => result,
    }
}

pub(super) const fn empty() -> ChallengeList {
    ChallengeList {
        challenges: Vec::new(),
        unknown_because: None,
    }
}

/// Renders one paragraph per pending Challenge.
pub(super) fn render_pending(all: &ChallengeList, style: ColorMode) -> String {
    let mut out = String::new();
    for challenge in &all.challenges {
        let _ = writeln!(
            out,
            "{} {} is pending (challenge/{}/{})",
            style.paint("33", "!"),
            challenge.host,
            challenge.namespace,
            challenge.name
        );
        write_challenge(&mut out, challenge);
        out.push('\n');
    }
    out
}

fn write_challenge(out: &mut String, challenge: &WaitingChallenge) {
    let explanation = challenge.explanation.as_ref();
    let sentence = explanation.map_or(&challenge.meaning, |explained| &explained.self_check.sentence);
    let _ = writeln!(out, "  {sentence}");
    for cause in &challenge.causes {
        let word = if cause.diagnosed { "cause" } else { "usually" };
        let _ = writeln!(out, "  {word:9} {} {}", cause.id, cause.title);
    }
    if let Some(explained) = explanation {
        for remedy in &explained.remedies {
            let _ = writeln!(
                out,
                "  remedy    {} (trade-off: {})",
                remedy.action, remedy.trade_off
            );
        }
        if let Some(incident) = &explained.incident {
            let _ = writeln!(
                out,
                "  incident  {incident} has the same cause: parallax explain {incident}"
            );
        }
        for line in &explained.placement {
            let _ = writeln!(out, "  {line}");
        }
        if let Some(hint) = &explained.wait_instead_of_self_check {
            let _ = writeln!(out, "  {hint}");
        }
    }
    if let Some(reason) = &challenge.not_replayed {
        let _ = writeln!(out, "  not replayed: {reason}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_has_its_sentence_cause_and_way_out() {
        let check = json!({"state": "failed", "sentence": "it fails on n2", "passing": ["n1/pod"], "failing": [], "silent": [], "caveats": []});
        let all: ChallengeList = serde_json::from_value(json!({"challenges": [
            {"namespace": "shop", "name": "web-1", "host": "shop.example.test", "since": 1, "reason": "r", "meaning": "refused",
             "causes": [{"id": "F1", "title": "no local endpoint", "diagnosed": true}],
             "explanation": {"replayed_at": 1, "runs": ["r-1"], "self_check": check, "ca": check, "placement": ["its pod is on n2"],
                "remedies": [{"action": "do it", "price": "nothing"}], "incident": "i-1"}},
            {"namespace": "shop", "name": "web-2", "host": "b.example.test", "since": 1, "reason": "", "meaning": "queued",
             "causes": [], "not_replayed": "no vantage reports"}]}))
        .unwrap();
        let text = render_pending(&all, ColorMode::Plain);
        for words in [
            "! shop.example.test is pending (challenge/shop/web-1)",
            "  it fails on n2",
            "  cause     F1 no local endpoint",
            "  remedy    do it (trade-off: nothing)",
            "parallax explain i-1",
            "  its pod is on n2",
            "  queued",
            "  not replayed: no vantage reports",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert_eq!(render_pending(&empty(), ColorMode::Plain), "");
    }
}
