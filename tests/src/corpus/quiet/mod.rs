//! Estimates the false alarms of a healthy mesh, over more target-months than can be simulated directly.
//!
//! Thirty days of 2 000 targets are a thousand million rounds. Nearly all of them are uneventful, and waiting does not
//! find the exceptions. Stretches of a mesh are therefore drawn from a *tilted* law, under which failures cluster as a
//! fault would cluster them, and each stretch is weighted by the ratio of its probability under the true law to that
//! under the tilted one (importance sampling). The mean of these weighted counts is an unbiased estimate of the number
//! of false alarms under the true law, whatever the engine does with a stretch: no assumption about windows,
//! thresholds or priors enters, and the real engine judges every round.
//!
//! Why the tilts find the alarms: an incident opens if P(healthy) < 0.01 with P(fault) = 0.03, that is, if some
//! region's likelihood, averaged over its rates, is at least 3 201 times that of "healthy" (Σ π(h)·m(h) ≥
//! 99·π(healthy)·m(healthy), and Σ π(h) = 0.03). The tilts are these regions, with rates over the same range and
//! windows of 2 to 10 rounds. A stretch for which the engine reports a fault is therefore one that some tilt makes
//! common, and there its weight is small. A share [`UNTILTED_SHARE`] of the stretches is drawn from the true law itself,
//! which bounds every weight.
//!
//! Each target with its front, endpoints and mesh is judged by a separate engine; targets are independent. A verdict
//! about the network or the resolvers concerns what all targets share, so it is expected once per mesh; all others are
//! expected once per target. Background failures have the kinds that the corpus gives them.

mod law;
mod mesh;
#[cfg(test)]
mod tests;

use parallax_diagnosis::{
    Engine, Settings,
    verdict::{Subject, Verdict},
};
use parallax_model::{EventTime, Micros};

use self::{
    law::{DrawnStretch, QuietLaw},
    mesh::QuietMesh,
};
use super::{rng::Rng, simulate};

/// Share of stretches drawn from the true law.
pub const UNTILTED_SHARE: f64 = 0.2;

/// Rounds before counting starts: the longest evidence window of ten minutes.
pub const WARM_UP_ROUNDS: usize = 120;

/// Rounds in which openings are counted. A tilt begins in the first of them or up to `LATEST` later.
pub const COUNTED_ROUNDS: usize = 14;

/// Latest beginning of a tilt, in counted rounds.
const LATEST_TILT_START: usize = 4;

/// Stretches less likely than this are not judged, but counted as if they had opened `UNJUDGED_OPENINGS` incidents:
/// over thirty days of 2 000 targets this adds less than 0.02 false alarms, and saves judging most tilted stretches.
pub const MIN_JUDGED_WEIGHT: f64 = 1e-10;

/// One about the front and one about the target.
const UNJUDGED_OPENINGS: f64 = 2.0;

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuietOptions {
    /// Nodes, each with a prober.
    pub nodes: usize,
    /// Endpoints, on different nodes.
    pub endpoints: usize,
    /// Probability that a probe fails without a fault.
    pub background: f64,
    /// Probability that a client stalls in a round; its probes then fail together with probability 0.7.
    pub stalls: f64,
    /// Seed.
    pub seed: u64,
    /// Number of the first stretch; each is drawn from seed and number only.
    pub first: usize,
    /// Number of stretches.
    pub stretches: usize,
    /// Rounds of the true law before counting starts.
    pub warm_up_rounds: usize,
    /// Share of stretches drawn from the true law; 1 disables tilting.
    pub untilted_share: f64,
    /// Weight below which a stretch counts as a false alarm without being judged.
    pub judged_above: f64,
    /// Number of targets in the mesh, including this one: the certainty that a verdict requires depends on it.
    pub target_count: usize,
}

impl Default for QuietOptions {
    fn default() -> Self {
        Self {
            nodes: 12,
            endpoints: 3,
            background: 0.01,
            stalls: 0.0,
            seed: 1,
            first: 0,
            stretches: 1_000,
            warm_up_rounds: WARM_UP_ROUNDS,
            untilted_share: UNTILTED_SHARE,
            judged_above: MIN_JUDGED_WEIGHT,
            target_count: 1,
        }
    }
}

/// Result.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QuietResult {
    /// Number of stretches drawn.
    pub stretches: usize,
    /// Stretches too unlikely to be judged, counted as false alarms.
    pub unjudged: usize,
    /// Rounds judged by the engine.
    pub judged_rounds: u64,
    /// Observations passed to it.
    pub observations: u64,
    /// Incidents opened in tilted stretches, each of which is very unlikely.
    pub opened_tilted: u64,
    /// Incidents opened in stretches of the true law: unweighted false alarms.
    pub opened_plain: u64,
    /// Counted rounds of the true law.
    pub plain_rounds: u64,
    /// Expected openings per round about a target or its front.
    pub own: RoundRate,
    /// Expected openings per round about what all targets of a mesh share.
    pub shared: RoundRate,
    /// Mean weight; deviates from 1 only by chance, or the weights are wrong.
    pub mean_weight: f64,
    /// The openings, the likeliest stretch first.
    pub openings: Vec<FalseOpening>,
}

/// Expected rate per round.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RoundRate {
    /// The estimate.
    pub mean: f64,
    /// Its standard error.
    pub error: f64,
}

/// An incident that opened in a counted round although nothing was wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct FalseOpening {
    /// Number of the stretch, from which it can be drawn again.
    pub stretch: usize,
    /// The verdict.
    pub region: String,
    /// Whether it concerns what all targets of a mesh share.
    pub shared: bool,
    /// Ratio of the stretch's probability under the true law to that under the law it was drawn from.
    pub weight: f64,
}

impl RoundRate {
    fn of(terms: &[f64]) -> Self {
        let n = float(terms.len().max(1) as u64);
        let mean = terms.iter().sum::<f64>() / n;
        let squares: f64 = terms.iter().map(|term| (term - mean) * (term - mean)).sum();
        Self {
            mean,
            error: (squares / (n - 1.0).max(1.0) / n).sqrt(),
        }
    }
}

impl QuietResult {
    /// Returns the expected false alarms of this many targets over this many rounds, and the upper end of the 95 %
    /// interval.
    #[must_use]
    pub fn expected(&self, targets: f64, rounds: f64) -> (f64, f64) {
        let mean = self.own.mean * targets + self.shared.mean;
        let error = (self.own.error * targets).hypot(self.shared.error);
        (mean * rounds, (mean + 1.645 * error) * rounds)
    }

    /// Returns the contribution of one opening to the expected number.
    #[must_use]
    pub fn contribution(&self, opening: &FalseOpening, targets: f64, rounds: f64) -> f64 {
        let times = if opening.shared { 1.0 } else { targets };
        opening.weight * times * rounds / float(self.stretches.max(1) as u64 * COUNTED_ROUNDS as u64)
    }
}

/// Returns the number of five-second rounds in a number of days.
#[must_use]
pub fn rounds_in(days: f64) -> f64 {
    days * 86_400.0 / 5.0
}

/// Draws and judges the stretches; calls `progress` with the number done.
pub fn run(quiet: &QuietOptions, mut progress: impl FnMut(usize)) -> QuietResult {
    let mesh = QuietMesh::new(quiet.nodes, quiet.endpoints, quiet.target_count);
    let law = QuietLaw::new(quiet, &mesh);
    let mut found = QuietResult::default();
    let mut terms = [Vec::new(), Vec::new()];
    let mut weights = 0.0;
    for number in quiet.first..quiet.first + quiet.stretches {
        let mut rng = Rng::from_words(&[quiet.seed, 0x9e_77, number as u64]);
        let drawn = law.draw(&mut rng);
        let weight = law.weight(&drawn);
        if weight < quiet.judged_above {
            terms[0].push(weight * UNJUDGED_OPENINGS / float(COUNTED_ROUNDS as u64));
            terms[1].push(0.0);
            weights += weight;
            found.stretches += 1;
            found.unjudged += 1;
            continue;
        }
        let opened = judge(&mesh, &drawn, quiet.warm_up_rounds, &mut rng, &mut found);
        let count = |shared: bool| float(opened.iter().filter(|(_, s)| *s == shared).count() as u64);
        for (terms, shared) in terms.iter_mut().zip([false, true]) {
            terms.push(weight * count(shared) / float(COUNTED_ROUNDS as u64));
        }
        if drawn.tilted {
            found.opened_tilted += opened.len() as u64;
        } else {
            found.opened_plain += opened.len() as u64;
            found.plain_rounds += COUNTED_ROUNDS as u64;
        }
        weights += weight;
        found
            .openings
            .extend(opened.into_iter().map(|(region, shared)| FalseOpening {
                stretch: number,
                region,
                shared,
                weight,
            }));
        found.stretches += 1;
        progress(found.stretches);
    }
    [found.own, found.shared] = terms.map(|terms| RoundRate::of(&terms));
    found.mean_weight = weights / float(found.stretches.max(1) as u64);
    found.openings.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    found
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of stretches and rounds are far below 2^52"
)]
const fn float(n: u64) -> f64 {
    n as f64
}

/// Returns the verdicts that the engine opens in the counted rounds of a stretch, and whether all targets share each.
fn judge(
    mesh: &QuietMesh,
    drawn: &DrawnStretch,
    before: usize,
    rng: &mut Rng,
    found: &mut QuietResult,
) -> Vec<(String, bool)> {
    let settings = Settings {
        interval: Micros(simulate::INTERVAL_US.unsigned_abs()),
        timeout: Micros(simulate::TIMEOUT_US),
    };
    let mut engine = Engine::new(settings, mesh.topology());
    let mut known = std::collections::BTreeMap::new();
    let mut opened = Vec::new();
    for (round, shots) in drawn.rounds.iter().enumerate() {
        for (seq, shot) in shots.iter().enumerate() {
            engine.observe(&mesh.to_observation(round, seq, shot, rng));
        }
        found.observations += shots.len() as u64;
        let end = EventTime((i64::try_from(round).unwrap_or(0) + 1) * simulate::INTERVAL_US);
        for vantage in mesh.vantages() {
            engine.record_progress(vantage, end);
        }
        let now = end.shifted(100_000);
        engine.advance(now);
        found.judged_rounds += 1;
        if round + 1 < before {
            continue;
        }
        let new: std::collections::BTreeMap<_, _> = engine
            .view(now)
            .incidents
            .into_iter()
            .map(|incident| {
                (
                    incident.id,
                    (incident.occurrences, verdict_text(&incident.verdict)),
                )
            })
            .collect();
        if round >= before {
            for (id, (occurrences, sentence)) in &new {
                let had = known.get(id).map_or(0, |(times, _): &(u32, _)| *times);
                let times = usize::try_from(occurrences.saturating_sub(had)).unwrap_or(0);
                opened.extend(std::iter::repeat_n(sentence.clone(), times));
            }
        }
        known = new;
    }
    opened
}

/// Returns the verdict's text, and whether all targets share it. A verdict between probers affects no target; one at a
/// front does, even if it blames a node.
fn verdict_text(verdict: &Verdict) -> (String, bool) {
    let subject = match &verdict.subject {
        Subject::Front(_) => "a front",
        Subject::Service(_) => "a Service",
        Subject::Target(_) => "a target",
        Subject::Network => "the network",
        Subject::Node(_) => "a node",
        Subject::Name(_) => "a name",
    };
    (
        format!("{} of {subject}", verdict.region.region),
        verdict.targets.is_empty(),
    )
}
