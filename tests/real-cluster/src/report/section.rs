//! The section of one step: why it did not pass, the incidents over time, and the evidence.

use std::fmt::{self, Write};

use base64::{Engine, engine::general_purpose::STANDARD};
use parallax_test_support::html::HtmlEscaped;

use super::html::{class, sign};
use crate::{
    judge::{IncidentHistory, NewHint, StepTimes, TimeSpan},
    record::StepRecord,
    step::Kind,
};

pub(super) fn section(text: &mut String, record: &StepRecord) -> fmt::Result {
    let verdict = &record.verdict;
    writeln!(
        text,
        "<section class=\"{}\" id=\"{id}\"><h3>{} {id}: {}</h3>",
        class(verdict.outcome),
        sign(verdict.outcome),
        HtmlEscaped(&record.title),
        id = HtmlEscaped(&record.id)
    )?;
    if !record.description.is_empty() {
        writeln!(text, "<p>{}</p>", HtmlEscaped(&record.description))?;
    }
    if let Some(because) = &record.installed_because {
        writeln!(
            text,
            "<p>Parallax was reinstalled before this step: {}</p>",
            HtmlEscaped(because)
        )?;
    }
    if !verdict.reasons.is_empty() {
        text.push_str("<ul>");
        for reason in &verdict.reasons {
            writeln!(text, "<li>{}</li>", HtmlEscaped(reason))?;
        }
        text.push_str("</ul>\n");
    }
    list(
        text,
        "Measured",
        record.log.measured.iter().map(ToString::to_string),
    )?;
    // Without an event, times are relative to the beginning of the run.
    let origin = EventTimes(record.times.map_or(0.0, |marks| marks.fault));
    stories(text, "Before the event", &verdict.preparation, &origin)?;
    let Some(marks) = record.times else {
        text.push_str("</section>\n");
        return Ok(());
    };
    let since = EventTimes(marks.fault);
    let (right, wrong) = match record.kind {
        Kind::Fault => ("Named", "Other incidents"),
        Kind::Ordinary => ("Allowed incidents", "Unexpected incidents"),
    };
    stories(text, right, &verdict.named, &since)?;
    stories(text, wrong, &verdict.other_incidents, &since)?;
    text.push_str("<details><summary>What was done, alerts, command line, users, evidence</summary>");
    done(text, record, marks, &since)?;
    seen(text, record, &since)?;
    text.push_str("</details>\n");
    for picture in &record.pictures {
        writeln!(
            text,
            "<details><summary>The page at {}: {}</summary><figure><img alt=\"the page\" src=\"data:image/png;base64,{}\"></figure></details>",
            since.at(picture.at),
            HtmlEscaped(&picture.caption),
            STANDARD.encode(&picture.png)
        )?;
    }
    text.push_str("</section>\n");
    Ok(())
}

/// Renders every action with its time.
fn done(text: &mut String, record: &StepRecord, marks: StepTimes, since: &EventTimes) -> fmt::Result {
    text.push_str("<table>\n");
    for (at, action) in &record.log.actions {
        writeln!(
            text,
            "<tr><td>{}</td><td>{}</td></tr>",
            since.at(*at),
            HtmlEscaped(action)
        )?;
    }
    if let Some(cured) = marks.repaired {
        writeln!(text, "<tr><td>{}</td><td><b>cured</b></td></tr>", since.at(cured))?;
    }
    writeln!(
        text,
        "<tr><td>{}</td><td>the end</td></tr></table>",
        since.at(marks.ended)
    )
}

/// Renders all observations except incidents.
fn seen(text: &mut String, record: &StepRecord, since: &EventTimes) -> fmt::Result {
    let verdict = &record.verdict;
    list(
        text,
        "Alerts",
        verdict.fired.iter().map(|fired| {
            let spans: Vec<String> = fired.spans.iter().map(|span| since.span(*span)).collect();
            format!("{}: {}", fired.describe(), spans.join(", "))
        }),
    )?;
    list(text, "parallax status", statuses(record, since).into_iter())?;
    list(
        text,
        "Findings and hazards",
        verdict.hints.iter().map(|NewHint { hint, shown }| {
            format!(
                "{}: {} ({:?}) {}: {}",
                since.span(*shown),
                hint.kind,
                hint.severity,
                hint.subject,
                hint.sentence
            )
        }),
    )?;
    list(
        text,
        "Red, not noticed by users",
        verdict.unnoticed_failures.iter().map(|red| {
            format!(
                "{}: {} from {}: {}",
                since.span(red.span),
                red.target,
                red.vantage,
                red.failure
            )
        }),
    )?;
    list(
        text,
        "Failures of users",
        verdict.user_failures.iter().map(|felt| {
            let span = TimeSpan {
                from: felt.from,
                until: felt.until,
            };
            format!(
                "{}: {} → {}: {} of {} requests: {}",
                since.span(span),
                felt.node,
                felt.to,
                felt.failures,
                felt.requests,
                felt.error
            )
        }),
    )?;
    list(
        text,
        "Rounds of each vantage",
        verdict.coverage.iter().map(ToString::to_string),
    )?;
    list(
        text,
        "Memory and CPU",
        record.resources.iter().map(|took| {
            format!(
                "{}: {:.1} MiB, {:.0} m",
                took.pod, took.memory_mib, took.cpu_milli
            )
        }),
    )?;
    for explained in &record.explained {
        let pretty = serde_json::to_string_pretty(&explained.explanation).unwrap_or_default();
        writeln!(
            text,
            "<details><summary>Evidence of {} at {}</summary><pre>{}</pre></details>",
            HtmlEscaped(&explained.id),
            since.at(explained.at),
            HtmlEscaped(&pretty)
        )?;
    }
    Ok(())
}

fn stories(text: &mut String, title: &str, stories: &[IncidentHistory], since: &EventTimes) -> fmt::Result {
    if stories.is_empty() {
        return Ok(());
    }
    writeln!(text, "<h4>{title}</h4>")?;
    for story in stories {
        let spans: Vec<String> = story.open.iter().map(|span| since.span(*span)).collect();
        writeln!(
            text,
            "<blockquote>{}<br><small>open {}{}; targets {}</small></blockquote>",
            HtmlEscaped(&story.to_string()),
            spans.join(", "),
            if story.left_open {
                ", and still at the end"
            } else {
                ""
            },
            HtmlEscaped(&story.incident.targets.join(", "))
        )?;
        if story.sentences.len() > 1 {
            list(
                text,
                "its sentences over time",
                story
                    .sentences
                    .iter()
                    .map(|(at, sentence)| format!("{}: {sentence}", since.at(*at))),
            )?;
        }
    }
    Ok(())
}

/// Groups results into time spans of one exit code.
fn statuses(record: &StepRecord, since: &EventTimes) -> Vec<String> {
    let mut stretches: Vec<(Option<i32>, f64, f64, &str)> = Vec::new();
    for look in &record.verdict.statuses {
        match stretches.last_mut() {
            Some((code, _, until, _)) if *code == look.code.0 => *until = look.at,
            _ => stretches.push((look.code.0, look.at, look.at, &look.line)),
        }
    }
    stretches
        .into_iter()
        .map(|(code, from, until, line)| {
            let code = code.map_or("a signal".to_owned(), |code| code.to_string());
            format!("{}: {code} ({line})", since.span(TimeSpan { from, until }))
        })
        .collect()
}

fn list(text: &mut String, title: &str, items: impl Iterator<Item = String>) -> fmt::Result {
    let mut items = items.peekable();
    if items.peek().is_none() {
        return Ok(());
    }
    writeln!(text, "<p>{}</p><ul>", HtmlEscaped(title))?;
    for item in items {
        writeln!(text, "<li>{}</li>", HtmlEscaped(&item))?;
    }
    text.push_str("</ul>\n");
    Ok(())
}

/// Formats times relative to the event.
struct EventTimes(f64);

impl EventTimes {
    fn at(&self, time: f64) -> String {
        format!("{:+.0} s", time - self.0)
    }

    fn span(&self, span: TimeSpan) -> String {
        format!("{:+.0} to {:+.0} s", span.from - self.0, span.until - self.0)
    }
}
