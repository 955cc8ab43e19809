//! Whether probers reach an echo in every other zone.

use std::collections::BTreeSet;

use parallax_api::installation::ZoneEcho;
use parallax_model::{EventTime, Micros};

use super::{Answer, Finding, count};
use crate::commands::verify_install::facts::Facts;

/// Intervals after which a result is too old.
const FRESH_INTERVALS: u64 = 5;
/// Shortest age at which a result is too old.
const MIN_FRESH: Micros = Micros::from_secs(60);

pub(super) fn check(facts: &Facts) -> Answer<Finding> {
    let answer = facts.aggregator()?;
    let pairs = &answer.zone_echoes;
    if pairs.is_empty() {
        let with_prober = answer.nodes.iter().filter(|node| node.prober_pod.is_some());
        return match with_prober.count() {
            0 if answer.in_cluster => Err("no node has a prober".to_owned()),
            0 => Ok(Finding::not_installed(
                "the topology contains no node with a prober",
            )),
            _ => Ok(Finding::ok(
                "only one node has a prober, so there is no other echo",
            )),
        };
    }
    let span = Micros(answer.interval.0.saturating_mul(FRESH_INTERVALS)).max(MIN_FRESH);
    let oldest = answer.at.minus(span);
    let (mut reached, mut failing, mut unseen) = (0, Vec::new(), Vec::new());
    for pair in pairs {
        match pair_state(pair, oldest) {
            PairState::Reached => reached += 1,
            PairState::Failing => failing.push(format!("{}: every recent probe failed", describe(pair))),
            PairState::Unseen => unseen.push(format!("{}: no recent probe", describe(pair))),
        }
    }
    let zones: BTreeSet<_> = pairs.iter().map(|pair| &pair.from).collect();
    let text = format!(
        "echo reached between {reached} of {} in {}",
        count(pairs.len(), "pair"),
        count(zones.len(), "zone")
    );
    if !failing.is_empty() {
        failing.append(&mut unseen);
        return Ok(Finding::not_ok(text).with_details(failing).with_action(
            "see the cause that the mesh names: parallax incidents; check that NetworkPolicies and firewalls admit the port of the echo between zones",
        ));
    }
    if !unseen.is_empty() {
        return Ok(Finding::unknown(text).with_details(unseen));
    }
    Ok(Finding::ok(text))
}

/// What recent probes of a pair show.
enum PairState {
    Reached,
    Failing,
    Unseen,
}

fn pair_state(pair: &ZoneEcho, oldest: EventTime) -> PairState {
    let recent = |at: Option<EventTime>| at.is_some_and(|at| at >= oldest);
    if recent(pair.last_reached) {
        PairState::Reached
    } else if recent(pair.last_failed) {
        PairState::Failing
    } else {
        PairState::Unseen
    }
}

fn describe(pair: &ZoneEcho) -> String {
    let zone = |zone: &Option<String>| zone.clone().unwrap_or_else(|| "(no zone)".to_owned());
    format!("{} to {}", zone(&pair.from), zone(&pair.to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::verify_install::checks::{
        CheckState,
        fixtures::{ago, facts, installed, state},
    };

    #[test]
    fn one_recent_success_of_each_pair_is_enough() {
        let mut facts = facts();
        installed(&mut facts).zone_echoes[0].last_failed = Some(ago(1));
        assert_eq!(
            check(&facts).unwrap(),
            Finding::ok("echo reached between 4 of 4 pairs in 2 zones")
        );
    }

    #[test]
    fn a_pair_that_only_fails_is_not_ok_and_one_without_probes_is_unknown() {
        let mut facts = facts();
        let pair = &mut installed(&mut facts).zone_echoes[1];
        pair.last_reached = Some(ago(61));
        let finding = check(&facts).unwrap();
        assert_eq!(finding.state, CheckState::Unknown);
        assert_eq!(finding.details, ["a to (no zone): no recent probe"]);
        installed(&mut facts).zone_echoes[1].last_failed = Some(ago(2));
        let finding = check(&facts).unwrap();
        assert_eq!(finding.state, CheckState::NotOk);
        assert_eq!(finding.evidence, "echo reached between 3 of 4 pairs in 2 zones");
        assert_eq!(finding.details, ["a to (no zone): every recent probe failed"]);
    }

    #[test]
    fn without_pairs_it_depends_on_the_number_of_probers() {
        let mut facts = facts();
        installed(&mut facts).zone_echoes.clear();
        installed(&mut facts).nodes.truncate(1);
        assert_eq!(state(check, &facts), CheckState::Ok);
        installed(&mut facts).nodes.clear();
        assert_eq!(state(check, &facts), CheckState::Unknown);
        installed(&mut facts).in_cluster = false;
        assert_eq!(state(check, &facts), CheckState::NotInstalled);
        facts.aggregator = Err("gone".to_owned());
        assert_eq!(state(check, &facts), CheckState::Unknown);
    }
}
