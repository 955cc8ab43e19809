//! Findings, hazards and unknowns.

use std::fmt::Write as _;

use parallax_diagnosis::{
    findings::{ExposureState, Severity},
    verdict::Remedy,
    view::{CellState, View},
};

use crate::{
    color::ColorMode,
    sections::{write_list, write_remedies},
};

/// Formats findings, hazards and unknowns, that is, everything except the matrix and the incidents. Empty if
/// there are none; causes that these vantages cannot rule out are always listed.
#[must_use]
pub fn findings(view: &View, style: ColorMode) -> String {
    let mut out = String::new();
    for finding in &view.findings {
        let about = format!(
            "finding {} ({})   {}",
            finding.kind,
            finding.kind.catalogue(),
            finding.subject
        );
        let seen = ("evidence", finding.evidence.as_slice());
        write_notice(
            &mut out,
            (finding.severity, &finding.sentence),
            &about,
            seen,
            &finding.remedies,
            style,
        );
    }
    for hazard in &view.hazards {
        let about = format!(
            "hazard {} ({}): nothing fails yet   {}",
            hazard.kind,
            hazard.kind.catalogue(),
            hazard.subject
        );
        let rests = ("evidence", hazard.evidence.as_slice());
        write_notice(
            &mut out,
            (hazard.severity, &hazard.sentence),
            &about,
            rests,
            &hazard.remedies,
            style,
        );
    }
    let mut unknown = |all: usize, known: usize, of: &str, description: &str| {
        let unknown = all - known;
        if unknown > 0 {
            let state = style.state_symbol(CellState::Unknown);
            let _ = writeln!(
                out,
                "{state} {unknown} of {all} {of}: not known yet whether {description}"
            );
        }
    };
    let exposures = view.exposures.iter().map(|exposure| exposure.state);
    unknown(
        view.exposures.len(),
        exposures.filter(|state| *state != ExposureState::Unknown).count(),
        "hosts at fronts of another ingress class",
        "they are served there",
    );
    let forbidden = view.forbidden.iter().map(|question| question.state);
    unknown(
        view.forbidden.len(),
        forbidden.filter(|state| *state != ExposureState::Unknown).count(),
        "probes that must not get an answer",
        "they get one",
    );
    if !view.not_excluded.is_empty() {
        let lines: Vec<_> = view
            .not_excluded
            .iter()
            .map(|open| format!("{} {} (needs {})", open.id, open.title, open.requirement))
            .collect();
        let _ = writeln!(out, "{}", style.paint("1", "what these probes can't rule out"));
        for line in lines {
            let _ = writeln!(out, "  {} {line}", style.state_symbol(CellState::Unknown));
        }
    }
    out
}

/// Formats a finding or a hazard.
fn write_notice(
    out: &mut String,
    (severity, sentence): (Severity, &str),
    about: &str,
    (heading, evidence): (&str, &[String]),
    actions: &[Remedy],
    style: ColorMode,
) {
    let _ = writeln!(
        out,
        "{} {}",
        severity_symbol(severity, style),
        style.paint("1", sentence)
    );
    let _ = writeln!(out, "  {about}");
    write_list(out, heading, evidence, style);
    write_remedies(out, actions, style);
    out.push('\n');
}

fn severity_symbol(severity: Severity, style: ColorMode) -> String {
    match severity {
        Severity::Critical => style.paint("1;31", "✗"),
        Severity::Warning => style.paint("33", "!"),
        Severity::Notice => style.paint("36", "i"),
    }
}
