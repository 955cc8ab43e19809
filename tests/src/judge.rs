//! Is what Parallax says what it should say? Pure.

use crate::{
    api_client::{Incident as Named, Notice, State},
    incident::{Expected, ExpectedEvidence, ExpectedNotice, ExpectedVerdict, Incident, Outcome, Share},
    packets::printable,
};

/// What to make of the aggregator's state.
#[derive(Debug, Clone, PartialEq)]
pub enum Judgement {
    /// Not yet as expected; why, should it stay so.
    Waiting(String),
    /// As expected.
    Named(Box<Named>),
    /// As expected: these findings and hazards, and no verdict.
    Shown(Vec<Notice>),
    /// Something that must not be said has been said.
    Wrong(String),
}

/// Before the first fault, or where nothing goes wrong: any verdict is wrong, and any finding that is not expected.
#[must_use]
pub fn quiet(expected: &Expected, state: &State) -> Judgement {
    if let Some(named) = state.incidents.first() {
        return Judgement::Wrong(format!("nothing is wrong, but: {}", summary(named)));
    }
    if let Some(finding) = unexpected(expected, state) {
        return Judgement::Wrong(format!(
            "nothing is wrong, but a finding ({}): {}",
            finding.kind,
            printable(&finding.sentence)
        ));
    }
    Judgement::Waiting("no verdict".to_owned())
}

/// Before the first fault findings are wrong, too.
#[must_use]
pub fn healthy(state: &State) -> Judgement {
    let nothing = Expected {
        outcome: Outcome::Quiet { seconds: 1 },
        findings: Vec::new(),
        hazards: Vec::new(),
        packets: crate::incident::Packets::default(),
    };
    quiet(&nothing, state)
}

/// Nothing but the expected findings and hazards: all of them, and no verdict other than of the regions allowed.
#[must_use]
pub fn shown_only(expected: &Expected, besides: &[String], state: &State) -> Judgement {
    let mut rest = state.clone();
    rest.incidents
        .retain(|named| !besides.contains(&named.region.region));
    match quiet(expected, &rest) {
        Judgement::Waiting(_) => match not_shown(expected, state) {
            Some(missing) => Judgement::Waiting(missing),
            None => Judgement::Shown(
                notices(&expected.findings, &state.findings)
                    .chain(notices(&expected.hazards, &state.hazards))
                    .cloned()
                    .collect(),
            ),
        },
        other => other,
    }
}

/// The first expected finding or hazard that is not there.
#[must_use]
pub fn not_shown(expected: &Expected, state: &State) -> Option<String> {
    let missing = |what: &str, wanted: &[ExpectedNotice], there: &[Notice]| {
        let lacking = wanted
            .iter()
            .find(|wanted| !there.iter().any(|notice| fits(wanted, notice)))?;
        let same = there.iter().find(|notice| notice.kind == lacking.kind);
        Some(match same {
            None => format!("there is no {what} {}", lacking.kind),
            Some(other) => format!(
                "the {what} {} does not say {:?}: {}",
                lacking.kind,
                lacking.says,
                printable(&other.sentence)
            ),
        })
    };
    missing("finding", &expected.findings, &state.findings)
        .or_else(|| missing("hazard", &expected.hazards, &state.hazards))
}

fn notices<'a>(wanted: &'a [ExpectedNotice], there: &'a [Notice]) -> impl Iterator<Item = &'a Notice> {
    there
        .iter()
        .filter(|notice| wanted.iter().any(|wanted| fits(wanted, notice)))
}

fn fits(wanted: &ExpectedNotice, notice: &Notice) -> bool {
    notice.kind == wanted.kind
        && wanted.says.iter().all(|words| {
            let says = |text: &String| text.contains(words.as_str());
            says(&notice.sentence)
                || notice.evidence.iter().any(says)
                || notice
                    .remedies
                    .iter()
                    .any(|remedy| says(&remedy.action) || says(&remedy.price))
        })
}

fn unexpected<'a>(expected: &Expected, state: &'a State) -> Option<&'a Notice> {
    state
        .findings
        .iter()
        .find(|finding| !expected.findings.iter().any(|wanted| wanted.kind == finding.kind))
}

/// After the last fault: exactly the expected verdict must be named.
#[must_use]
pub fn verdict(incident: &Incident, expected: &ExpectedVerdict, state: &State) -> Judgement {
    if let Some(named) = state
        .incidents
        .iter()
        .find(|named| expected.absent.contains(&named.region.region))
    {
        return Judgement::Wrong(format!(
            "the region {} must not be named, but: {}",
            named.region.region,
            summary(named)
        ));
    }
    if let Some(finding) = unexpected(&incident.expected, state) {
        return Judgement::Wrong(format!(
            "a finding that is not expected ({}): {}",
            finding.kind,
            printable(&finding.sentence)
        ));
    }
    let open: Vec<&Named> = state.open().collect();
    let fits = |named: &&&Named| {
        let region = &named.region.region;
        *region == expected.region || expected.or_region.contains(region)
    };
    let Some(named) = open.iter().find(fits) else {
        return Judgement::Waiting(match open.first() {
            None => "no verdict".to_owned(),
            Some(other) => format!("only another verdict: {}", summary(other)),
        });
    };
    if let Some(missing) = mismatch(incident, expected, named) {
        return Judgement::Waiting(missing);
    }
    if let Some(missing) = not_shown(&incident.expected, state) {
        return Judgement::Waiting(missing);
    }
    if open.len() > 1 {
        let all: Vec<String> = open.iter().map(|named| summary(named)).collect();
        return Judgement::Waiting(format!(
            "{} verdicts for one fault: {}",
            open.len(),
            all.join("; ")
        ));
    }
    Judgement::Named(Box::new((*named).clone()))
}

/// What the one verdict should cover and does not.
fn uncovered(incident: &Incident, expected: &ExpectedVerdict, named: &Named) -> Option<String> {
    let members = incident
        .hosts()
        .filter(|host| {
            named
                .targets
                .iter()
                .any(|target| target_host(target) == Some(host.as_str()))
        })
        .count();
    if let Some(wanted) = expected.members.filter(|wanted| *wanted != members) {
        return Some(format!("it covers {members} of the hosts, expected {wanted}"));
    }
    let left_out = expected
        .covers
        .iter()
        .find(|wanted| !named.targets.contains(wanted))?;
    Some(format!("it does not cover {left_out}"))
}

fn mismatch(incident: &Incident, expected: &ExpectedVerdict, named: &Named) -> Option<String> {
    let cause = named.causes.first().map_or("none", |cause| cause.id.as_str());
    if cause != expected.cause && !expected.or_cause.iter().any(|other| other == cause) {
        return Some(format!(
            "the likeliest cause is {cause}, expected {}",
            expected.cause
        ));
    }
    let subject = expected
        .front
        .map(|front| front.to_string())
        .or_else(|| expected.subject.clone());
    if let Some(subject) = subject.filter(|subject| *subject != named.subject.called()) {
        return Some(format!(
            "it is about {}, expected {subject}",
            printable(named.subject.called())
        ));
    }
    if let Some(service) = &expected.service
        && !incident
            .fronts_of(service)
            .any(|front| front.to_string() == named.subject.called())
    {
        return Some(format!(
            "it is about {}, expected a front of {service}",
            printable(named.subject.called())
        ));
    }
    if !expected.on.is_empty() && expected.on != named.region.members {
        return Some(format!(
            "it is about {}, expected {}",
            printable(&named.region.members.join(", ")),
            expected.on.join(", ")
        ));
    }
    if let Some(tie) = &expected.tie {
        let mut class: Vec<&str> = named.class.iter().map(|region| region.region.as_str()).collect();
        class.retain(|region| *region != expected.region);
        class.sort_unstable();
        let mut tie: Vec<&str> = tie.iter().map(String::as_str).collect();
        tie.sort_unstable();
        if class != tie {
            return Some(format!(
                "it cannot be told from {:?}, expected {tie:?}",
                printable(&class.join(", "))
            ));
        }
    }
    if let Some(missing) = uncovered(incident, expected, named) {
        return Some(missing);
    }
    if let Some(words) = expected
        .sentence
        .iter()
        .find(|words| !named.sentence.contains(words.as_str()))
    {
        return Some(format!(
            "the sentence lacks {words:?}: {}",
            printable(&named.sentence)
        ));
    }
    if let Some(line) = expected.evidence.iter().find(|line| !shown(line, named)) {
        let table: Vec<String> = named
            .evidence
            .iter()
            .map(|row| format!("{} {}/{}", row.who, row.failures, row.probes))
            .collect();
        return Some(format!(
            "the evidence does not show that {:?} {} fails: {}",
            line.who,
            match line.fails {
                Share::Always => "always",
                Share::Sometimes => "sometimes",
                Share::Rarely => "rarely",
                Share::Never => "never",
            },
            printable(&table.join("; "))
        ));
    }
    if let Some(words) = expected.remedies.iter().find(|words| {
        !named
            .remedies
            .iter()
            .any(|remedy| remedy.action.contains(words.as_str()) || remedy.price.contains(words.as_str()))
    }) {
        return Some(format!("no way out says {words:?}"));
    }
    expected
        .locality
        .iter()
        .find(|words| !named.locality.iter().any(|line| line.contains(words.as_str())))
        .map(|words| format!("nothing is said of {words:?}"))
}

fn shown(expected: &ExpectedEvidence, named: &Named) -> bool {
    let mut rows = named
        .evidence
        .iter()
        // One probe, asked beyond the plan, is no share of anything.
        .filter(|row| row.who.starts_with(&expected.who) && row.probes >= 2)
        .peekable();
    rows.peek().is_some()
        && rows.all(|row| match expected.fails {
            Share::Always => row.failures == row.probes,
            Share::Sometimes => row.failures * 20 > row.probes && row.failures < row.probes,
            Share::Rarely => row.failures * 20 <= row.probes,
            Share::Never => row.failures == 0,
        })
}

/// The host of a target's URL.
fn target_host(target: &str) -> Option<&str> {
    let rest = target.split_once("://")?.1;
    rest.split(['/', ':']).next()
}

fn summary(named: &Named) -> String {
    let cause = named.causes.first().map_or("no cause", |cause| cause.id.as_str());
    printable(&format!("{} / {cause}: {}", named.region.region, named.sentence))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::incident::parse;

    fn incident(text: &str) -> (Incident, ExpectedVerdict) {
        let incident = parse(Path::new("x.yaml"), text).unwrap();
        let Outcome::Verdict(expected) = incident.expected.outcome.clone() else {
            panic!("a verdict is expected")
        };
        (incident, *expected)
    }

    /// The shape of the aggregator's answer, with fields the lab does not know.
    fn state(region: &str, cause: &str, hosts: &[String]) -> State {
        let row = |who: &str, failures: u64| serde_json::json!({"who": who, "channel": "vip", "probes": 4, "failures": failures, "kinds": []});
        let targets: Vec<_> = hosts.iter().map(|host| format!("http://{host}/")).collect();
        serde_json::from_value(serde_json::json!({
            "at": 1, "vantages": [], "matrix": [],
            "incidents": [{
                "id": "a", "state": "open", "since": 1, "opened": 2, "occurrences": 1,
                "subject": {"type": "front", "name": "203.0.113.10:80"},
                "region": {"region": region, "members": []},
                "probability": 0.98,
                "causes": [{"id": cause, "title": "t", "probability": 0.9}],
                "sentence": "refused by their own node: externalTrafficPolicy: Local",
                "evidence": [
                    row("through 203.0.113.10:80 from nodes without an ingress pod", 4),
                    row("through 203.0.113.10:80 from nodes with an ingress pod, answered there", 0),
                    row("through the cluster address 10.96.0.50:80 from nodes with an ingress pod", 0),
                    row("through the cluster address 10.96.0.50:80 from nodes without an ingress pod", 0),
                    row("directly to the endpoints", 0),
                ],
                "locality": [
                    "203.0.113.10 answers n3/pod (failing) with an untouched TTL of 64: the client's own node answers",
                    "203.0.113.10 answers n4/pod (failing) with an untouched TTL of 64: the client's own node answers",
                ],
                "targets": targets,
            }],
        }))
        .unwrap()
    }

    fn fifty() -> Vec<String> {
        (1..=50).map(|n| format!("shop-{n:02}.example.test")).collect()
    }

    #[test]
    fn the_expected_verdict_with_all_its_members_is_named() {
        let (incident, expected) = incident(include_str!("../incidents/i1-50-hosts.yaml"));
        let judged = verdict(&incident, &expected, &state("nolocal", "F1", &fifty()));
        assert!(matches!(judged, Judgement::Named(_)), "{judged:?}");
    }

    #[test]
    fn another_cause_or_a_missing_member_is_not_it() {
        let (incident, expected) = incident(include_str!("../incidents/i1-50-hosts.yaml"));
        for (state, why) in [
            (
                state("nolocal", "F2", &fifty()),
                "the likeliest cause is F2, expected F1",
            ),
            (
                state("nolocal", "F1", &fifty()[..49]),
                "it covers 49 of the hosts, expected 50",
            ),
            (State::default(), "no verdict"),
        ] {
            assert_eq!(
                verdict(&incident, &expected, &state),
                Judgement::Waiting(why.to_owned())
            );
        }
    }

    #[test]
    fn a_region_that_covers_the_same_probes_may_stand_in_place_of_the_expected_one() {
        let (incident, mut expected) = incident(include_str!("../incidents/i1.yaml"));
        let mut state = state("nolocal", "F1", &["shop.example.test".to_owned()]);
        state.incidents[0].region.region = "same".to_owned();
        assert!(matches!(
            verdict(&incident, &expected, &state),
            Judgement::Waiting(_)
        ));
        expected.or_region = vec!["same".to_owned()];
        assert!(matches!(
            verdict(&incident, &expected, &state),
            Judgement::Named(_)
        ));
    }

    #[test]
    fn a_verdict_that_leaves_a_target_out_is_not_it() {
        let (incident, expected) = incident(include_str!("../incidents/i1-dual-stack.yaml"));
        let mut state = state("nolocal", "F1", &["shop.example.test".to_owned()]);
        assert_eq!(
            verdict(&incident, &expected, &state),
            Judgement::Waiting("it does not cover http://[2001:db8::cb00:710a]/".to_owned())
        );
        state.incidents[0]
            .targets
            .push("http://[2001:db8::cb00:710a]/".to_owned());
        assert!(matches!(
            verdict(&incident, &expected, &state),
            Judgement::Named(_)
        ));
    }

    #[test]
    fn a_verdict_without_its_evidence_is_not_it() {
        let (incident, expected) = incident(include_str!("../incidents/i1.yaml"));
        let whole = state("nolocal", "F1", &["shop.example.test".to_owned()]);
        let mut flaky = whole.clone();
        flaky.incidents[0].evidence[0].failures = 3;
        let mut lacking = whole.clone();
        lacking.incidents[0].evidence.truncate(2);
        let mut silent = whole.clone();
        silent.incidents[0].locality.clear();
        assert!(matches!(
            verdict(&incident, &expected, &whole),
            Judgement::Named(_)
        ));
        for state in [flaky, lacking, silent] {
            let judged = verdict(&incident, &expected, &state);
            assert!(matches!(judged, Judgement::Waiting(_)), "{judged:?}");
        }
    }

    #[test]
    fn two_verdicts_for_one_fault_are_one_too_many() {
        let (incident, expected) = incident(include_str!("../incidents/i1.yaml"));
        let mut state = state("nolocal", "F1", &["shop.example.test".to_owned()]);
        let mut second = state.incidents[0].clone();
        second.region.region = "pair".to_owned();
        state.incidents.push(second);
        let judged = verdict(&incident, &expected, &state);
        let Judgement::Waiting(why) = judged else {
            panic!("{judged:?}")
        };
        assert!(why.starts_with("2 verdicts for one fault"), "{why}");
    }

    #[test]
    fn a_region_that_must_not_be_named_is_wrong_at_once_even_when_it_was_taken_back() {
        let (incident, expected) = incident(include_str!("../incidents/i1.yaml"));
        let mut state = state("vip", "F12", &["shop.example.test".to_owned()]);
        state.incidents[0].state = "closed".to_owned();
        assert!(matches!(
            verdict(&incident, &expected, &state),
            Judgement::Wrong(_)
        ));
    }

    #[test]
    fn any_verdict_is_wrong_while_nothing_is_wrong() {
        assert!(matches!(
            healthy(&state("nolocal", "F1", &[])),
            Judgement::Wrong(_)
        ));
        assert!(matches!(healthy(&State::default()), Judgement::Waiting(_)));
    }

    fn noticed(sentence: &str) -> State {
        serde_json::from_value(serde_json::json!({
            "findings": [{"kind": "exposed", "sentence": sentence, "evidence": ["a 200 from 203.0.113.10:80"]}]
        }))
        .unwrap()
    }

    #[test]
    fn a_finding_is_as_expected_with_its_words_wrong_where_none_is_expected_and_missed_where_it_is_not_there()
    {
        let (mut incident, _) = incident(include_str!("../incidents/i1.yaml"));
        incident.expected.findings = vec![ExpectedNotice {
            kind: "exposed".to_owned(),
            says: vec!["intern.example.test".to_owned(), "a 200 from".to_owned()],
        }];
        let there = noticed("intern.example.test is served");
        assert!(matches!(
            shown_only(&incident.expected, &[], &there),
            Judgement::Shown(_)
        ));
        assert!(matches!(healthy(&there), Judgement::Wrong(_)));
        for state in [noticed("something else"), State::default()] {
            assert!(matches!(
                shown_only(&incident.expected, &[], &state),
                Judgement::Waiting(_)
            ));
        }
    }
}
