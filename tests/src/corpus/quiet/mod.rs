//! False alarms of a healthy mesh, over more target-months than can be simulated one by one.
//!
//! Thirty days of 2 000 targets are a thousand million rounds. Nearly all of them are boring, and the few that are not
//! cannot be found by waiting. So stretches of a mesh are drawn from a *tilted* law, under which failures cluster the way
//! a fault would cluster them, and each stretch counts with the ratio of its probability under the true law to that under
//! the tilted one (importance sampling). The mean of these weighted counts is the expected number of false alarms under
//! the true law, without bias, whatever the engine does with a stretch: no assumption about windows, thresholds or priors
//! enters, and the real engine judges every round.
//!
//! Why the tilts find what there is to find: an incident opens where P(healthy) < 0.01 with P(fault) = 0.03, hence
//! where some region's likelihood, averaged over its rates, is at least 3 201 times that of "healthy" (Σ π(h)·m(h) ≥
//! 99·π(healthy)·m(healthy), and Σ π(h) = 0.03). The tilts are these regions, with rates over the same span and windows
//! of 2 to 10 rounds. So a stretch that makes the engine speak is one that some tilt makes common, and there its weight
//! is small. One stretch in [`PLAIN`] is drawn from the true law itself, which bounds every weight.
//!
//! One target with its front, endpoints and mesh is an engine of its own; targets are independent. The mesh is thereby
//! judged once per target instead of once, which counts its false alarms too often rather than too rarely. Failures of
//! the background take the kinds that the corpus gives them.

mod law;
mod mesh;
#[cfg(test)]
mod tests;

use parallax_diagnosis::{Engine, Settings};
use parallax_model::{EventTime, Micros};

use self::{
    law::{Drawn, Law},
    mesh::Mesh,
};
use super::{rng::Rng, simulate};

/// Share of the stretches that are drawn from the true law.
pub const PLAIN: f64 = 0.2;

/// Rounds before anything is counted: the longest evidence window of ten minutes.
pub const BEFORE: usize = 120;

/// Rounds in which openings are counted. A tilt begins in the first of them or up to [`LATEST`] later.
pub const COUNTED: usize = 14;

/// Latest beginning of a tilt, in counted rounds.
const LATEST: usize = 4;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quiet {
    /// Nodes, each with a prober.
    pub nodes: usize,
    /// Endpoints, on different nodes.
    pub endpoints: usize,
    /// Probability that a probe fails by itself.
    pub background: f64,
    /// Probability that a client stalls in a round; its probes then fail together with probability 0.7.
    pub stalls: f64,
    /// Seed.
    pub seed: u64,
    /// Stretches to draw.
    pub stretches: usize,
    /// Rounds of the true law before what is counted.
    pub before: usize,
    /// Share of the stretches drawn from the true law; 1 switches tilting off.
    pub plain: f64,
    /// Targets that the mesh looks at, this one among them: how sure a verdict must be depends on it.
    pub among: usize,
}

impl Default for Quiet {
    fn default() -> Self {
        Self {
            nodes: 12,
            endpoints: 3,
            background: 0.01,
            stalls: 0.0,
            seed: 1,
            stretches: 1_000,
            before: BEFORE,
            plain: PLAIN,
            among: 1,
        }
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    /// Stretches drawn.
    pub stretches: usize,
    /// Rounds that the engine judged.
    pub judged_rounds: u64,
    /// Observations it was given.
    pub observations: u64,
    /// Incidents opened in tilted stretches, each a stretch that hardly ever happens.
    pub opened_tilted: u64,
    /// Incidents opened in stretches of the true law: false alarms as they are.
    pub opened_plain: u64,
    /// Counted rounds of the true law.
    pub plain_rounds: u64,
    /// Expected openings per target and round.
    pub rate: f64,
    /// Standard error of that.
    pub error: f64,
    /// Mean weight; 1 but for chance, or the weights are wrong.
    pub mean_weight: f64,
    /// Largest share of one stretch in the rate.
    pub largest_share: f64,
    /// Expected openings per target and round by the region that was named, most frequent first.
    pub by_region: Vec<(String, f64)>,
}

impl Found {
    /// Expected false alarms of so many targets over so many rounds, and the upper end of their 95 % interval.
    #[must_use]
    pub fn expected(&self, targets: f64, rounds: f64) -> (f64, f64) {
        let all = targets * rounds;
        (self.rate * all, (self.rate + 1.645 * self.error) * all)
    }
}

/// Rounds of five seconds in so many days.
#[must_use]
pub fn rounds_in(days: f64) -> f64 {
    days * 86_400.0 / 5.0
}

/// Draws and judges the stretches; `progress` hears how many are done.
pub fn run(quiet: &Quiet, mut progress: impl FnMut(usize)) -> Found {
    let mesh = Mesh::new(quiet.nodes, quiet.endpoints, quiet.among);
    let law = Law::new(quiet, &mesh);
    let mut found = Found::default();
    let mut terms = Vec::with_capacity(quiet.stretches);
    let mut weights = 0.0;
    let mut regions = std::collections::BTreeMap::<String, f64>::new();
    for number in 0..quiet.stretches {
        let mut rng = Rng::of(&[quiet.seed, 0x9e_77, number as u64]);
        let drawn = law.draw(&mut rng);
        let weight = law.weight(&drawn);
        let opened = judge(&mesh, &drawn, quiet.before, &mut rng, &mut found);
        for region in &opened {
            *regions.entry(region.clone()).or_default() += weight;
        }
        let count = opened.len() as u64;
        if drawn.tilted {
            found.opened_tilted += count;
        } else {
            found.opened_plain += count;
            found.plain_rounds += COUNTED as u64;
        }
        weights += weight;
        terms.push(weight * float(count) / float(COUNTED as u64));
        found.stretches += 1;
        progress(found.stretches);
    }
    let n = float(terms.len().max(1) as u64);
    let sum: f64 = terms.iter().sum();
    let mean = sum / n;
    let squares: f64 = terms.iter().map(|term| (term - mean) * (term - mean)).sum();
    found.rate = mean;
    found.error = (squares / (n - 1.0).max(1.0) / n).sqrt();
    found.mean_weight = weights / n;
    let largest = terms.iter().copied().fold(0.0, f64::max);
    found.largest_share = if sum > 0.0 { largest / sum } else { 0.0 };
    let scale = n * float(COUNTED as u64);
    found.by_region = regions.into_iter().map(|(name, w)| (name, w / scale)).collect();
    found.by_region.sort_by(|a, b| b.1.total_cmp(&a.1));
    found
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of stretches and rounds are far below 2^52"
)]
const fn float(n: u64) -> f64 {
    n as f64
}

/// The regions that the engine names in the counted rounds of a stretch, one for each opening.
fn judge(mesh: &Mesh, drawn: &Drawn, before: usize, rng: &mut Rng, found: &mut Found) -> Vec<String> {
    let settings = Settings {
        interval: Micros(simulate::INTERVAL_US.unsigned_abs()),
        timeout: Micros(simulate::TIMEOUT_US),
    };
    let mut engine = Engine::new(settings, mesh.topology());
    let mut known = std::collections::BTreeMap::new();
    let mut opened = Vec::new();
    for (round, shots) in drawn.rounds.iter().enumerate() {
        for (seq, shot) in shots.iter().enumerate() {
            engine.observe(&mesh.recorded(round, seq, shot, rng));
        }
        found.observations += shots.len() as u64;
        let end = EventTime((i64::try_from(round).unwrap_or(0) + 1) * simulate::INTERVAL_US);
        for vantage in mesh.vantages() {
            engine.progress(vantage, end);
        }
        let now = end.shifted(100_000);
        engine.advance(now);
        found.judged_rounds += 1;
        let new: std::collections::BTreeMap<_, _> = engine
            .view(now)
            .incidents
            .into_iter()
            .map(|incident| {
                (
                    incident.id,
                    (incident.occurrences, incident.verdict.region.region),
                )
            })
            .collect();
        if round >= before {
            for (id, (occurrences, region)) in &new {
                let had = known.get(id).map_or(0, |(times, _): &(u32, String)| *times);
                let times = usize::try_from(occurrences.saturating_sub(had)).unwrap_or(0);
                opened.extend(std::iter::repeat_n(region.clone(), times));
            }
        }
        known = new;
    }
    opened
}
