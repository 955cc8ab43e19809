//! The report as text. Everything received from the network goes through [`escape`].

mod addresses;
mod certificate;
mod names;

use std::fmt::Write as _;

use parallax_model::{Micros, Outcome};
use parallax_terminal::{ColorMode, escape};

use self::{
    addresses::{next_door, redirects, table, tallies},
    certificate::{certificate, certificates},
    names::{fetch, lookup},
};
use super::{
    finding::{Finding, FindingLevel},
    judge::Verdict,
    report::{CheckResult, Report},
    round::CheckRound,
    subject::CheckAction,
    tally,
};

const MEBIBYTE: u64 = 1024 * 1024;

fn sign(style: ColorMode, verdict: Verdict) -> String {
    match verdict {
        Verdict::Works => style.paint("32", "✓"),
        Verdict::Warned => style.paint("33", "✓"),
        Verdict::Unknown => style.paint("90", "?"),
        Verdict::Fails => style.paint("1;31", "✗"),
    }
}

fn mark(style: ColorMode, level: FindingLevel) -> String {
    match level {
        FindingLevel::Note => style.paint("90", "i"),
        FindingLevel::Warning => style.paint("33", "!"),
        FindingLevel::Unknown => style.paint("90", "?"),
        FindingLevel::Failure => style.paint("1;31", "✗"),
    }
}

/// Formats a report: headline, results, findings.
pub(super) fn report(report: &Report<'_>, style: ColorMode) -> String {
    let mut text = format!(
        "{} {}{}\n",
        sign(style, report.judgement.verdict),
        report.subject.url,
        headline(report)
    );
    for said in &report.subject.said {
        line(&mut text, "", said);
    }
    match &report.seen {
        CheckResult::Addresses(rounds) => seen(rounds, report, style, &mut text),
        CheckResult::Fetches {
            manners,
            fetched,
            caa,
            ..
        } => {
            for said in manners {
                line(&mut text, "", said);
            }
            if let Some(last) = fetched.last() {
                fetch(last, &mut text);
            }
            if let Some(caa) = caa {
                line(&mut text, "CAA", &caa.line());
                if let Some(told) = caa.told() {
                    line(&mut text, "it says", &told);
                }
            }
        }
    }
    for (n, found) in report.judgement.findings.iter().enumerate() {
        if n > 0 || !told_by_headline(report, found) {
            finding(found, report.judgement.looks, style, &mut text);
        }
        reasons(found, &mut text);
    }
    text
}

/// Whether the headline already contains the most severe finding and applies to all its addresses.
fn told_by_headline(report: &Report<'_>, found: &Finding) -> bool {
    let all = match &report.seen {
        CheckResult::Addresses(rounds) => rounds.last().map_or(0, |round| round.reached.len()),
        CheckResult::Fetches { .. } => 0,
    };
    report.planned == 1
        && report.judgement.verdict >= Verdict::Unknown
        && (found.addresses.is_empty() || found.addresses.len() == all)
}

/// The verdict in words, to follow the URL.
fn headline(report: &Report<'_>) -> String {
    let judged = &report.judgement;
    if judged.looks == 0 {
        return ": stopped before the first pass was complete".to_owned();
    }
    if report.planned > 1 {
        let stopped = if judged.looks < report.planned {
            format!(", stopped before the remaining {}", report.planned - judged.looks)
        } else {
            String::new()
        };
        return format!(" worked {} of {} times{stopped}", judged.good, judged.looks);
    }
    let gravest = || {
        judged
            .findings
            .first()
            .map_or_else(|| "failed".to_owned(), |found| found.said.what.clone())
    };
    match judged.verdict {
        Verdict::Fails => format!(": {}", gravest()),
        Verdict::Unknown => format!(" could not be checked: {}", gravest()),
        Verdict::Works | Verdict::Warned => format!(" {}", works(report)),
    }
}

fn works(report: &Report<'_>) -> String {
    let rounds = match &report.seen {
        CheckResult::Addresses(rounds) => rounds,
        CheckResult::Fetches { fetched, .. } => {
            let took = fetched.last().map_or_else(Micros::default, |one| one.took);
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
        best.legs
            .iter()
            .filter_map(|leg| leg.result.times.total)
            .map(|time| time.0)
            .sum(),
    );
    match (&best.outcome, &report.subject.what) {
        (Outcome::Ok { status: Some(status) }, _) => {
            let after = match best.legs.len() {
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

fn seen(rounds: &[CheckRound], report: &Report<'_>, style: ColorMode, text: &mut String) {
    let Some(last) = rounds.last() else { return };
    lookup(
        &last.lookup,
        matches!(report.subject.what, CheckAction::Name(_)),
        text,
    );
    if rounds.len() > 1 {
        tallies(&tally::of(rounds), text);
    } else {
        table(&last.reached, style, text);
    }
    // TTL evidence is collected in the first pass only.
    let first = rounds.first().unwrap_or(last);
    for one in &first.reached {
        // The responder of a loopback address is known.
        if !one.address.ip().is_loopback()
            && let Some(who) = next_door(one)
        {
            line(text, "answered", &format!("{}: {who}", one.address));
        }
    }
    let shown_there = certificates(&last.reached);
    for (tls, addresses) in &shown_there {
        let at = if shown_there.len() > 1 {
            addresses.as_slice()
        } else {
            &[]
        };
        certificate(tls, at, report.now, text);
    }
    for one in &last.reached {
        redirects(one, text);
    }
    if let Some(answer) = last
        .reached
        .iter()
        .find_map(|one| one.legs.last()?.result.answer.as_ref())
    {
        let mut words = vec![answer.version.to_owned()];
        words.extend(answer.server.as_deref().map(escape));
        words.extend(answer.content_type.as_deref().map(escape));
        words.push(match answer.read {
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
        line(text, "answer", &words.join(", "));
    }
}

/// Writes one labelled line.
pub(super) fn line(text: &mut String, word: &str, said: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  {word:<11} {said}");
}

fn finding(found: &Finding, looks: u32, style: ColorMode, text: &mut String) {
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
        mark(style, found.level),
        found.said.what
    );
}

fn reasons(found: &Finding, text: &mut String) {
    for (n, reason) in found.said.likely.iter().enumerate() {
        line(text, if n == 0 { "  likely" } else { "  or" }, reason);
    }
}
