//! Compares Parallax's result with the expected one. Pure.

use crate::{
    api_client::{AggregatorState, FindingOrHazard, Incident as Named},
    incident::{
        ExpectedEvidence, ExpectedNotice, ExpectedOutcome, ExpectedVerdict, Incident, Outcome, ProbeShare,
    },
    packets::sanitize,
};

/// Judgement of the aggregator's state.
#[derive(Debug, Clone, PartialEq)]
pub enum OutcomeJudgement {
    /// Not yet as expected, with the reason in case it stays so.
    Waiting(String),
    /// As expected.
    Named(Box<Named>),
    /// As expected: these findings and hazards, and no verdict.
    Shown(Vec<FindingOrHazard>),
    /// A verdict or finding that must not appear.
    Wrong(String),
}

/// Judges the time before the first fault, or without any: any verdict and any unexpected finding is wrong.
#[must_use]
pub fn judge_quiet(expected: &ExpectedOutcome, state: &AggregatorState) -> OutcomeJudgement {
    if let Some(named) = state.incidents.first() {
        return OutcomeJudgement::Wrong(format!("nothing is wrong, but: {}", summary(named)));
    }
    if let Some(finding) = unexpected(expected, state) {
        return OutcomeJudgement::Wrong(format!(
            "nothing is wrong, but a finding ({}): {}",
            finding.kind,
            sanitize(&finding.sentence)
        ));
    }
    OutcomeJudgement::Waiting("no verdict".to_owned())
}

/// Judges the time before the first fault, in which findings are wrong too.
#[must_use]
pub fn judge_healthy(state: &AggregatorState) -> OutcomeJudgement {
    let expected = ExpectedOutcome {
        outcome: Outcome::Quiet { seconds: 1 },
        findings: Vec::new(),
        hazards: Vec::new(),
        alerts: Vec::new(),
        packets: crate::incident::ExpectedPackets::default(),
    };
    judge_quiet(&expected, state)
}

/// Judges an incident without a verdict: all expected findings and hazards, and only verdicts of the allowed regions.
#[must_use]
pub fn judge_notices(
    expected: &ExpectedOutcome,
    besides: &[String],
    state: &AggregatorState,
) -> OutcomeJudgement {
    let mut rest = state.clone();
    rest.incidents
        .retain(|named| !besides.contains(&named.region.region));
    match judge_quiet(expected, &rest) {
        OutcomeJudgement::Waiting(_) => match missing_notice(expected, state) {
            Some(missing) => OutcomeJudgement::Waiting(missing),
            None => OutcomeJudgement::Shown(
                notices(&expected.findings, &state.findings)
                    .chain(notices(&expected.hazards, &state.hazards))
                    .cloned()
                    .collect(),
            ),
        },
        other => other,
    }
}

/// Returns the first expected finding or hazard that is missing.
#[must_use]
pub fn missing_notice(expected: &ExpectedOutcome, state: &AggregatorState) -> Option<String> {
    let missing = |kind: &str, wanted: &[ExpectedNotice], actual: &[FindingOrHazard]| {
        let lacking = wanted
            .iter()
            .filter(|wanted| !wanted.optional)
            .find(|wanted| !actual.iter().any(|notice| fits(wanted, notice)))?;
        let same = actual.iter().find(|notice| notice.kind == lacking.kind);
        Some(match same {
            None => format!("no {kind} {}", lacking.kind),
            Some(other) => format!(
                "the {kind} {} does not contain {:?}: {}",
                lacking.kind,
                lacking.says,
                sanitize(&other.sentence)
            ),
        })
    };
    missing("finding", &expected.findings, &state.findings)
        .or_else(|| missing("hazard", &expected.hazards, &state.hazards))
}

fn notices<'a>(
    wanted: &'a [ExpectedNotice],
    actual: &'a [FindingOrHazard],
) -> impl Iterator<Item = &'a FindingOrHazard> {
    actual
        .iter()
        .filter(|notice| wanted.iter().any(|wanted| fits(wanted, notice)))
}

fn fits(wanted: &ExpectedNotice, notice: &FindingOrHazard) -> bool {
    notice.kind == wanted.kind
        && wanted.says.iter().all(|words| {
            let contains = |text: &String| text.contains(words.as_str());
            contains(&notice.sentence)
                || notice.evidence.iter().any(contains)
                || notice
                    .remedies
                    .iter()
                    .any(|remedy| contains(&remedy.action) || contains(&remedy.price))
        })
}

fn unexpected<'a>(expected: &ExpectedOutcome, state: &'a AggregatorState) -> Option<&'a FindingOrHazard> {
    state
        .findings
        .iter()
        .find(|finding| !expected.findings.iter().any(|wanted| wanted.kind == finding.kind))
}

/// Judges that an incident is the only one so far, open or closed.
#[must_use]
pub fn judge_only(id: &str, state: &AggregatorState) -> OutcomeJudgement {
    match state.incidents.iter().find(|named| named.id != id) {
        Some(other) => OutcomeJudgement::Wrong(format!("a second incident: {}", summary(other))),
        None => OutcomeJudgement::Waiting("the only incident".to_owned()),
    }
}

/// Judges the time after the repair: the only incident closes, and every cell is ok.
#[must_use]
pub fn judge_closed(id: &str, state: &AggregatorState) -> OutcomeJudgement {
    if let OutcomeJudgement::Wrong(wrong) = judge_only(id, state) {
        return OutcomeJudgement::Wrong(wrong);
    }
    match state.open().next() {
        Some(open) => OutcomeJudgement::Waiting(format!("still {}: {}", open.state, summary(open))),
        None if state.is_all_ok() => OutcomeJudgement::Shown(Vec::new()),
        None => OutcomeJudgement::Waiting(format!("not everything is ok: {}", state.describe_problems())),
    }
}

/// Judges the time after the last fault: exactly the expected verdict must be named.
#[must_use]
pub fn judge_verdict(
    incident: &Incident,
    expected: &ExpectedVerdict,
    state: &AggregatorState,
) -> OutcomeJudgement {
    if let Some(named) = state
        .incidents
        .iter()
        .find(|named| expected.absent.contains(&named.region.region))
    {
        return OutcomeJudgement::Wrong(format!(
            "the region {} must not be named, but: {}",
            named.region.region,
            summary(named)
        ));
    }
    if let Some(finding) = unexpected(&incident.expected, state) {
        return OutcomeJudgement::Wrong(format!(
            "an unexpected finding ({}): {}",
            finding.kind,
            sanitize(&finding.sentence)
        ));
    }
    if incident.repair.is_some()
        && let [first, second, ..] = state.incidents.as_slice()
    {
        return OutcomeJudgement::Wrong(format!(
            "two incidents for one fault: {}; {}",
            summary(first),
            summary(second)
        ));
    }
    let open: Vec<&Named> = state.open().collect();
    let fits = |named: &&&Named| {
        let region = &named.region.region;
        *region == expected.region || expected.or_region.contains(region)
    };
    let Some(named) = open.iter().find(fits) else {
        return OutcomeJudgement::Waiting(match open.first() {
            None => "no verdict".to_owned(),
            Some(other) => format!("only another verdict: {}", summary(other)),
        });
    };
    if let Some(missing) = mismatch(incident, expected, named) {
        return OutcomeJudgement::Waiting(missing);
    }
    if let Some(missing) = missing_notice(&incident.expected, state) {
        return OutcomeJudgement::Waiting(missing);
    }
    if open.len() > 1 {
        let all: Vec<String> = open.iter().map(|named| summary(named)).collect();
        return OutcomeJudgement::Waiting(format!(
            "{} verdicts for one fault: {}",
            open.len(),
            all.join("; ")
        ));
    }
    OutcomeJudgement::Named(Box::new((*named).clone()))
}

/// Returns what the verdict should cover and does not.
fn missing_coverage(incident: &Incident, expected: &ExpectedVerdict, named: &Named) -> Option<String> {
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
    if let Some(subject) = subject.filter(|subject| *subject != named.subject.display_name()) {
        return Some(format!(
            "its subject is {}, expected {subject}",
            sanitize(named.subject.display_name())
        ));
    }
    if let Some(service) = &expected.service
        && !incident
            .fronts_of(service)
            .any(|front| front.to_string() == named.subject.display_name())
    {
        return Some(format!(
            "its subject is {}, expected a front of {service}",
            sanitize(named.subject.display_name())
        ));
    }
    if !expected.on.is_empty() && expected.on != named.region.members {
        return Some(format!(
            "its subject is {}, expected {}",
            sanitize(&named.region.members.join(", ")),
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
                "it is tied with {:?}, expected {tie:?}",
                sanitize(&class.join(", "))
            ));
        }
    }
    if let Some(missing) = missing_coverage(incident, expected, named) {
        return Some(missing);
    }
    let silent = |vantage: &&String| {
        let mut all = named.consequences.iter();
        all.any(|consequence| consequence.vantage.as_ref() == Some(*vantage))
    };
    if let Some(vantage) = expected.silences.iter().find(|vantage| !silent(vantage)) {
        return Some(format!("the silence of {vantage} is not among its consequences"));
    }
    if let Some(words) = expected
        .sentence
        .iter()
        .find(|words| !named.sentence.contains(words.as_str()))
    {
        return Some(format!(
            "the sentence lacks {words:?}: {}",
            sanitize(&named.sentence)
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
                ProbeShare::Always => "always",
                ProbeShare::Sometimes => "sometimes",
                ProbeShare::Rarely => "rarely",
                ProbeShare::Never => "never",
            },
            sanitize(&table.join("; "))
        ));
    }
    if let Some(words) = expected.remedies.iter().find(|words| {
        !named
            .remedies
            .iter()
            .any(|remedy| remedy.action.contains(words.as_str()) || remedy.price.contains(words.as_str()))
    }) {
        return Some(format!("no remedy contains {words:?}"));
    }
    expected
        .locality
        .iter()
        .find(|words| !named.locality.iter().any(|line| line.contains(words.as_str())))
        .map(|words| format!("the verdict does not mention {words:?}"))
}

fn shown(expected: &ExpectedEvidence, named: &Named) -> bool {
    let mut rows = named
        .evidence
        .iter()
        // A single probe beyond the plan is not representative.
        .filter(|row| expected.matches_row(&row.who) && row.probes >= 2)
        .peekable();
    rows.peek().is_some()
        && rows.all(|row| match expected.fails {
            ProbeShare::Always => (row.probes - row.failures) * 20 <= row.probes,
            ProbeShare::Sometimes => {
                row.failures * 20 > row.probes && (row.probes - row.failures) * 20 > row.probes
            }
            ProbeShare::Rarely => row.failures * 20 <= row.probes,
            ProbeShare::Never => row.failures == 0,
        })
}

/// Returns the host of a target's URL.
fn target_host(target: &str) -> Option<&str> {
    let rest = target.split_once("://")?.1;
    rest.split(['/', ':']).next()
}

fn summary(named: &Named) -> String {
    let cause = named.causes.first().map_or("no cause", |cause| cause.id.as_str());
    sanitize(&format!("{} / {cause}: {}", named.region.region, named.sentence))
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
