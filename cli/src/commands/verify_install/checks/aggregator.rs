//! Whether the aggregator answers, leads and judges rounds.

use parallax_api::installation::InstallationFacts;
use parallax_model::Micros;

use super::{Answer, Finding};
use crate::commands::verify_install::facts::Facts;

/// Intervals after which the last round is too old.
const MAX_ROUND_AGE_INTERVALS: u64 = 5;
/// Shortest age of the last round that is too old. A round is judged after the longest timeout of a probe, one minute at most.
const MIN_ROUND_AGE: Micros = Micros::from_secs(90);

pub(super) fn check(facts: &Facts) -> Answer<Finding> {
    let logs = facts.log_advice("deployment/parallax-aggregator");
    let answer = match &facts.aggregator {
        Ok(answer) => answer,
        Err(reason) => {
            let deployment = facts.cluster.workload("aggregator").ok().flatten();
            return match deployment {
                Some(deployment) if deployment.ready == 0 => Ok(Finding::not_ok(format!(
                    "does not answer: no Pod of the {} is ready",
                    deployment.describe()
                ))
                .with_action(logs)),
                _ => Err(format!("does not answer: {reason}")),
            };
        }
    };
    let version = &answer.version;
    Ok(match answer.role.as_str() {
        "stands_by" => Finding::not_ok(format!(
            "version {version} answers on standby: the leader does not respond"
        ))
        .with_action(logs),
        "starting" => Finding::unknown(format!(
            "version {version} answers and has not found its leader yet"
        )),
        _ => check_rounds(answer, logs),
    })
}

fn check_rounds(answer: &InstallationFacts, logs: String) -> Finding {
    let version = &answer.version;
    let Some(end) = answer.last_round_end else {
        return Finding::unknown(format!(
            "version {version} answers and has not judged a round yet"
        ));
    };
    let age = answer.at - end;
    let limit = Micros(answer.interval.0.saturating_mul(MAX_ROUND_AGE_INTERVALS)).max(MIN_ROUND_AGE);
    let text = format!(
        "version {version} answers; the last judged round ended {} ago",
        age.humanize()
    );
    if age > limit {
        return Finding::not_ok(text).with_action(logs);
    }
    if answer.catching_up {
        return Finding::unknown(format!("{text}; it is catching up after a start"));
    }
    Finding::ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::verify_install::checks::{
        CheckState,
        fixtures::{ago, facts, installed, state},
    };

    #[test]
    fn an_aggregator_that_judges_rounds_is_ok_and_an_idle_one_is_not() {
        let mut facts = facts();
        assert_eq!(state(check, &facts), CheckState::Ok);
        installed(&mut facts).catching_up = true;
        assert_eq!(state(check, &facts), CheckState::Unknown);
        installed(&mut facts).last_round_end = Some(ago(91));
        assert_eq!(state(check, &facts), CheckState::NotOk);
        installed(&mut facts).last_round_end = None;
        assert_eq!(state(check, &facts), CheckState::Unknown);
    }

    #[test]
    fn a_long_interval_allows_older_rounds() {
        let mut facts = facts();
        installed(&mut facts).interval = Micros::from_secs(60);
        installed(&mut facts).last_round_end = Some(ago(300));
        assert_eq!(state(check, &facts), CheckState::Ok);
        installed(&mut facts).last_round_end = Some(ago(301));
        assert_eq!(state(check, &facts), CheckState::NotOk);
    }

    #[test]
    fn a_standby_answers_only_without_its_leader() {
        let mut facts = facts();
        for (role, expected) in [
            ("leads", CheckState::Ok),
            ("stands_by", CheckState::NotOk),
            ("starting", CheckState::Unknown),
        ] {
            installed(&mut facts).role = role.to_owned();
            assert_eq!(state(check, &facts), expected, "{role}");
        }
    }

    #[test]
    fn silence_is_a_fault_only_if_the_api_server_shows_that_no_pod_is_ready() {
        let mut facts = facts();
        facts.aggregator = Err("connection refused".to_owned());
        let unknown = "does not answer: connection refused".to_owned();
        assert_eq!(check(&facts), Err(unknown));
        for workload in facts.cluster.workloads.as_mut().unwrap() {
            workload.ready = 0;
        }
        assert_eq!(state(check, &facts), CheckState::NotOk);
        facts.cluster.workloads = Err("forbidden".to_owned());
        assert_eq!(state(check, &facts), CheckState::Unknown);
    }
}
