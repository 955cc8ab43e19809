//! Compares the output of `parallax preflight --json` with an incident's expectations. Pure, and without the product's
//! own types: the lab judges from outside.

mod document;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use self::document::{
    Cause, Finding, HostResult, PreflightDocument, VantageAnswer, VantageGroup, Verdict,
};
use crate::{
    incident::{ExpectedCheck, ExpectedPreflight, PreflightRun},
    packets::sanitize,
};

/// A preflight in the report.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ReportedPreflight {
    /// Its purpose.
    pub name: String,
    /// The command line.
    pub command: String,
    /// Its exit code.
    pub exit: i32,
    /// Duration of the command in seconds.
    pub seconds: f64,
    /// Seconds since the controllers had the route, if one was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_after_route: Option<f64>,
    /// Both sentences of each host.
    pub sentences: Vec<String>,
    /// Vantage, placement, self check, CA.
    pub table: Vec<[String; 4]>,
    /// What was not checked.
    pub not_checked: Vec<String>,
    /// What the lab does itself in place of a cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_exercised: Vec<String>,
}

/// Parts of a cluster that the lab replaces when a solver's objects are created.
const NOT_EXERCISED: [&str; 3] = [
    "scheduler, kubelet and image: the lab runs the container's command itself",
    "an ingress controller: the lab writes nginx's configuration and the Ingress's status, and there is no admission webhook",
    "a Gateway, and GRPC or TLS before the solver",
];

impl ReportedPreflight {
    /// Builds the report of a finished preflight.
    #[must_use]
    pub fn of(step: &PreflightRun, command: String, exit: i32, document: &PreflightDocument) -> Self {
        let mut shown = Self {
            name: step.name.clone(),
            command,
            exit,
            ..Self::default()
        };
        if step.class.is_some() {
            shown.not_exercised = NOT_EXERCISED.map(str::to_owned).to_vec();
        }
        let mut left_out = BTreeSet::new();
        for host in &document.hosts {
            for (name, verdict) in [("self check", &host.self_check), ("CA", &host.ca)] {
                let causes: BTreeSet<&str> = causes(verdict).map(|cause| cause.id.as_str()).collect();
                let causes = Vec::from_iter(causes).join(", ");
                let causes = if causes.is_empty() {
                    causes
                } else {
                    format!(" [{causes}]")
                };
                shown.sentences.push(sanitize(&format!(
                    "{}, {name}, {}: {}{causes}",
                    host.host, verdict.state, verdict.sentence
                )));
            }
            let mut rows: BTreeMap<&str, (&VantageAnswer, [Option<&VantageAnswer>; 2])> = BTreeMap::new();
            for (at, answers) in [&host.self_check_answers, &host.ca_answers]
                .into_iter()
                .enumerate()
            {
                for answer in answers {
                    rows.entry(&answer.vantage).or_insert((answer, [None; 2])).1[at] = Some(answer);
                }
            }
            for (vantage, (any, both)) in rows {
                let [own, ca] = both.map(|answer| answer.map_or("-".to_owned(), VantageAnswer::words));
                shown
                    .table
                    .push([vantage, &any.placement, &own, &ca].map(sanitize));
            }
            left_out.extend(host.not_checked.iter().map(|line| sanitize(line)));
        }
        shown.not_checked = left_out.into_iter().collect();
        shown
    }
}

fn causes(verdict: &Verdict) -> impl Iterator<Item = &Cause> {
    verdict.failure_groups.iter().flat_map(|group| &group.causes)
}

/// Returns the first difference from the expectations.
#[must_use]
pub fn first_difference(
    step: &PreflightRun,
    exit: Option<i32>,
    document: &PreflightDocument,
) -> Option<String> {
    let expected = &step.expected;
    let problem = differs(expected, step, document);
    let problem = problem.or_else(|| {
        (exit != Some(expected.exit)).then(|| {
            let got = exit.map_or("a signal".to_owned(), |code| code.to_string());
            format!("it exited with {got}, expected {}", expected.exit)
        })
    })?;
    Some(format!("preflight {:?}: {problem}", step.name))
}

fn differs(
    expected: &ExpectedPreflight,
    step: &PreflightRun,
    document: &PreflightDocument,
) -> Option<String> {
    let expected_names: Vec<&str> = step.hosts.iter().map(parallax_model::HostName::as_str).collect();
    let actual_names: Vec<&str> = document.hosts.iter().map(|host| host.host.as_str()).collect();
    if expected_names != actual_names {
        return Some(format!(
            "its names are {actual_names:?}, expected {expected_names:?}"
        ));
    }
    document.hosts.iter().find_map(|host| {
        of_check(&expected.self_check, &host.self_check, &host.self_check_answers)
            .map(|problem| format!("{}: self check: {problem}", host.host))
            .or_else(|| {
                of_check(&expected.ca, &host.ca, &host.ca_answers)
                    .map(|problem| format!("{}: CA: {problem}", host.host))
            })
            .or_else(|| of_lines(expected, &host.not_checked))
    })
}

fn of_check(expected: &ExpectedCheck, verdict: &Verdict, answers: &[VantageAnswer]) -> Option<String> {
    let seen: BTreeMap<&str, &str> = answers.iter().map(|a| (a.name(), a.result_word())).collect();
    let fits = |(name, sees): (&String, &crate::incident::ExpectedSight)| {
        seen.get(name.as_str())
            .is_some_and(|word| sees.words().iter().any(|known| known == word))
    };
    if seen.len() != expected.from.len() || !expected.from.iter().all(fits) {
        return Some(format!(
            "vantages see {seen:?}, expected {:?}",
            describe(expected)
        ));
    }
    if verdict.state != expected.standing.argument() {
        return Some(format!(
            "it is {}, expected {}: {}",
            verdict.state,
            expected.standing.argument(),
            sanitize(&verdict.sentence)
        ));
    }
    let named: BTreeSet<&str> = causes(verdict).map(|cause| cause.id.as_str()).collect();
    let wanted: BTreeSet<&str> = expected.causes.iter().map(String::as_str).collect();
    let besides = |id: &&str| !expected.or_causes.iter().any(|other| other == id);
    if named.iter().copied().filter(besides).collect::<BTreeSet<_>>() != wanted {
        return Some(format!(
            "its causes are {named:?}, expected {:?}",
            expected.causes
        ));
    }
    let diagnosed = !verdict.failure_groups.is_empty() && causes(verdict).all(|cause| cause.diagnosed);
    if expected.diagnosed && !diagnosed {
        return Some("the diagnosis did not name its causes".to_owned());
    }
    let findings: BTreeSet<&str> = verdict.findings.iter().map(|f| f.id.as_str()).collect();
    if findings != expected.findings.iter().map(String::as_str).collect() {
        return Some(format!(
            "its findings are {findings:?}, expected {:?}",
            expected.findings
        ));
    }
    let missing = expected.says.iter().find(|words| !says(verdict, words))?;
    Some(format!(
        "the output does not contain {missing:?}: {}; {:?}; {:?}",
        sanitize(&verdict.sentence),
        verdict.caveats,
        verdict.failure_groups
    ))
}

fn describe(expected: &ExpectedCheck) -> BTreeMap<&str, &[String]> {
    let from = expected.from.iter();
    from.map(|(name, sees)| (name.as_str(), sees.words())).collect()
}

fn says(verdict: &Verdict, words: &str) -> bool {
    let mut all = vec![&verdict.sentence];
    all.extend(&verdict.caveats);
    all.extend(verdict.findings.iter().map(|finding| &finding.text));
    for group in &verdict.failure_groups {
        all.extend([&group.reason, &group.client_message]);
        for remedy in &group.remedies {
            all.extend([&remedy.action, &remedy.price]);
        }
    }
    all.into_iter().any(|text| text.contains(words))
}

fn of_lines(expected: &ExpectedPreflight, lines: &[String]) -> Option<String> {
    let has = |words: &&String| lines.iter().any(|line| line.contains(words.as_str()));
    if let Some(missing) = expected.not_checked.iter().find(|words| !has(words)) {
        return Some(format!("{missing:?} is not listed as not checked: {lines:?}"));
    }
    let listed = expected.checked.iter().find(has)?;
    Some(format!(
        "{listed:?} is listed as not checked although it was checked: {lines:?}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: &str = "
name: after the fault
hosts: [shop.example.test]
certManagerOn: n2
expected:
  exit: 1
  selfCheck:
    standing: failed
    from: {n1: passes, n2: [refused, reset]}
    causes: [F1]
    diagnosed: true
    says: ['runs on n2']
  ca:
    standing: passed
    from: {n1: passes, laptop: passes}
  notChecked: ['secondary validation']
  checked: ['to port 80 from the internet']
";

    fn document() -> serde_json::Value {
        serde_json::json!({"hosts": [{
            "host": "shop.example.test", "solver": "s",
            "selfCheck": {"state": "failed", "sentence": "cert-manager's Pod runs on n2, where the check fails", "caveats": [],
                "failureGroups": [{"reason": "refused", "clientMessage": "dial", "causes": [{"id": "F1", "diagnosed": true}], "remedies": []}],
                "findings": []},
            "ca": {"state": "passed", "sentence": "it passes from outside", "failureGroups": [], "caveats": [], "findings": []},
            "selfCheckAnswers": [
                {"vantage": "n1/pod", "placement": "same-node", "result": "ok", "status": 200, "total_us": 12_345},
                {"vantage": "n2/pod", "placement": "no-local", "result": "failed", "phase": "connect", "kind": "refused"}],
            "caAnswers": [
                {"vantage": "n1/pod", "placement": "same-node", "result": "ok", "status": 200},
                {"vantage": "internet:laptop", "placement": "outside", "result": "ok", "status": 200}],
            "notChecked": ["the CA's secondary validation from several networks"]}]})
    }

    fn problem(path: &str, value: serde_json::Value) -> Option<String> {
        let step: PreflightRun = serde_saphyr::from_str(STEP).unwrap();
        let mut document = document();
        if !path.is_empty() {
            *document.pointer_mut(path).unwrap() = value;
        }
        first_difference(&step, Some(1), &serde_json::from_value(document).unwrap())
    }

    #[test]
    fn an_expected_result_passes_and_each_difference_is_reported() {
        use serde_json::json;
        assert_eq!(problem("", json!(null)), None);
        for (path, value, expected) in [
            ("/hosts/0/host", json!("other"), "its names are [\"other\"]"),
            (
                "/hosts/0/selfCheck/state",
                json!("at_risk"),
                "it is at_risk, expected failed",
            ),
            ("/hosts/0/ca/state", json!("unknown"), "CA: it is unknown"),
            (
                "/hosts/0/selfCheckAnswers/1/kind",
                json!("connect_timeout"),
                "vantages see",
            ),
            ("/hosts/0/caAnswers", json!([]), "vantages see {}"),
            (
                "/hosts/0/selfCheck/failureGroups/0/causes/0/id",
                json!("F24"),
                "its causes are {\"F24\"}",
            ),
            (
                "/hosts/0/selfCheck/failureGroups/0/causes/0/diagnosed",
                json!(false),
                "did not name",
            ),
            (
                "/hosts/0/ca/findings",
                json!([{"id": "F17", "text": "t"}]),
                "its findings are {\"F17\"}",
            ),
            (
                "/hosts/0/selfCheck/sentence",
                json!("fails"),
                "does not contain \"runs on n2\"",
            ),
            ("/hosts/0/notChecked", json!([]), "is not listed as not checked"),
            (
                "/hosts/0/notChecked/0",
                json!("secondary validation; access to port 80 from the internet"),
                "is listed as not checked although it was checked",
            ),
        ] {
            let message = problem(path, value).unwrap_or_default();
            assert!(
                message.starts_with("preflight \"after the fault\": "),
                "{path}: {message}"
            );
            assert!(message.contains(expected), "{path}: {message}");
        }
        let step: PreflightRun = serde_saphyr::from_str(STEP).unwrap();
        let same: PreflightDocument = serde_json::from_value(document()).unwrap();
        assert!(
            first_difference(&step, Some(0), &same)
                .unwrap()
                .contains("exited with 0, expected 1")
        );
        assert!(
            first_difference(&step, None, &same)
                .unwrap()
                .contains("exited with a signal")
        );
    }

    #[test]
    fn a_preflight_is_shown_with_both_sentences_and_a_line_for_each_vantage() {
        let step: PreflightRun = serde_saphyr::from_str(STEP).unwrap();
        let document: PreflightDocument = serde_json::from_value(document()).unwrap();
        let shown = ReportedPreflight::of(&step, "parallax preflight".to_owned(), 1, &document);
        assert_eq!(
            shown.sentences[0],
            "shop.example.test, self check, failed: cert-manager's Pod runs on n2, where the check fails [F1]"
        );
        assert_eq!(shown.table[1], ["n1/pod", "same-node", "✓ 200 in 12 ms", "✓ 200"]);
        assert_eq!(shown.table[2], ["n2/pod", "no-local", "✗ refused", "-"]);
        assert!(shown.not_exercised.is_empty(), "nothing was created");
    }
}
