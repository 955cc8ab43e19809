//! The HTML page: a summary, and a row and a section per step.

use std::fmt::{self, Write};

use parallax_test_support::html::HtmlEscaped;

use super::section::section;
use crate::{
    judge::Outcome,
    record::{Report, StepRecord},
    step::Kind,
};

/// Renders the whole page.
#[must_use]
pub fn page(report: &Report) -> String {
    let mut text = String::from(HEAD);
    // Writing to a string cannot fail.
    let _ = write_page(&mut text, report);
    text
}

fn write_page(text: &mut String, report: &Report) -> fmt::Result {
    let count = |outcome| {
        report
            .records
            .iter()
            .filter(|record| record.verdict.outcome == outcome)
            .count()
    };
    writeln!(
        text,
        "<h1>{} of {} steps as expected</h1>\n<p>Parallax on Kubernetes {}, nodes {}, installed as users install it; \
         {:.0} minutes from {}. {} steps not as expected, {} prove nothing, {} not run.</p>\n\
         <p>In an ordinary step nothing is wrong: Parallax must be silent. In a fault it must name the cause soon, and for as \
         long as the fault lasts. An ordinary client on every node, which shares no code with the probers, records what users \
         experience. Alerts are those of a Prometheus with the shipped rules.</p>",
        count(Outcome::Passed),
        report.records.len(),
        HtmlEscaped(&report.version),
        HtmlEscaped(&report.nodes.join(", ")),
        report.seconds / 60.0,
        began(report),
        count(Outcome::Failed),
        count(Outcome::Unsound),
        count(Outcome::NotRun),
    )?;
    for (kind, title) in [(Kind::Ordinary, "Ordinary events"), (Kind::Fault, "Faults")] {
        let records: Vec<&StepRecord> = report
            .records
            .iter()
            .filter(|record| record.kind == kind)
            .collect();
        if !records.is_empty() {
            table(text, title, &records)?;
        }
    }
    resources(text, report)?;
    for record in &report.records {
        section(text, record)?;
    }
    text.push_str("</body></html>\n");
    Ok(())
}

fn began(report: &Report) -> String {
    let at = i64::try_from(report.began_unix_ms).ok();
    let at = at.and_then(|at| jiff::Timestamp::from_millisecond(at).ok());
    at.map_or(String::new(), |at| at.strftime("%Y-%m-%d %H:%M UTC").to_string())
}

fn table(text: &mut String, title: &str, records: &[&StepRecord]) -> fmt::Result {
    writeln!(
        text,
        "<h2>{title}</h2>\n<table>\n<tr><th></th><th>Step</th><th>Named</th><th>Named after</th><th>Other incidents</th>\
         <th>Closed after</th><th>Alerts</th><th>Failures of users</th></tr>"
    )?;
    for record in records {
        let verdict = &record.verdict;
        let seconds = |after: Option<f64>| after.map_or(String::new(), |after| format!("{after:.0} s"));
        let mut seen_names: Vec<String> = verdict
            .named
            .iter()
            .chain(&verdict.other_incidents)
            .map(brief)
            .collect();
        seen_names.truncate(6);
        let fired: std::collections::BTreeSet<&str> =
            verdict.fired.iter().map(|fired| fired.name.as_str()).collect();
        let failures: usize = verdict.user_failures.iter().map(|felt| felt.failures).sum();
        writeln!(
            text,
            "<tr class=\"{}\"><td>{}</td><td><a href=\"#{id}\">{id}</a><br>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{} of {}</td></tr>",
            class(verdict.outcome),
            sign(verdict.outcome),
            HtmlEscaped(&record.title),
            HtmlEscaped(&seen_names.join(" · ")),
            seconds(verdict.named_after),
            if record.kind == Kind::Fault {
                verdict.other_incidents.len().to_string()
            } else {
                String::new()
            },
            seconds(verdict.closed_after),
            HtmlEscaped(&fired.into_iter().collect::<Vec<_>>().join(", ")),
            failures,
            record.requests,
            id = HtmlEscaped(&record.id),
        )?;
    }
    text.push_str("</table>\n");
    Ok(())
}

fn brief(story: &crate::judge::IncidentHistory) -> String {
    format!("{} {}", story.incident.cause, story.incident.region)
}

/// Renders memory and CPU over all steps, the largest first.
fn resources(text: &mut String, report: &Report) -> fmt::Result {
    let mut parts: std::collections::BTreeMap<&str, (f64, f64, f64, u32)> = std::collections::BTreeMap::new();
    for took in report.records.iter().flat_map(|record| &record.resources) {
        let part = if took.pod.contains("aggregator") {
            "aggregator"
        } else {
            "prober"
        };
        let (memory, cpu, sum, count) = parts.entry(part).or_default();
        *memory = memory.max(took.memory_mib);
        *cpu = cpu.max(took.cpu_milli);
        *sum += took.cpu_milli;
        *count += 1;
    }
    if parts.is_empty() {
        return Ok(());
    }
    text.push_str(
        "<h2>Memory and CPU</h2>\n<table><tr><th>Pods</th><th>Most memory</th><th>CPU, mean of all steps</th>\
         <th>CPU, mean of the busiest step</th></tr>\n",
    );
    for (part, (memory, cpu, sum, count)) in parts {
        writeln!(
            text,
            "<tr><td>{part}</td><td>{memory:.1} MiB</td><td>{:.0} m</td><td>{cpu:.0} m</td></tr>",
            sum / f64::from(count)
        )?;
    }
    text.push_str("</table>\n");
    Ok(())
}

pub(super) const fn sign(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "✓",
        Outcome::Failed => "✗",
        Outcome::Unsound => "?",
        Outcome::NotRun => "–",
    }
}

pub(super) const fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "good",
        Outcome::Failed => "bad",
        Outcome::Unsound | Outcome::NotRun => "open",
    }
}

const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Parallax on a real cluster</title>\n\
<style>\nbody{font:15px/1.45 system-ui,sans-serif;max-width:80em;margin:2em auto;padding:0 1em;color:#222}\n\
table{border-collapse:collapse;margin:1em 0}td,th{text-align:left;vertical-align:top;padding:.3em .7em;border-bottom:1px solid #ddd}\n\
pre{background:#f4f4f4;padding:.7em;overflow-x:auto;font-size:13px}blockquote{margin:.6em 0;padding:.2em 1em;border-left:4px solid #888}\n\
.bad td:first-child,.bad>h3{color:#b00020}.good td:first-child,.good>h3{color:#0a7d32}.open td:first-child,.open>h3{color:#8a5a00}\n\
summary{cursor:pointer}img{max-width:100%;border:1px solid #ccc}figure{margin:1em 0}\n</style></head><body>\n";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{
        judge::{IncidentHistory, StepTimes, TimeSpan, VantageCoverage, Verdict},
        observe::{ExitCode, Incident, Measurement, StatusResult},
        record::{ExplainedIncident, PageScreenshot, PodResources},
        step,
    };

    fn report(outcome: Outcome) -> Report {
        let steps = step::parse(
            Path::new("steps/fault-pair.yaml"),
            "title: two nodes <do> not reach each other\nkind: fault\ndo: []\ncure: [{install: {}}]\nwatch: 1\n\
             expect: {named: [{cause: [P7]}], felt: [service]}\n",
        );
        let mut record = StepRecord::of(&steps.unwrap()[0]);
        let history = |id: &str, cause: &str| IncidentHistory {
            incident: Incident {
                id: id.to_owned(),
                cause: cause.to_owned(),
                region: "pair n1 → n2".to_owned(),
                sentence: "probes & pods time out".to_owned(),
                ..Incident::default()
            },
            open: vec![TimeSpan {
                from: 110.0,
                until: 170.0,
            }],
            sentences: vec![(110.0, "first".to_owned()), (120.0, "then".to_owned())],
            left_open: false,
        };
        record.times = Some(StepTimes {
            fault: 100.0,
            acted: 100.0,
            repaired: Some(160.0),
            healed: Some(161.0),
            ended: 200.0,
        });
        record.verdict = Verdict {
            outcome,
            reasons: vec!["closed late".to_owned()],
            named_after: Some(10.0),
            closed_after: Some(9.0),
            named: vec![history("0a1b", "P7")],
            other_incidents: vec![history("0c2d", "P3")],
            preparation: vec![history("0e3f", "P12")],
            coverage: vec![VantageCoverage {
                vantage: "n2/pod".to_owned(),
                missed_rounds: 1,
                longest_quiet_s: 6.0,
                ..VantageCoverage::default()
            }],
            statuses: vec![StatusResult {
                at: 130.0,
                until: 130.2,
                code: ExitCode(Some(1)),
                line: "1 open incident".to_owned(),
            }],
            ..Verdict::not_run(String::new())
        };
        record.log.measured = vec![Measurement {
            name: "helm test".to_owned(),
            seconds: 12.0,
            within: Some(60),
        }];
        record.explained = vec![ExplainedIncident {
            at: 111.0,
            id: "0a1b".to_owned(),
            explanation: serde_json::json!({"evidence": "4 of 4"}),
        }];
        record.pictures = vec![PageScreenshot {
            at: 150.0,
            caption: "just before the cure".to_owned(),
            png: b"png".to_vec(),
        }];
        record.resources = vec![PodResources {
            pod: "parallax-aggregator-1".to_owned(),
            memory_mib: 9.5,
            cpu_milli: 14.0,
        }];
        Report {
            version: "v1.36.2".to_owned(),
            nodes: vec!["n1".to_owned(), "n2".to_owned(), "n3".to_owned()],
            began_unix_ms: 1_795_000_000_000,
            seconds: 360.0,
            records: vec![record],
        }
    }

    #[test]
    fn the_page_shows_sentences_with_times_evidence_and_pictures_and_escapes_all_of_it() {
        let page = page(&report(Outcome::Passed));
        for words in [
            "1 of 1 steps as expected",
            "two nodes &lt;do&gt; not reach each other",
            "0a1b P7 (pair n1 → n2, 0.000): probes &amp; pods time out",
            "open +10 to +70 s",
            "<h4>Before the event</h4>\n<blockquote>0e3f P12",
            "<td>10 s</td><td>1</td><td>9 s</td>",
            "+30 to +30 s: 1 (1 open incident)",
            "<p>Measured</p><ul>\n<li>helm test: 12.0 s, at most 60 s</li>",
            "<li>n2/pod: 1 missed round, longest time without a probe 6.0 s",
            "Evidence of 0a1b at +11 s",
            "&quot;evidence&quot;: &quot;4 of 4&quot;",
            "data:image/png;base64,cG5n",
            "<td>aggregator</td><td>9.5 MiB</td><td>14 m</td>",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
    }

    #[test]
    fn what_failed_says_why() {
        let page = page(&report(Outcome::Failed));
        assert!(page.contains("0 of 1 steps as expected"));
        assert!(page.contains("<section class=\"bad\""));
        assert!(page.contains("<li>closed late</li>"));
    }
}
