//! Formats one incident with its evidence.

use std::fmt::Write as _;

use parallax_diagnosis::{
    verdict::{EvidenceRow, Incident, IncidentState, RegionRef},
    view::CellState,
};
use parallax_model::EventTime;

use crate::{
    color::ColorMode,
    sections::{plural, write_list, write_remedies},
};

/// Formats all details of one incident.
#[must_use]
pub fn incident(incident: &Incident, now: EventTime, style: ColorMode) -> String {
    let verdict = &incident.verdict;
    let mut out = String::new();
    let sign = match incident.state {
        IncidentState::Open => style.paint("1;31", "✗"),
        IncidentState::Recovering => style.paint("33", "~"),
        IncidentState::Closed { .. } => style.paint("32", "✓"),
    };
    let _ = writeln!(out, "{sign} {}", style.paint("1", &verdict.headline()));
    let _ = writeln!(out, "  {}", verdict.sentence);
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
        (now - incident.since).humanize(),
        verdict.targets.len(),
        plural(verdict.targets.len()),
    );
    if let Some(share) = incident.duty_cycle {
        let _ = writeln!(
            out,
            "  seen {} times, failing {:.0} % of the time",
            incident.occurrences,
            100.0 * share.get()
        );
    }
    if let Some(departed) = &incident.departure_reason {
        let _ = writeln!(out, "  closed because {departed}");
    }
    write_list(&mut out, "causes", &causes, style);
    let consequences: Vec<_> = incident.consequences.iter().map(ToString::to_string).collect();
    write_list(&mut out, "consequences", &consequences, style);
    if verdict.class.len() > 1 {
        let class: Vec<_> = verdict.class.iter().map(RegionRef::description).collect();
        write_list(&mut out, "cannot be told apart", &[class.join(", ")], style);
        write_list(&mut out, "to tell them apart", &verdict.separating_probes, style);
    }
    if !verdict.evidence.is_empty() {
        let _ = writeln!(out, "\n  {}", style.paint("1", "evidence (failed / probes)"));
        let width = verdict
            .evidence
            .iter()
            .map(|r| r.clients.chars().count())
            .max()
            .unwrap_or(0);
        for row in &verdict.evidence {
            let _ = writeln!(out, "  {}", evidence_row(row, width, style));
        }
    }
    let decided: Vec<String> = verdict.deciding_probe.iter().cloned().collect();
    write_list(&mut out, "decided by", &decided, style);
    write_list(
        &mut out,
        "results of follow-up probes",
        &verdict.follow_up_results,
        style,
    );
    write_list(&mut out, "who responds", &verdict.locality, style);
    let ruled_out: Vec<_> = verdict
        .ruled_out
        .iter()
        .map(|r| format!("{}: {}", r.region.description(), r.reason))
        .collect();
    write_list(&mut out, "ruled out", &ruled_out, style);
    let facts: Vec<_> = verdict
        .facts
        .iter()
        .map(|f| match &f.cause {
            Some(cause) => format!("{} (×{} for {cause})", f.text, f.multiplier),
            None => format!("{} (×{})", f.text, f.multiplier),
        })
        .collect();
    write_list(&mut out, "facts that moved the prior", &facts, style);
    write_remedies(&mut out, &verdict.remedies, style);
    let not_excluded: Vec<_> = verdict
        .not_excluded
        .iter()
        .map(|open| format!("{} {} (needs {})", open.id, open.title, open.requirement))
        .collect();
    write_list(&mut out, "not excluded", &not_excluded, style);
    out
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
        style.state_symbol(state),
        row.clients,
        kinds.join(", ")
    );
    line.trim_end().to_owned()
}
