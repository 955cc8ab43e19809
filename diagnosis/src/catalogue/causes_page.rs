//! Generates `docs/reference/causes.md` from the catalogue, so that page and code cannot diverge.

use std::fmt::Write as _;

use super::{Cause, CauseContext, all, unobservable::NOT_OBSERVABLE};
use crate::{
    findings::{FindingKind, HazardKind},
    topology::Topology,
    verdict::Remedy,
};

const HEADER: &str = "# Causes, findings and hazards

This page lists every cause that the diagnosis can name, every finding and hazard, and the causes that the mesh cannot
observe. It is generated from the catalogue: `PARALLAX_BLESS=1 cargo test -p parallax-diagnosis --lib the_page_of_causes`
rewrites it.

Ids with `F` come from the failure catalogue, ids with `I` from the incidents that started the project; ids with `P` are
specific to Parallax. A trailing letter denotes a variant or a part of a cause.

";

/// Renders the whole page.
pub(super) fn render() -> String {
    let topology = Topology::default();
    let situation = CauseContext {
        members: vec!["NODE".to_owned(), "NODE".to_owned()],
        ..CauseContext::new(&topology)
    };
    let mut out = HEADER.to_owned();
    out.push_str(
        "## Causes of failing probes\n\n| id | cause | regions that fail together |\n|---|---|---|\n",
    );
    let mut causes: Vec<&Cause> = all().collect();
    causes.sort_by_key(|cause| sort_key(cause.id));
    for cause in &causes {
        let regions: Vec<String> = cause.regions.iter().map(|region| format!("`{region}`")).collect();
        let _ = writeln!(out, "| {} | {} | {} |", cause.id, cause.title, regions.join(", "));
    }
    out.push_str("\n### Remedies\n\n| id | remedy | won't help if |\n|---|---|---|\n");
    // Causes with the same remedy share a row.
    let mut ways: Vec<(Vec<&str>, Remedy)> = Vec::new();
    for cause in &causes {
        for remedy in (cause.remedies)(&situation) {
            let known = ways.iter_mut().find(|(_, way)| {
                way.action == remedy.action && way.ineffective_when == remedy.ineffective_when
            });
            match known {
                Some((ids, _)) => ids.push(cause.id),
                None => ways.push((vec![cause.id], remedy)),
            }
        }
    }
    for (ids, remedy) in ways {
        let not_when = remedy.ineffective_when.as_deref().unwrap_or("");
        let _ = writeln!(out, "| {} | {} | {not_when} |", ids.join(", "), remedy.action);
    }
    out.push_str("\n## Findings\n\nProblems that exist even if all probes pass.\n\n| kind | id | description |\n|---|---|---|\n");
    for kind in FindingKind::ALL {
        let _ = writeln!(out, "| `{kind}` | {} | {} |", kind.catalogue(), kind.title());
    }
    out.push_str("\n## Hazards\n\nConfiguration or node state that would make clients fail; no client fails yet.\n\n| kind | id | description |\n|---|---|---|\n");
    for kind in HazardKind::ALL {
        let _ = writeln!(out, "| `{kind}` | {} | {} |", kind.catalogue(), kind.title());
    }
    out.push_str(
        "\n## What the mesh cannot observe\n\nPassing probes never rule these causes out.\n\n| id | cause | needed to observe it |\n|---|---|---|\n",
    );
    for unseen in NOT_OBSERVABLE {
        let _ = writeln!(
            out,
            "| {} | {} | {} |",
            unseen.id, unseen.title, unseen.requirement
        );
    }
    out
}

/// Sort key: F before P, then by number, then by letter.
fn sort_key(id: &str) -> (char, u32, &str) {
    let letter = id.chars().next().unwrap_or(' ');
    let digits: String = id.chars().skip(1).take_while(char::is_ascii_digit).collect();
    (letter, digits.parse().unwrap_or(0), id)
}
