//! A view as plain text for terminals: the same facts as the page, in the same order.
//!
//! State is written in signs as well as colour: `✓` ok, `✗` failing, `~` flaky, `·` unknown.

use std::fmt::Write as _;

use parallax_model::{EventTime, Vantage};

use crate::{
    evidence::baseline::UsualAnswer,
    findings::{ExposureState, Severity},
    verdict::{EvidenceRow, Incident, IncidentState, RegionRef, Remedy},
    view::{CellState, MatrixRow, VantageState, View},
};

/// Vantages that have a column of their own; of more a terminal shows how many see what.
const MOST_COLUMNS: usize = 24;
/// Vantages named in such a row.
const MOST_NAMES: usize = 4;

/// Whether the terminal understands colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorMode {
    /// Signs only.
    Plain,
    /// Signs and ANSI colours.
    Coloured,
}

impl ColorMode {
    /// A text in the colour of an ANSI code (`31`, `1;32`), or as it is.
    #[must_use]
    pub fn paint(self, code: &str, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Coloured => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }

    fn state(self, state: CellState) -> String {
        match state {
            CellState::Ok => self.paint("32", "✓"),
            CellState::Failing => self.paint("1;31", "✗"),
            CellState::Flaky => self.paint("33", "~"),
            CellState::Unknown => self.paint("90", "·"),
        }
    }
}

/// One line: what the mesh sees right now.
#[must_use]
pub fn summary(view: &View, style: ColorMode) -> String {
    let reporting = view
        .vantages
        .iter()
        .filter(|v| v.state == VantageState::Reporting)
        .count();
    let count = |state| {
        view.matrix
            .iter()
            .flat_map(|row| &row.cells)
            .filter(|c| c.state == state)
            .count()
    };
    let open = view
        .incidents
        .iter()
        .filter(|i| !matches!(i.state, IncidentState::Closed { .. }))
        .count();
    let mut line = format!("{reporting} of {} vantages report", view.vantages.len());
    for (state, word) in [
        (CellState::Ok, "ok"),
        (CellState::Failing, "failing"),
        (CellState::Flaky, "flaky"),
        (CellState::Unknown, "unknown"),
    ] {
        let n = count(state);
        if n > 0 {
            let _ = write!(line, "  {} {n} {word}", style.state(state));
        }
    }
    for (n, word) in [(view.findings.len(), "finding"), (view.hazards.len(), "hazard")] {
        if n > 0 {
            let _ = write!(
                line,
                "  {}",
                style.paint("33", &format!("{n} {word}{}", plural(n)))
            );
        }
    }
    if open > 0 {
        let _ = write!(
            line,
            "  {}",
            style.paint("1;31", &format!("{open} open incident{}", plural(open)))
        );
    } else if !view.investigating.is_empty() {
        let _ = write!(line, "  {}", style.paint("33", "failing, cause not yet known"));
    }
    line
}

/// What a target answers while it works, as `200 by nginx, 404`; empty until that is known.
#[must_use]
pub fn baseline(row: &MatrixRow) -> String {
    let answer = |answer: &UsualAnswer| {
        let servers: Vec<_> = answer.servers.iter().map(ToString::to_string).collect();
        if servers.is_empty() {
            answer.status.to_string()
        } else {
            format!("{} by {}", answer.status, servers.join(" or "))
        }
    };
    let answers: Vec<_> = row.baseline.iter().map(answer).collect();
    answers.join(", ")
}

/// The matrix, one line a target, at most `most` of them: failing ones first.
#[must_use]
pub fn matrix(view: &View, style: ColorMode, most: usize) -> String {
    let mut rows: Vec<&MatrixRow> = view.matrix.iter().collect();
    let worst = |row: &MatrixRow| {
        row.cells
            .iter()
            .map(|c| c.state)
            .max()
            .unwrap_or(CellState::Unknown)
    };
    rows.sort_by_key(|row| (std::cmp::Reverse(worst(row)), row.target.clone()));
    let width = rows
        .iter()
        .take(most)
        .map(|r| r.target.as_str().chars().count())
        .max()
        .unwrap_or(0);
    let mut out = String::new();
    if view.vantages.len() > MOST_COLUMNS {
        for row in rows.iter().take(most) {
            let _ = writeln!(out, "{:width$}{}", row.target.as_str(), counted(row, view, style));
        }
    } else {
        let _ = write!(out, "{:width$}", "");
        for vantage in &view.vantages {
            let _ = write!(out, "  {}", short(&vantage.vantage));
        }
        out.push('\n');
        for row in rows.iter().take(most) {
            let _ = write!(out, "{:width$}", row.target.as_str());
            let mut cells = row.cells.iter().peekable();
            for (column, vantage) in view.vantages.iter().enumerate() {
                let cell = cells.next_if(|cell| cell.vantage == column);
                // Not to be asked from here.
                let sign = cell.map_or_else(|| " ".to_owned(), |cell| style.state(cell.state));
                let width = short(&vantage.vantage).chars().count();
                let _ = write!(out, "  {sign}{}", " ".repeat(width.saturating_sub(1)));
            }
            out.push('\n');
        }
    }
    if rows.len() > most {
        let _ = writeln!(out, "… and {} more targets", rows.len() - most);
    }
    out
}

/// A row of more vantages than a terminal has columns for: how many see what, and the first that see it fail.
fn counted(row: &MatrixRow, view: &View, style: ColorMode) -> String {
    let mut out = String::new();
    for state in [
        CellState::Failing,
        CellState::Flaky,
        CellState::Ok,
        CellState::Unknown,
    ] {
        let cells: Vec<_> = row.cells.iter().filter(|cell| cell.state == state).collect();
        if cells.is_empty() {
            continue;
        }
        let _ = write!(out, "  {} {}", style.state(state), cells.len());
        if matches!(state, CellState::Failing | CellState::Flaky) {
            let names = cells.iter().filter_map(|cell| view.vantages.get(cell.vantage));
            let names: Vec<String> = names.take(MOST_NAMES).map(|v| short(&v.vantage)).collect();
            let more = if cells.len() > MOST_NAMES { ", …" } else { "" };
            let _ = write!(out, " ({}{more})", names.join(", "));
        }
    }
    out
}

/// Everything that is known of one incident.
#[must_use]
pub fn incident(incident: &Incident, now: EventTime, style: ColorMode) -> String {
    let verdict = &incident.verdict;
    let mut out = String::new();
    let sign = match incident.state {
        IncidentState::Open => style.paint("1;31", "✗"),
        IncidentState::Recovering => style.paint("33", "~"),
        IncidentState::Closed { .. } => style.paint("32", "✓"),
    };
    let _ = writeln!(out, "{sign} {}", style.paint("1", &verdict.sentence));
    let causes: Vec<_> = verdict
        .causes
        .iter()
        .map(|c| format!("{} {}", c.id, c.title))
        .collect();
    let _ = writeln!(
        out,
        "  probability {}   failing: {}   for {}   {} target{}",
        verdict.probability,
        verdict.region.description(),
        now - incident.since,
        verdict.targets.len(),
        plural(verdict.targets.len()),
    );
    if let Some(departed) = &incident.departed {
        let _ = writeln!(out, "  closed because {departed}");
    }
    list(&mut out, "causes", &causes, style);
    if verdict.class.len() > 1 {
        let class: Vec<_> = verdict.class.iter().map(RegionRef::description).collect();
        list(&mut out, "cannot be told apart", &[class.join(", ")], style);
        list(&mut out, "would settle it", &verdict.separating, style);
    }
    if !verdict.evidence.is_empty() {
        let _ = writeln!(out, "\n  {}", style.paint("1", "evidence (failed / probes)"));
        let width = verdict
            .evidence
            .iter()
            .map(|r| r.who.chars().count())
            .max()
            .unwrap_or(0);
        for row in &verdict.evidence {
            let _ = writeln!(out, "  {}", evidence_row(row, width, style));
        }
    }
    let decided: Vec<String> = verdict.decided_by.iter().cloned().collect();
    list(&mut out, "decided by", &decided, style);
    list(&mut out, "answered beside", &verdict.answers, style);
    list(&mut out, "who answers", &verdict.locality, style);
    let ruled_out: Vec<_> = verdict
        .ruled_out
        .iter()
        .map(|r| format!("{}: {}", r.region.description(), r.because))
        .collect();
    list(&mut out, "ruled out", &ruled_out, style);
    let facts: Vec<_> = verdict
        .facts
        .iter()
        .map(|f| match &f.cause {
            Some(cause) => format!("{} (×{} for {cause})", f.text, f.multiplier),
            None => format!("{} (×{})", f.text, f.multiplier),
        })
        .collect();
    list(&mut out, "facts that moved the prior", &facts, style);
    ways_out(&mut out, &verdict.remedies, style);
    let not_excluded: Vec<_> = verdict
        .not_excluded
        .iter()
        .map(|open| format!("{} {} (needs {})", open.id, open.title, open.needed))
        .collect();
    list(&mut out, "not excluded", &not_excluded, style);
    out
}

fn not_when(out: &mut String, remedy: &Remedy) {
    if let Some(when) = &remedy.not_when {
        let _ = writeln!(out, "      won't help if {when}");
    }
}

/// Probes that are on their way beyond the plan, by what they are about. They change from round to round, so they are
/// worth a look but no news.
#[must_use]
pub fn asked(view: &View, style: ColorMode) -> String {
    let mut out = String::new();
    if !view.asks.is_empty() {
        let _ = writeln!(out, "{}", style.paint("1", "asked beyond the plan"));
    }
    for ask in &view.asks {
        let _ = writeln!(out, "  ? {}: {}", ask.subject, ask.purpose());
    }
    out
}

/// Findings, hazards and what stays open: everything besides the matrix and the incidents. Empty where there is nothing
/// to say, except that what these vantages cannot see is always said.
#[must_use]
pub fn besides(view: &View, style: ColorMode) -> String {
    let mut out = String::new();
    for finding in &view.findings {
        let about = format!(
            "finding {} ({})   {}",
            finding.kind,
            finding.kind.catalogue(),
            finding.subject
        );
        let seen = ("seen", finding.evidence.as_slice());
        notice(
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
            "hazard {} ({}): nobody fails yet   {}",
            hazard.kind,
            hazard.kind.catalogue(),
            hazard.subject
        );
        let rests = ("rests on", hazard.evidence.as_slice());
        notice(
            &mut out,
            (hazard.severity, &hazard.sentence),
            &about,
            rests,
            &hazard.remedies,
            style,
        );
    }
    let mut unknown = |all: usize, known: usize, of: &str, what: &str| {
        let unknown = all - known;
        if unknown > 0 {
            let state = style.state(CellState::Unknown);
            let _ = writeln!(
                out,
                "{state} {unknown} of {all} {of}: not known yet whether {what}"
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
        "questions that must stay without an answer",
        "they do",
    );
    if !view.not_excluded.is_empty() {
        let lines: Vec<_> = view
            .not_excluded
            .iter()
            .map(|open| format!("{} {} (needs {})", open.id, open.title, open.needed))
            .collect();
        let _ = writeln!(out, "{}", style.paint("1", "what these probes can't rule out"));
        for line in lines {
            let _ = writeln!(out, "  {} {line}", style.state(CellState::Unknown));
        }
    }
    out
}

/// A finding or a hazard.
fn notice(
    out: &mut String,
    (severity, sentence): (Severity, &str),
    about: &str,
    (heading, evidence): (&str, &[String]),
    remedies: &[Remedy],
    style: ColorMode,
) {
    let _ = writeln!(out, "{} {}", sign(severity, style), style.paint("1", sentence));
    let _ = writeln!(out, "  {about}");
    list(out, heading, evidence, style);
    ways_out(out, remedies, style);
    out.push('\n');
}

fn sign(severity: Severity, style: ColorMode) -> String {
    match severity {
        Severity::Critical => style.paint("1;31", "✗"),
        Severity::Warning => style.paint("33", "!"),
        Severity::Notice => style.paint("36", "i"),
    }
}

fn ways_out(out: &mut String, remedies: &[Remedy], style: ColorMode) {
    if remedies.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n  {}", style.paint("1", "ways out"));
    for remedy in remedies {
        let _ = writeln!(out, "  • {}", remedy.action);
        if let Some(command) = &remedy.command {
            let _ = writeln!(out, "      {}", style.paint("36", command));
        }
        let _ = writeln!(out, "      trade-off: {}", remedy.price);
        not_when(out, remedy);
    }
}

fn evidence_row(row: &EvidenceRow, width: usize, style: ColorMode) -> String {
    let state = match (row.failures, row.probes) {
        (_, 0) => CellState::Unknown,
        (0, _) => CellState::Ok,
        (failed, all) if failed >= all => CellState::Failing,
        _ => CellState::Flaky,
    };
    let kinds: Vec<_> = row.kinds.iter().map(|(kind, n)| format!("{kind} {n}")).collect();
    let mark = if row.predicted { "◀ predicted" } else { "" };
    let counts = format!("{}/{}", row.failures, row.probes);
    let line = format!(
        "{} {:width$}  {counts:>9}  {} {mark}",
        style.state(state),
        row.who,
        kinds.join(", ")
    );
    line.trim_end().to_owned()
}

fn list(out: &mut String, title: &str, lines: &[String], style: ColorMode) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n  {}", style.paint("1", title));
    for line in lines {
        let _ = writeln!(out, "  • {line}");
    }
}

fn short(vantage: &Vantage) -> String {
    let text = vantage.to_string();
    text.strip_suffix("/pod").map_or(text.clone(), ToOwned::to_owned)
}

const fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}
