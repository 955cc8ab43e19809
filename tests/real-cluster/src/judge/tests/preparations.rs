//! Verdicts on what is reported before an event.

use super::*;
use crate::judge::Preparation;

const PREPARATION: Preparation = Preparation {
    from: 65.0,
    until: 100.0,
    with_previous_version: false,
};

fn early(at: f64) -> Vec<Incident> {
    if (80.0..90.0).contains(&at) {
        vec![incident("0a", "P12", "open")]
    } else {
        Vec::new()
    }
}

fn verdict(fails: &dyn Fn(f64) -> bool, step: &Step, preparation: Preparation) -> crate::judge::Verdict {
    let builder = TimelineBuilder {
        open: &early,
        fails,
        firing: &no_alert,
        code: &fine,
    };
    let timeline = builder.timeline();
    let mut verdict = judge(step, &timeline, MARKS, &destinations());
    assert_eq!(verdict.outcome, Outcome::Passed, "{:?}", verdict.reasons);
    verdict.judge_preparation(&timeline, preparation, &step.expect.may);
    verdict
}

#[test]
fn an_incident_before_the_event_fails_the_step_and_is_recorded() {
    let verdict = verdict(&never, &ordinary(), PREPARATION);
    assert_eq!(verdict.outcome, Outcome::Failed);
    assert_eq!(
        verdict.reasons,
        ["20 s before the event an incident opens: 0a P12 (pair n1 → n2, 0.000): P12 between n1 and n2"]
    );
    assert_eq!(verdict.preparation.len(), 1);
}

#[test]
fn an_incident_before_the_event_is_only_recorded_if_users_fail_or_the_step_allows_it() {
    let users = |at: f64| (70.0..72.0).contains(&at);
    let allowing = step("title: t\nkind: ordinary\ndo: []\nwatch: 1\nexpect: {may: [{cause: [P12]}]}\n");
    let previous = Preparation {
        with_previous_version: true,
        ..PREPARATION
    };
    for verdict in [
        verdict(&users, &ordinary(), PREPARATION),
        verdict(&never, &allowing, PREPARATION),
        verdict(&never, &ordinary(), previous),
    ] {
        assert_eq!((verdict.outcome, verdict.reasons), (Outcome::Passed, Vec::new()));
        assert_eq!(verdict.preparation.len(), 1);
    }
}

/// An incident of the previous step may still be open.
#[test]
fn an_incident_from_before_the_step_is_not_part_of_its_preparation() {
    let later = Preparation {
        from: 85.0,
        ..PREPARATION
    };
    assert_eq!(verdict(&never, &ordinary(), later).preparation, []);
}
