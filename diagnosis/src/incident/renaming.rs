//! What a report changes in the verdict of its incident: the evidence, or the named region as well.

use std::{cmp::Ordering, collections::BTreeSet};

use parallax_model::EventTime;

use super::{IncidentEvent, Report, Scope, tracked::TrackedIncident};
use crate::{inference::judgement_unit::JudgementUnit, regions::Region, verdict::Verdict};

/// How much likelier another region of the same class must be to replace the named one. The named region determines
/// the sentence: as long as the evidence hardly separates the two, it stays.
const RENAME_ODDS: f64 = 3.0;

/// Number of reports in a row after which a region that has been the likeliest of its class in each replaces the named one,
/// however small the odds, and regions that were ruled out are named again: chance among the first failures must not decide for good.
const RENAME_REPORTS: u32 = 12;

/// Number of reports that confirm the named region after which one more report in a row is necessary to replace it or its cause.
/// When a fault ends, what still fails because of another one and what succeeds again favor another region for a round or two, and
/// the last failures contradict the topology of the repair: a Service that has endpoints again was not the reason for a 404.
const CONFIRMATIONS_PER_REPORT: u32 = 6;
/// Maximum number of reports in a row that are necessary to replace the named region or its cause.
const MAX_DISSENTING_REPORTS: u32 = 3;

/// What the reports since the last change say for and against the name of an incident.
#[derive(Debug, Default)]
pub(super) struct RenamingEvidence {
    /// Number of reports that confirmed the named region.
    confirmations: u32,
    /// The likeliest region of the latest reports, if it is not the named one, and the number of reports in a row in which it was.
    likelier: Option<(Region, u32)>,
    /// Number of the latest reports in a row that name the region, but another cause.
    other_causes: u32,
    /// Regions that were named together with the named one, and were ruled out.
    ruled_out: BTreeSet<Region>,
    /// Number of the latest reports in a row that name the region together with regions that were ruled out.
    wider_classes: u32,
}

/// Counts a report if it continues a row, otherwise restarts the count. Returns the number of reports in the row.
const fn count_in_a_row(row: &mut u32, continues: bool) -> u32 {
    *row = if continues { row.saturating_add(1) } else { 0 };
    *row
}

impl RenamingEvidence {
    /// Counts a report for an incident that names `named`. Returns the number of reports in a row in which another region was
    /// likelier.
    fn count_region(&mut self, region: Region, named: Region) -> u32 {
        if region == named {
            self.confirmations = self.confirmations.saturating_add(1);
        }
        let before = self.likelier.filter(|(likelier, _)| *likelier == region);
        let reports = before.map_or(1, |(_, reports)| reports.saturating_add(1));
        self.likelier = (region != named).then_some((region, reports));
        self.likelier.map_or(0, |(_, reports)| reports)
    }

    /// Returns the number of reports in a row that are necessary to replace the named region or its cause.
    fn necessary_reports(&self) -> u32 {
        (1 + self.confirmations / CONFIRMATIONS_PER_REPORT).min(MAX_DISSENTING_REPORTS)
    }

    /// Restarts the counts after the incident has been named anew, without the regions `dropped`.
    fn restart(&mut self, is_other_region: bool, dropped: impl Iterator<Item = Region>) {
        let before = std::mem::take(self);
        if !is_other_region {
            self.confirmations = before.confirmations;
            self.ruled_out = before.ruled_out;
        }
        self.ruled_out.extend(dropped);
    }
}

impl TrackedIncident {
    pub(super) fn update(
        &mut self,
        unit: &JudgementUnit,
        report: Report,
        at: EventTime,
        events: &mut Vec<IncidentEvent>,
    ) {
        self.units.insert(unit.clone());
        self.add_members(report.failing_clients, report.verdict.targets.iter().cloned());
        // Another subject replaces the verdict only if it has more evidence, or as much and is nearer to the cause.
        let withdrawn = self.scope == Scope::Withdrawn;
        let nearer = unit.depth() < self.lead_unit.depth();
        let more = match report.class.len().cmp(&self.class.len()) {
            Ordering::Less => true,
            Ordering::Equal => nearer,
            // The network's own subject has the last word about nodes and links.
            Ordering::Greater => nearer && report.region == self.region && self.region.is_between_nodes(),
        };
        if self.lead_unit != *unit && (withdrawn || !more) {
            return;
        }
        if self.leaves_members_unexplained(unit, &report.class) {
            return;
        }
        let reports = self.renaming.count_region(report.region, self.region);
        let necessary = self.renaming.necessary_reports();
        let is_transient = report.region != self.region && reports < necessary;
        if is_transient && !report.class.contains(&self.region) {
            return;
        }
        let is_other_cause = self.lead_unit == *unit
            && report.region == self.region
            && report.verdict.cause() != self.incident.verdict.cause();
        let other_causes = count_in_a_row(&mut self.renaming.other_causes, is_other_cause);
        if is_other_cause && other_causes < necessary {
            return;
        }
        // Among regions that the evidence hardly separates, small changes of the likeliest one are not reported.
        let is_near = report.region != self.region
            && report.class.contains(&self.region)
            && ((report.odds_over_next < RENAME_ODDS || is_transient) && reports < RENAME_REPORTS
                || self.leaves_members_unexplained(unit, &[report.region]));
        let mut added = report.class.iter().filter(|region| !self.class.contains(region));
        let is_wider = report.region == self.region
            && report.class.len() > self.class.len()
            && added.all(|region| self.renaming.ruled_out.contains(region));
        let wider_classes = count_in_a_row(&mut self.renaming.wider_classes, is_wider);
        // What ruled out a region counted for more evidence than there is in the current window.
        let is_forgotten = is_wider && wider_classes < RENAME_REPORTS;
        if self.lead_unit == *unit && (is_near || is_forgotten) {
            let verdict = &mut self.incident.verdict;
            verdict.probability = report.verdict.probability;
            verdict.evidence = report.verdict.evidence;
            return;
        }
        let renamed = self.incident.verdict.region != report.verdict.region
            || self.incident.verdict.class != report.verdict.class
            || self.incident.verdict.cause() != report.verdict.cause();
        // The deciding probe stays the one of the first naming; later evidence that would also suffice does not
        // replace it. Where none decided it, the region may have been named together with others until now.
        let earlier = self.incident.verdict.deciding_probe.take();
        let decided_by = if self.incident.verdict.region != report.verdict.region {
            report.verdict.deciding_probe.clone()
        } else if self.incident.verdict.class.len() > report.verdict.class.len() {
            earlier.or_else(|| report.verdict.deciding_probe.clone())
        } else {
            earlier
        };
        self.lead_unit = unit.clone();
        let dropped = self.class.iter().filter(|region| !report.class.contains(region));
        self.renaming
            .restart(report.region != self.region, dropped.copied());
        self.region = report.region;
        self.class = report.class;
        self.is_one_way = report.is_one_way;
        self.failing_endpoints = report.failing_endpoints;
        self.scope = report.scope;
        self.incident.verdict = Verdict {
            deciding_probe: decided_by,
            targets: std::mem::take(&mut self.incident.verdict.targets),
            ..report.verdict
        };
        if renamed && self.is_reported() {
            events.push(IncidentEvent::Named {
                incident: self.incident.clone(),
                at,
                first: false,
            });
        }
    }
}
