//! The text report.

use std::{collections::BTreeMap, fmt::Write as _};

use parallax_api::preflight::CheckState;
use parallax_model::{Outcome, Vantage};
use parallax_preflight::{CertManagerPlacement, VantageAnswer, Verdict};
use parallax_terminal::ColorMode;

use super::{JudgedHost, names};
use crate::commands::query::TextTable;

/// The maximum number of vantages in the table.
const LISTED: usize = 40;

/// The maximum number of vantages named per group.
const NAMED: usize = 12;

pub(super) fn text(seat: &CertManagerPlacement, cases: &[JudgedHost], style: ColorMode) -> String {
    let mut out = String::new();
    for case in cases {
        let _ = writeln!(out, "{}: {}", case.judged.host, case.planned.words());
        if let Some(note) = &case.planned.note {
            let _ = writeln!(out, "  {note}");
        }
        if let Some(waits) = &case.planned.waits {
            let _ = writeln!(
                out,
                "  the solver waits {waits} instead of making the self check (waitInsteadOfSelfCheck): only the CA decides"
            );
        }
        verdict(&mut out, "self check", &case.judged.self_check, style);
        verdict(&mut out, "CA", &case.judged.ca, style);
        out.push('\n');
        out.push_str(&table(&case.answers.0, &case.answers.1, style));
        out.push_str(&names::text(&case.names));
        if let Some(time) = case.planned.propagation {
            let _ = writeln!(
                out,
                "\nThe first node got the response {:.1} s after the last object was created.",
                time.as_secs_f64()
            );
        }
        out.push_str("\nNot checked:\n");
        for what in &case.judged.not_checked {
            let _ = writeln!(out, "  {what}");
        }
        out.push('\n');
    }
    for line in seat.words().iter().chain(&seat.notes) {
        let _ = writeln!(out, "{line}");
    }
    out
}

pub(super) fn verdict(out: &mut String, name: &str, verdict: &Verdict, style: ColorMode) {
    let sign = match verdict.standing {
        CheckState::Passed => style.paint("32", "✓"),
        CheckState::AtRisk => style.paint("33", "!"),
        CheckState::Failed => style.paint("1;31", "✗"),
        CheckState::Unknown => style.paint("33", "?"),
    };
    let _ = writeln!(out, "{sign} {name}: {}", plain(&verdict.sentence));
    for caveat in &verdict.caveats {
        let _ = writeln!(out, "    {}", plain(caveat));
    }
    for finding in &verdict.findings {
        let _ = writeln!(out, "    {} ({})", plain(&finding.text), finding.id);
    }
    for problem in &verdict.problems {
        let _ = writeln!(out, "  DNS: {}", plain(&problem.words));
        let _ = writeln!(out, "    message   {}", plain(&problem.theirs));
        if !problem.remedy.is_empty() {
            let _ = writeln!(out, "    remedy    {}", plain(&problem.remedy));
        }
    }
    for group in &verdict.failing {
        let from: Vec<String> = group
            .vantages
            .iter()
            .take(NAMED)
            .map(Vantage::to_string)
            .collect();
        let more = match group.vantages.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let _ = writeln!(out, "  {}{more}: {}", from.join(", "), plain(&group.words));
        let _ = writeln!(out, "    message   {}", plain(&group.theirs));
        for cause in &group.causes {
            let how = if cause.diagnosed { "cause" } else { "usually" };
            let _ = writeln!(out, "    {how:<9} {} {}", cause.id, cause.title);
        }
        for remedy in &group.remedies {
            let _ = writeln!(
                out,
                "    remedy    {} (trade-off: {})",
                remedy.action, remedy.price
            );
            if let Some(command) = &remedy.command {
                let _ = writeln!(out, "              {command}");
            }
        }
    }
}

/// Replaces control characters: servers choose some of this text.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn table(self_check: &[VantageAnswer], ca: &[VantageAnswer], style: ColorMode) -> String {
    let mut rows: BTreeMap<&Vantage, (Option<&VantageAnswer>, Option<&VantageAnswer>)> = BTreeMap::new();
    for answer in self_check {
        rows.entry(&answer.vantage).or_default().0 = Some(answer);
    }
    for answer in ca {
        rows.entry(&answer.vantage).or_default().1 = Some(answer);
    }
    let mut table = TextTable::new(&["VANTAGE", "PLACEMENT", "ADDRESS", "SELF CHECK", "CA"]);
    let mut rows: Vec<_> = rows.into_iter().collect();
    // Failing vantages come first, because the table is truncated.
    let fails = |answer: Option<&VantageAnswer>| answer.is_some_and(|answer| answer.outcome.is_failure());
    rows.sort_by_key(|(_, (own, ca))| !(fails(*own) || fails(*ca)));
    for (vantage, (own, ca)) in rows.iter().take(LISTED) {
        let any = own.or(*ca);
        let placement = any.map_or_else(String::new, |answer| answer.placement.to_string());
        let address = any
            .and_then(|answer| answer.sight.dials.iter().rfind(|dial| !dial.overtaken))
            .map_or_else(String::new, |dial| dial.address.ip().to_string());
        let (own, ca) = (said(*own), said(*ca));
        let colour = |said: &str| {
            let code = match said.chars().next() {
                Some('✓') => "32",
                Some('✗') => "1;31",
                _ => "33",
            };
            style.paint(code, said)
        };
        table.row([
            (vantage.to_string().as_str(), None),
            (placement.as_str(), None),
            (address.as_str(), None),
            (own.as_str(), Some(colour(&own))),
            (ca.as_str(), Some(colour(&ca))),
        ]);
    }
    let mut text = table.text();
    if rows.len() > LISTED {
        let _ = writeln!(text, "… and {} more vantages", rows.len() - LISTED);
    }
    text
}

fn said(answer: Option<&VantageAnswer>) -> String {
    let Some(answer) = answer else {
        return "-".to_owned();
    };
    let time = answer
        .total
        .map_or_else(String::new, |total| format!(" in {total}"));
    match &answer.outcome {
        Outcome::Ok { status } => {
            let status = status.map_or_else(|| "ok".to_owned(), |status| status.to_string());
            format!("✓ {status}{time}")
        }
        Outcome::Failed { kind, status, .. } => {
            let status = status.map_or_else(String::new, |status| format!(" {status}"));
            format!("✗ {}{status}", kind.label().replace('_', " "))
        }
        Outcome::NotAsked { own } => format!("? {}", own.to_string().replace('_', " ")),
    }
}
