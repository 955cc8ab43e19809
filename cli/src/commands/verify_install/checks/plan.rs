//! Whether every prober follows the current plan.

use parallax_api::installation::{InstalledProber, ReportState};

use super::{Answer, Finding, count};
use crate::commands::verify_install::facts::Facts;

pub(super) fn check(facts: &Facts) -> Answer<Finding> {
    let answer = facts.aggregator()?;
    let reporting: Vec<&InstalledProber> = answer
        .probers
        .iter()
        .filter(|prober| prober.state == ReportState::Reporting)
        .collect();
    if reporting.is_empty() {
        return Err("no prober reports".to_owned());
    }
    let behind: Vec<String> = reporting
        .iter()
        .filter_map(|prober| Some(format!("{}: {}", prober.vantage, deviation(prober)?)))
        .collect();
    let following = reporting.len() - behind.len();
    let text = format!(
        "the current plan is followed by {following} of {}",
        count(reporting.len(), "reporting prober")
    );
    if behind.is_empty() {
        return Ok(Finding::ok(text));
    }
    Ok(Finding::not_ok(text).with_details(behind).with_action(format!(
        "repeat the check, because a change of the plan takes a second to arrive; if it persists, {}",
        facts.log_advice("daemonset/parallax-prober")
    )))
}

/// Describes how a prober's plan differs from the current one.
fn deviation(prober: &InstalledProber) -> Option<String> {
    let Some(plan) = prober.plan else {
        return Some("reports, and has no plan stream".to_owned());
    };
    if !plan.is_current {
        return Some("was sent an older plan only".to_owned());
    }
    // Probers of an older version do not report the number.
    let reported = prober.assignments?;
    (reported != plan.assignments).then(|| {
        format!(
            "has {reported} of the {} of its plan",
            count(
                usize::try_from(plan.assignments).unwrap_or(usize::MAX),
                "assignment"
            )
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::verify_install::checks::{
        CheckState,
        fixtures::{facts, installed, state},
    };

    #[test]
    fn probers_with_the_current_plan_follow_it() {
        let mut facts = facts();
        assert_eq!(
            check(&facts).unwrap(),
            Finding::ok("the current plan is followed by 3 of 3 reporting probers")
        );
        installed(&mut facts).probers[0].assignments = None;
        assert_eq!(state(check, &facts), CheckState::Ok, "an older version");
    }

    #[test]
    fn each_deviation_is_named() {
        let mut facts = facts();
        let probers = &mut installed(&mut facts).probers;
        probers[0].plan = None;
        probers[1].plan.as_mut().unwrap().is_current = false;
        probers[2].assignments = Some(3);
        let finding = check(&facts).unwrap();
        assert_eq!(finding.state, CheckState::NotOk);
        assert_eq!(
            finding.details,
            [
                "n1/pod: reports, and has no plan stream",
                "n2/pod: was sent an older plan only",
                "n3/pod: has 3 of the 7 assignments of its plan"
            ]
        );
    }

    #[test]
    fn without_reports_it_is_unknown() {
        let mut facts = facts();
        for prober in &mut installed(&mut facts).probers {
            prober.state = ReportState::Silent;
        }
        assert_eq!(state(check, &facts), CheckState::Unknown);
        facts.aggregator = Err("gone".to_owned());
        assert_eq!(state(check, &facts), CheckState::Unknown);
    }
}
