//! What a report changes in the verdict of its incident: the evidence, or the named region as well.

use std::cmp::Ordering;

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

impl TrackedIncident {
    /// Counts a report, and returns the number of reports in a row in which its region was likelier than the named one.
    fn count_likelier(&mut self, region: Region) -> u32 {
        let before = self.likelier.filter(|(likelier, _)| *likelier == region);
        let reports = before.map_or(1, |(_, reports)| reports.saturating_add(1));
        self.likelier = (region != self.region).then_some((region, reports));
        self.likelier.map_or(0, |(_, reports)| reports)
    }

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
        let reports = self.count_likelier(report.region);
        if report.region == self.region {
            self.confirmations = self.confirmations.saturating_add(1);
        }
        let necessary = (1 + self.confirmations / CONFIRMATIONS_PER_REPORT).min(MAX_DISSENTING_REPORTS);
        let is_transient = report.region != self.region && reports < necessary;
        if is_transient && !report.class.contains(&self.region) {
            return;
        }
        let is_other_cause = self.lead_unit == *unit
            && report.region == self.region
            && report.verdict.cause() != self.incident.verdict.cause();
        self.other_causes = if is_other_cause {
            self.other_causes.saturating_add(1)
        } else {
            0
        };
        if is_other_cause && self.other_causes < necessary {
            return;
        }
        // Among regions that the evidence hardly separates, small changes of the likeliest one are not reported.
        let is_near = report.region != self.region
            && report.class.contains(&self.region)
            && (report.odds_over_next < RENAME_ODDS || is_transient)
            && reports < RENAME_REPORTS;
        let mut added = report.class.iter().filter(|region| !self.class.contains(region));
        let is_wider = report.region == self.region
            && report.class.len() > self.class.len()
            && added.all(|region| self.ruled_out.contains(region));
        self.wider_classes = if is_wider {
            self.wider_classes.saturating_add(1)
        } else {
            0
        };
        // What ruled out a region counted for more evidence than there is in the current window.
        let is_forgotten = is_wider && self.wider_classes < RENAME_REPORTS;
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
        if report.region != self.region {
            self.region = report.region;
            self.confirmations = 0;
            self.ruled_out.clear();
        }
        let dropped = self.class.iter().filter(|region| !report.class.contains(region));
        self.ruled_out.extend(dropped.copied());
        self.likelier = None;
        self.other_causes = 0;
        self.wider_classes = 0;
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
