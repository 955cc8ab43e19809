//! The page: a summary, a row a step, and a section a step.

use std::fmt::{self, Display, Write};

use super::section::section;
use crate::{
    judge::Outcome,
    run::{Record, Report},
    step::Kind,
};

/// The whole page.
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
        "<h1>{} of {} steps as they should be</h1>\n<p>Parallax on Kubernetes {}, nodes {}, installed as users install it; \
         {:.0} minutes from {}. {} steps not as they should be, {} prove nothing, {} not run.</p>\n\
         <p>In an ordinary step nothing is wrong: Parallax must be silent. In a fault it must name what is wrong, soon and as \
         long as it lasts. What users felt is told by an ordinary client on every node, which shares no code with the probers. \
         Alerts are those of a Prometheus with the shipped rules.</p>",
        count(Outcome::Passed),
        report.records.len(),
        Escaped(&report.version),
        Escaped(&report.nodes.join(", ")),
        report.seconds / 60.0,
        began(report),
        count(Outcome::Failed),
        count(Outcome::Unsound),
        count(Outcome::NotRun),
    )?;
    for (kind, title) in [(Kind::Ordinary, "Ordinary events"), (Kind::Fault, "Faults")] {
        let records: Vec<&Record> = report
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

fn table(text: &mut String, title: &str, records: &[&Record]) -> fmt::Result {
    writeln!(
        text,
        "<h2>{title}</h2>\n<table>\n<tr><th></th><th>Step</th><th>Said</th><th>Named after</th><th>Beside it</th>\
         <th>Closed after</th><th>Alerts</th><th>Users felt</th></tr>"
    )?;
    for record in records {
        let verdict = &record.verdict;
        let seconds = |after: Option<f64>| after.map_or(String::new(), |after| format!("{after:.0} s"));
        let mut said: Vec<String> = verdict.named.iter().chain(&verdict.extras).map(brief).collect();
        said.truncate(6);
        let fired: std::collections::BTreeSet<&str> =
            verdict.fired.iter().map(|fired| fired.name.as_str()).collect();
        let failures: usize = verdict.felt.iter().map(|felt| felt.failures).sum();
        writeln!(
            text,
            "<tr class=\"{}\"><td>{}</td><td><a href=\"#{id}\">{id}</a><br>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{} of {}</td></tr>",
            class(verdict.outcome),
            sign(verdict.outcome),
            Escaped(&record.title),
            Escaped(&said.join(" · ")),
            seconds(verdict.named_after),
            if record.kind == Kind::Fault {
                verdict.extras.len().to_string()
            } else {
                String::new()
            },
            seconds(verdict.closed_after),
            Escaped(&fired.into_iter().collect::<Vec<_>>().join(", ")),
            failures,
            record.requests,
            id = Escaped(&record.id),
        )?;
    }
    text.push_str("</table>\n");
    Ok(())
}

fn brief(story: &crate::judge::Story) -> String {
    format!("{} {}", story.incident.cause, story.incident.region)
}

/// Memory and CPU over all steps, the largest first.
fn resources(text: &mut String, report: &Report) -> fmt::Result {
    let mut parts: std::collections::BTreeMap<&str, (f64, f64, f64, u32)> = std::collections::BTreeMap::new();
    for took in report.records.iter().flat_map(|record| &record.took) {
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

/// Text from inside, which may contain anything.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c if c.is_control() && c != '\n' => f.write_char(' ')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Parallax on a real cluster</title>\n\
<style>\nbody{font:15px/1.45 system-ui,sans-serif;max-width:80em;margin:2em auto;padding:0 1em;color:#222}\n\
table{border-collapse:collapse;margin:1em 0}td,th{text-align:left;vertical-align:top;padding:.3em .7em;border-bottom:1px solid #ddd}\n\
pre{background:#f4f4f4;padding:.7em;overflow-x:auto;font-size:13px}blockquote{margin:.6em 0;padding:.2em 1em;border-left:4px solid #888}\n\
.bad td:first-child,.bad>h3{color:#b00020}.good td:first-child,.good>h3{color:#0a7d32}.open td:first-child,.open>h3{color:#8a5a00}\n\
summary{cursor:pointer}img{max-width:100%;border:1px solid #ccc}figure{margin:1em 0}\n</style></head><body>\n";
