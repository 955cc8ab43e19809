//! Investigations: failures whose cause is not yet named, with the likeliest cause so far.

use crate::{
    engine::Engine,
    inference::{judgement::Judgement, judgement_unit::JudgementUnit},
    regions::{Region, share::alpha},
    verdict::RegionRef,
    view::Investigation,
};

/// Rounds without a failure after which failures without a verdict are over: at least so many, at most so many, and in between
/// [`PAUSE_FACTOR`] times the longest pause between two failures.
const QUIET_ROUNDS: std::ops::RangeInclusive<i64> = 5..=12;
const PAUSE_FACTOR: i64 = 2;

/// The likeliest explanation of a subject's failures while the evidence does not suffice for a verdict.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TentativeCause {
    /// Regions that the evidence cannot separate, likeliest first.
    pub(crate) class: Vec<RegionRef>,
    /// Probability of the whole class.
    pub(crate) probability: f64,
}

impl Engine {
    /// Reports whether failures without a verdict are over: nothing has failed for longer than it pauses. The evidence of a fault
    /// that lasted a few rounds, for instance one that a restarted aggregator reads from the probers' spools, may never suffice for
    /// a verdict.
    pub(super) fn has_ceased(&self, unit: &JudgementUnit, judgement: &Judgement) -> bool {
        let (own, _) = self.blocks_of(unit);
        let failing = self.failing_rounds(&own, judgement.input.start);
        let Some(last) = failing.last() else {
            return true;
        };
        let pauses = failing
            .iter()
            .zip(failing.iter().skip(1))
            .map(|(a, b)| b.0 - a.0 - 1);
        let allowed = PAUSE_FACTOR * pauses.max().unwrap_or(0);
        self.incidents.round().0 - last.0 > allowed.clamp(*QUIET_ROUNDS.start(), *QUIET_ROUNDS.end())
    }

    pub(super) fn update_investigation(
        &mut self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        sentence: String,
        excused: bool,
    ) {
        let failing = judgement.findings.iter().map(|finding| finding.first_failure);
        let since = failing.min().unwrap_or(judgement.input.start);
        let investigation = self
            .judgement
            .investigating
            .entry(unit.clone())
            .or_insert(Investigation {
                subject: Self::subject_of(unit),
                sentence: String::new(),
                since: since.start(self.settings.interval),
                transient: excused,
            });
        investigation.sentence = sentence;
        investigation.transient = excused;
    }

    pub(super) fn suspicion_sentence(&self, judgement: &Judgement) -> String {
        let Some(class) = judgement.posterior.classes.iter().find(|c| !c.contains_healthy) else {
            return "failing, cause not yet known".to_owned();
        };
        let names: Vec<String> = class
            .members
            .iter()
            .map(|i| {
                judgement.posterior.scored[*i]
                    .region
                    .describe(&self.registry)
                    .description()
            })
            .collect();
        format!(
            "failing, cause not yet known; likeliest so far: {} ({})",
            crate::wording::join_names(&names),
            crate::wording::format_probability(class.mass.min(1.0))
        )
    }

    /// Reports whether an open incident already names the tentative cause: an incident of a former process, which had
    /// more evidence.
    pub(super) fn has_open_incident(&self, unit: &JudgementUnit, judgement: &Judgement) -> bool {
        let posterior = &judgement.posterior;
        let class = posterior.classes.iter().find(|class| !class.contains_healthy);
        let regions = class.map(|class| posterior.regions_of(class)).unwrap_or_default();
        regions.iter().any(|region| self.incidents.is_open(unit, *region))
    }

    /// Returns the heaviest class of all, "nothing is wrong" included.
    pub(super) fn tentative_cause(&self, judgement: &Judgement) -> Option<TentativeCause> {
        let posterior = &judgement.posterior;
        let class = posterior
            .classes
            .first()
            .filter(|class| !class.contains_healthy)?;
        let regions = posterior.regions_of(class).into_iter();
        Some(TentativeCause {
            class: regions.map(|region| region.describe(&self.registry)).collect(),
            probability: class.mass.min(1.0),
        })
    }

    /// Tentative causes of the subjects that fail without a verdict, except "nothing is wrong".
    pub(crate) fn tentative_causes(&self) -> impl Iterator<Item = &TentativeCause> {
        let failing = self.judgement.tentative_causes.iter();
        failing
            .filter(|(unit, _)| self.judgement.investigating.contains_key(unit))
            .filter_map(|(_, leaning)| leaning.as_ref())
    }

    /// Returns the cells that fit the best explanation worst.
    pub(super) fn unexplained_cells(&self, judgement: &Judgement) -> Vec<String> {
        let regions: Vec<Region> = judgement.findings.iter().map(|f| f.region).collect();
        let mut worst: Vec<(u64, String)> = judgement
            .input
            .cells
            .iter()
            .filter(|(key, counts)| {
                counts.unweighted_failures > 0 && alpha(&regions, key, &judgement.input.paths).is_zero()
            })
            .map(|(key, counts)| {
                let vantage = self.registry.vantages.name(key.client);
                (
                    counts.unweighted_failures,
                    format!("{} from {vantage}", key.channel),
                )
            })
            .collect();
        worst.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        worst
            .into_iter()
            .take(5)
            .map(|(failures, words)| {
                format!(
                    "{words} ({} failures)",
                    crate::evidence::weights::to_whole_probes(failures)
                )
            })
            .collect()
    }
}
