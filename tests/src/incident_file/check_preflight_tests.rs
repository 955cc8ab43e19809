use std::path::Path;

use super::super::parse;

const STORY: &str = include_str!("../../incidents/preflight-i1.yaml");

fn error_with(from: &str, to: &str) -> String {
    assert!(
        STORY.contains(from),
        "{from:?} is not in preflight-i1.yaml any more"
    );
    let text = STORY.replacen(from, to, 1);
    parse(Path::new("x.yaml"), &text).unwrap_err().to_string()
}

/// Returns the line of the first occurrence of these words in the file's preflights.
fn line(words: &str) -> usize {
    let mut lines = STORY
        .lines()
        .enumerate()
        .skip_while(|(_, line)| *line != "preflight:");
    lines.find(|(_, line)| line.contains(words)).unwrap().0 + 1
}

#[test]
fn a_preflight_that_contradicts_its_incident_is_refused_with_line_field_and_what_was_expected() {
    for (from, to, at, expected) in [
        (
            "  hosts: [shop.example.test]\n  class",
            "  hosts: [other.example.test]\n  class",
            "hosts: [shop.example.test]\n  class",
            "preflight[0].hosts[0]: expected a host of an Ingress, which other.example.test is not",
        ),
        (
            "  class: public\n  solverOn",
            "  class: private\n  solverOn",
            "  class: public\n  solverOn",
            "preflight[0].class: expected the class of a Service with software nginx, which private is not",
        ),
        (
            "  class: public\n  solverOn",
            "  solverOn",
            "solverOn: n2",
            "preflight[0].solverOn: expected only with a class",
        ),
        (
            "certManagerOn: n3",
            "certManagerOn: n9",
            "certManagerOn: n3",
            "preflight[0].certManagerOn: unknown node n9",
        ),
        (
            "    exit: 0\n    selfCheck:\n      standing: passed",
            "    exit: 3\n    selfCheck:\n      standing: passed",
            "    exit: 0",
            "preflight[0].expected.exit: expected 0, which follows from these two verdicts, got 3",
        ),
        (
            "from: {n1: passes, n2: passes, n3: passes}",
            "from: {n1: passes, n2: passes, n3: pasess}",
            "from: {n1: passes, n2: passes, n3: passes}",
            "preflight[0].expected.selfCheck.from.n3: expected passes or a kind of failure such as refused, got \"pasess\"",
        ),
        (
            "from: {n1: passes, n2: passes, n3: passes}",
            "from: {n1: passes, n2: passes, laptop: passes}",
            "from: {n1: passes, n2: passes, n3: passes}",
            "preflight[0].expected.selfCheck.from.laptop: expected a node: vantages outside do not run",
        ),
        (
            "from: {n1: passes, n2: passes, n3: passes, laptop: passes}",
            "from: {n1: passes, n1/host: passes}",
            "from: {n1: passes, n2: passes, n3: passes, laptop: passes}",
            "preflight[0].expected.ca.from.n1/host: unknown node or client outside n1/host",
        ),
        (
            "  publishedBy: api-server\n",
            "",
            "with a solver, while every node",
            "preflight[0]: expected topology.publishedBy: api-server with class or certManagerOn",
        ),
    ] {
        let error = error_with(from, to);
        let first = at.lines().next().unwrap().trim();
        // The line removed above shifts the following ones.
        let line = line(first) - usize::from(to.is_empty());
        let close = (line - 1..=line + 1).any(|line| error.starts_with(&format!("x.yaml:{line}: ")));
        assert!(close, "expected line {line}: {error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn an_unknown_field_of_a_preflight_is_refused_with_its_line() {
    let error = error_with("  certManagerOn: n3\n", "  certManagerAt: n3\n");
    assert!(
        error.starts_with(&format!("x.yaml:{}: ", line("certManagerOn: n3")))
            && error.contains("certManagerAt"),
        "{error}"
    );
}

#[test]
fn without_faults_there_is_only_the_healthy_time() {
    let start = STORY.find("faults:\n").unwrap();
    let end = STORY.find("preflight:\n").unwrap();
    let text = format!("{}{}", &STORY[..start], &STORY[end..]);
    // The expectation of a fault is removed too.
    let outcome = text.find("expected:\n  outcome:").unwrap();
    let text = format!(
        "{}expected:\n  outcome:\n    quiet: {{seconds: 1}}\n  packets: {{healthy: []}}\n",
        &text[..outcome]
    );
    let error = parse(Path::new("x.yaml"), &text).unwrap_err().to_string();
    assert!(
        error.contains("preflight[1].when: the incident has no faults: expected when: healthy"),
        "{error}"
    );
}
