//! The report as text. Everything received from the network goes through [`escape`].

mod addresses;
mod certificate;
mod names;

use std::fmt::Write as _;

use parallax_model::{Micros, Outcome};
use parallax_terminal::{ColorMode, escape};

use self::{
    addresses::{responder_text, write_redirects, write_table, write_tallies},
    certificate::{distinct_certificates, write_certificate},
    names::{write_fetch, write_lookup},
};
use super::{
    finding::{Finding, FindingLevel},
    report::{CheckResult, Report},
    round::CheckRound,
    subject::CheckAction,
    tally,
    verdict::Verdict,
};

const MEBIBYTE: u64 = 1024 * 1024;

fn verdict_symbol(style: ColorMode, verdict: Verdict) -> String {
    match verdict {
        Verdict::Works => style.paint("32", "✓"),
        Verdict::WorksWithWarning => style.paint("33", "✓"),
        Verdict::Unknown => style.paint("90", "?"),
        Verdict::Fails => style.paint("1;31", "✗"),
    }
}

fn level_symbol(style: ColorMode, level: FindingLevel) -> String {
    match level {
        FindingLevel::Note => style.paint("90", "i"),
        FindingLevel::Warning => style.paint("33", "!"),
        FindingLevel::Unknown => style.paint("90", "?"),
        FindingLevel::Failure => style.paint("1;31", "✗"),
    }
}

/// Formats a report: headline, results, findings.
pub(super) fn render(report: &Report<'_>, style: ColorMode) -> String {
    let mut text = format!(
        "{} {}{}\n",
        verdict_symbol(style, report.judgement.verdict),
        report.subject.url,
        headline(report)
    );
    for note in &report.subject.assumptions {
        write_line(&mut text, "", note);
    }
    match &report.result {
        CheckResult::Addresses(rounds) => write_rounds(rounds, report, style, &mut text),
        CheckResult::Fetches {
            client_rules: manners,
            results: fetched,
            caa,
            ..
        } => {
            for note in manners {
                write_line(&mut text, "", note);
            }
            if let Some(last) = fetched.last() {
                write_fetch(last, &mut text);
            }
            if let Some(caa) = caa {
                write_line(&mut text, "CAA", &caa.summary());
                if let Some(acme_problem) = caa.problem_text() {
                    write_line(&mut text, "it says", &acme_problem);
                }
            }
        }
    }
    for (n, found) in report.judgement.findings.iter().enumerate() {
        if n > 0 || !is_in_headline(report, found) {
            write_finding(found, report.judgement.looks, style, &mut text);
        }
        write_reasons(found, &mut text);
    }
    text
}

/// Whether the headline already contains the most severe finding and applies to all its addresses.
fn is_in_headline(report: &Report<'_>, found: &Finding) -> bool {
    let all = match &report.result {
        CheckResult::Addresses(rounds) => rounds.last().map_or(0, |round| round.reached.len()),
        CheckResult::Fetches { .. } => 0,
    };
    report.planned_passes == 1
        && report.judgement.verdict >= Verdict::Unknown
        && (found.addresses.is_empty() || found.addresses.len() == all)
}

/// The verdict in words, to follow the URL.
fn headline(report: &Report<'_>) -> String {
    let judged = &report.judgement;
    if judged.looks == 0 {
        return ": stopped before the first pass was complete".to_owned();
    }
    if report.planned_passes > 1 {
        let stopped = if judged.looks < report.planned_passes {
            format!(
                ", stopped before the remaining {}",
                report.planned_passes - judged.looks
            )
        } else {
            String::new()
        };
        return format!(
            " worked {} of {} times{stopped}",
            judged.successful_passes, judged.looks
        );
    }
    let gravest = || {
        judged
            .findings
            .first()
            .map_or_else(|| "failed".to_owned(), |found| found.said.summary.clone())
    };
    match judged.verdict {
        Verdict::Fails => format!(": {}", gravest()),
        Verdict::Unknown => format!(" could not be checked: {}", gravest()),
        Verdict::Works | Verdict::WorksWithWarning => format!(" {}", success_text(report)),
    }
}

fn success_text(report: &Report<'_>) -> String {
    let rounds = match &report.result {
        CheckResult::Addresses(rounds) => rounds,
        CheckResult::Fetches { results: fetched, .. } => {
            let took = fetched.last().map_or_else(Micros::default, |one| one.duration);
            return format!("was fetched in {took}");
        }
    };
    let Some(round) = rounds.last() else {
        return String::new();
    };
    let Some(best) = round
        .reached
        .iter()
        .find(|one| matches!(one.outcome, Outcome::Ok { .. }))
    else {
        let count = round.lookup.addresses().len();
        return format!(
            "resolves to {count} {}",
            if count == 1 { "address" } else { "addresses" }
        );
    };
    let total = Micros(
        best.requests
            .iter()
            .filter_map(|leg| leg.result.times.total)
            .map(|time| time.0)
            .sum(),
    );
    match (&best.outcome, &report.subject.action) {
        (Outcome::Ok { status: Some(status) }, _) => {
            let after = match best.requests.len() {
                0 | 1 => String::new(),
                2 => " after a redirect".to_owned(),
                more => format!(" after {} redirects", more - 1),
            };
            format!("answers {status}{after} in {total}")
        }
        (_, CheckAction::Stream(probe)) if probe.tls => format!("completes a TLS handshake in {total}"),
        _ => format!("accepts connections, in {total}"),
    }
}

fn write_rounds(rounds: &[CheckRound], report: &Report<'_>, style: ColorMode, text: &mut String) {
    let Some(last) = rounds.last() else { return };
    write_lookup(
        &last.lookup,
        matches!(report.subject.action, CheckAction::Name(_)),
        text,
    );
    if rounds.len() > 1 {
        write_tallies(&tally::tally_addresses(rounds), text);
    } else {
        write_table(&last.reached, style, text);
    }
    // TTL evidence is collected in the first pass only.
    let first = rounds.first().unwrap_or(last);
    for one in &first.reached {
        // The responder of a loopback address is known.
        if !one.address.ip().is_loopback()
            && let Some(responder) = responder_text(one)
        {
            write_line(text, "answered", &format!("{}: {responder}", one.address));
        }
    }
    let shown_there = distinct_certificates(&last.reached);
    for (tls, addresses) in &shown_there {
        let at = if shown_there.len() > 1 {
            addresses.as_slice()
        } else {
            &[]
        };
        write_certificate(tls, at, report.now, text);
    }
    for one in &last.reached {
        write_redirects(one, text);
    }
    if let Some(answer) = last
        .reached
        .iter()
        .find_map(|one| one.requests.last()?.result.answer.as_ref())
    {
        let mut words = vec![answer.version.to_owned()];
        words.extend(answer.server.as_deref().map(escape));
        words.extend(answer.content_type.as_deref().map(escape));
        words.push(match answer.bytes_read {
            // The prober stops reading there.
            MEBIBYTE.. => "1 MiB or more".to_owned(),
            read => format!("{read} bytes"),
        });
        words.extend(
            answer
                .location
                .as_deref()
                .filter(|_| (300..400).contains(&answer.status))
                .map(|location| format!("Location: {}", escape(location))),
        );
        write_line(text, "answer", &words.join(", "));
    }
}

/// Writes one labelled line.
pub(super) fn write_line(text: &mut String, word: &str, value: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  {word:<11} {value}");
}

fn write_finding(found: &Finding, looks: u32, style: ColorMode, text: &mut String) {
    let at: Vec<String> = found.addresses.iter().map(ToString::to_string).collect();
    let at = if at.is_empty() {
        String::new()
    } else {
        format!("{}: ", at.join(", "))
    };
    let often = if looks > 1 {
        format!(" ({} of {looks} times)", found.times)
    } else {
        String::new()
    };
    let _ = writeln!(
        text,
        "  {} {at}{}{often}",
        level_symbol(style, found.level),
        found.said.summary
    );
}

fn write_reasons(found: &Finding, text: &mut String) {
    for (n, reason) in found.said.likely_reasons.iter().enumerate() {
        write_line(text, if n == 0 { "  likely" } else { "  or" }, reason);
    }
}
