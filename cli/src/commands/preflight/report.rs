//! The text report.

use std::{collections::BTreeMap, fmt::Write as _};

use parallax_api::preflight::CheckState;
use parallax_model::{Outcome, Vantage};
use parallax_preflight::{CertManagerPlacement, VantageAnswer, Verdict};
use parallax_terminal::ColorMode;

use super::{JudgedHost, names};
use crate::commands::{query::TextTable, server_text::replace_control_characters};

/// The maximum number of vantages in the table.
const MAX_TABLE_ROWS: usize = 40;

/// The maximum number of vantages named per group.
const MAX_NAMED_VANTAGES: usize = 12;

pub(super) fn render(placement: &CertManagerPlacement, cases: &[JudgedHost], style: ColorMode) -> String {
    let mut out = String::new();
    for case in cases {
        let _ = writeln!(out, "{}: {}", case.verdict.host, case.planned.description());
        if let Some(note) = &case.planned.note {
            let _ = writeln!(out, "  {note}");
        }
        if let Some(waits) = &case.planned.skip_self_check_delay {
            let _ = writeln!(
                out,
                "  the solver waits {waits} instead of making the self check (waitInsteadOfSelfCheck): only the CA decides"
            );
        }
        write_verdict(&mut out, "self check", &case.verdict.self_check, style);
        write_verdict(&mut out, "CA", &case.verdict.ca, style);
        out.push('\n');
        out.push_str(&vantage_table(&case.answers.0, &case.answers.1, style));
        out.push_str(&names::render(&case.names));
        if let Some(time) = case.planned.propagation {
            let _ = writeln!(
                out,
                "\nThe first node got the response {:.1} s after the last object was created.",
                time.as_secs_f64()
            );
        }
        out.push_str("\nNot checked:\n");
        for item in &case.verdict.not_checked {
            let _ = writeln!(out, "  {item}");
        }
        out.push('\n');
    }
    for line in placement.description().iter().chain(&placement.notes) {
        let _ = writeln!(out, "{line}");
    }
    out
}

pub(super) fn write_verdict(out: &mut String, name: &str, verdict: &Verdict, style: ColorMode) {
    let sign = match verdict.state {
        CheckState::Passed => style.paint("32", "✓"),
        CheckState::AtRisk => style.paint("33", "!"),
        CheckState::Failed => style.paint("1;31", "✗"),
        CheckState::Unknown => style.paint("33", "?"),
    };
    let _ = writeln!(
        out,
        "{sign} {name}: {}",
        replace_control_characters(&verdict.sentence)
    );
    for caveat in &verdict.caveats {
        let _ = writeln!(out, "    {}", replace_control_characters(caveat));
    }
    for finding in &verdict.findings {
        let _ = writeln!(
            out,
            "    {} ({})",
            replace_control_characters(&finding.text),
            finding.id
        );
    }
    for problem in &verdict.problems {
        let _ = writeln!(out, "  DNS: {}", replace_control_characters(&problem.description));
        let _ = writeln!(
            out,
            "    message   {}",
            replace_control_characters(&problem.ca_error)
        );
        if !problem.remedy.is_empty() {
            let _ = writeln!(
                out,
                "    remedy    {}",
                replace_control_characters(&problem.remedy)
            );
        }
    }
    for group in &verdict.failure_groups {
        let from: Vec<String> = group
            .vantages
            .iter()
            .take(MAX_NAMED_VANTAGES)
            .map(Vantage::to_string)
            .collect();
        let more = match group.vantages.len().saturating_sub(MAX_NAMED_VANTAGES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let _ = writeln!(
            out,
            "  {}{more}: {}",
            from.join(", "),
            replace_control_characters(&group.reason)
        );
        let _ = writeln!(
            out,
            "    message   {}",
            replace_control_characters(&group.client_message)
        );
        for cause in &group.causes {
            let label = if cause.diagnosed { "cause" } else { "usually" };
            let _ = writeln!(out, "    {label:<9} {} {}", cause.id, cause.title);
        }
        for remedy in &group.remedies {
            let _ = writeln!(
                out,
                "    remedy    {} (trade-off: {})",
                remedy.action, remedy.trade_off
            );
            if let Some(command) = &remedy.command {
                let _ = writeln!(out, "              {command}");
            }
        }
    }
}

fn vantage_table(self_check: &[VantageAnswer], ca: &[VantageAnswer], style: ColorMode) -> String {
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
    for (vantage, (own, ca)) in rows.iter().take(MAX_TABLE_ROWS) {
        let any = own.or(*ca);
        let placement = any.map_or_else(String::new, |answer| answer.placement.to_string());
        let address = any
            .and_then(|answer| answer.sight.dials.iter().rfind(|dial| !dial.abandoned))
            .map_or_else(String::new, |dial| dial.address.ip().to_string());
        let (own, ca) = (result_cell(*own), result_cell(*ca));
        let colour = |cell: &str| {
            let code = match cell.chars().next() {
                Some('✓') => "32",
                Some('✗') => "1;31",
                _ => "33",
            };
            style.paint(code, cell)
        };
        table.row([
            (vantage.to_string().as_str(), None),
            (placement.as_str(), None),
            (address.as_str(), None),
            (own.as_str(), Some(colour(&own))),
            (ca.as_str(), Some(colour(&ca))),
        ]);
    }
    let mut text = table.render();
    if rows.len() > MAX_TABLE_ROWS {
        let _ = writeln!(text, "… and {} more vantages", rows.len() - MAX_TABLE_ROWS);
    }
    text
}

fn result_cell(answer: Option<&VantageAnswer>) -> String {
    let Some(answer) = answer else {
        return "-".to_owned();
    };
    let time = answer
        .total_duration
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
        Outcome::NotProbed { fault: own } => format!("? not probed: {}", own.reason()),
    }
}
