//! The true law of a healthy mesh, its tilts, and the likelihood of a stretch under each.

use super::{
    COUNTED_ROUNDS, LATEST_TILT_START, QuietOptions,
    mesh::{MeshProbe, QuietMesh},
};
use crate::corpus::{region::ProbeApproach, rng::Rng};

/// Probability that a probe of a stalled client fails.
const STALLED_FAILURE_PROBABILITY: f64 = 0.7;

/// Failure probabilities inside a tilted region: the range of the engine's own grid, in four steps.
const TILT_RATES: [f64; 4] = [0.12, 0.3, 0.6, 0.95];

/// Lengths of a tilt, in rounds.
const TILT_LENGTHS: [usize; 5] = [2, 3, 4, 6, 10];

/// Probability of a stall while stalls are tilted.
const SURGE_STALL_PROBABILITY: f64 = 0.35;

/// Probes that fail together under a tilt: the engine's own regions, with the endpoint of every probe known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Region {
    Target,
    Vip,
    Endpoint(usize),
    Node(usize),
    NodeFromOthers(usize),
    Client(usize),
    ClientVip(usize),
    Pair(usize, usize),
    NoLocal,
    Cross,
    Same,
    SameVip,
}

impl Region {
    fn holds(self, shot: &MeshProbe, mesh: &QuietMesh) -> bool {
        let vip = shot.way == ProbeApproach::Vip;
        match self {
            Self::Target => shot.way != ProbeApproach::Mesh,
            Self::Vip => vip,
            Self::Endpoint(endpoint) => shot.endpoint == Some(endpoint),
            Self::Node(node) => shot.node == node,
            Self::NodeFromOthers(node) => shot.node == node && shot.client != node,
            Self::Client(client) => shot.client == client,
            Self::ClientVip(client) => vip && shot.client == client,
            Self::Pair(client, node) => shot.client == client && shot.node == node,
            Self::NoLocal => vip && !mesh.holds_endpoint(shot.client),
            Self::Cross => shot.client != shot.node,
            Self::Same => shot.client == shot.node,
            Self::SameVip => vip && shot.client == shot.node,
        }
    }

    /// Returns one list per kind of region: all kinds are equally likely, however many members each has.
    fn kinds(mesh: &QuietMesh) -> Vec<Vec<Self>> {
        let nodes = || 0..mesh.nodes;
        let pairs = nodes()
            .flat_map(|c| nodes().filter(move |n| *n != c).map(move |n| Self::Pair(c, n)))
            .collect();
        vec![
            vec![Self::Target],
            vec![Self::Vip],
            (0..mesh.endpoints.len()).map(Self::Endpoint).collect(),
            nodes().map(Self::Node).collect(),
            nodes().map(Self::NodeFromOthers).collect(),
            nodes().map(Self::Client).collect(),
            nodes().map(Self::ClientVip).collect(),
            pairs,
            vec![Self::NoLocal],
            vec![Self::Cross],
            vec![Self::Same],
            vec![Self::SameVip],
        ]
    }
}

/// A law for drawing a stretch, other than the true one.
#[derive(Debug, Clone, Copy)]
struct TiltedLaw {
    /// The region that fails together; absent if stalls surge.
    region: Option<Region>,
    /// Index into [`TILT_RATES`].
    rate: usize,
    /// First tilted round among the counted ones, and the number of tilted rounds.
    start: usize,
    length: usize,
}

/// The true law with its tilts.
#[derive(Debug)]
pub(super) struct QuietLaw<'a> {
    quiet: &'a QuietOptions,
    mesh: &'a QuietMesh,
    kinds: Vec<Vec<Region>>,
}

/// A stretch.
#[derive(Debug)]
pub(super) struct DrawnStretch {
    pub(super) tilted: bool,
    pub(super) rounds: Vec<Vec<MeshProbe>>,
    /// Whether each client stalled, by round.
    stalls: Vec<Vec<bool>>,
}

impl<'a> QuietLaw<'a> {
    pub(super) fn new(quiet: &'a QuietOptions, mesh: &'a QuietMesh) -> Self {
        Self {
            quiet,
            mesh,
            kinds: Region::kinds(mesh),
        }
    }

    /// Returns the number of kinds of tilt: the kinds of region, and the surge of stalls if there are stalls.
    fn tilts(&self) -> usize {
        self.kinds.len() + usize::from(self.quiet.stalls > 0.0)
    }

    /// Returns a probe's failure probability under the true law, given its client's state.
    const fn base(&self, stalled: bool) -> f64 {
        if stalled {
            1.0 - (1.0 - STALLED_FAILURE_PROBABILITY) * (1.0 - self.quiet.background)
        } else {
            self.quiet.background
        }
    }

    pub(super) fn draw(&self, rng: &mut Rng) -> DrawnStretch {
        let tilt = (!rng.chance(self.quiet.untilted_share)).then(|| {
            let kind = rng.below(self.tilts());
            TiltedLaw {
                region: self.kinds.get(kind).map(|members| *rng.pick(members)),
                rate: rng.below(TILT_RATES.len()),
                start: rng.below(LATEST_TILT_START + 1),
                length: *rng.pick(&TILT_LENGTHS),
            }
        });
        let mut drawn = DrawnStretch {
            tilted: tilt.is_some(),
            rounds: Vec::new(),
            stalls: Vec::new(),
        };
        for round in 0..self.quiet.warm_up_rounds + COUNTED_ROUNDS {
            let now = tilt.filter(|tilt| {
                let first = self.quiet.warm_up_rounds + tilt.start;
                (first..first + tilt.length).contains(&round)
            });
            let surge = now.is_some_and(|tilt| tilt.region.is_none());
            let stall = if surge {
                SURGE_STALL_PROBABILITY
            } else {
                self.quiet.stalls
            };
            let stalls: Vec<bool> = (0..self.mesh.nodes).map(|_| rng.chance(stall)).collect();
            let mut shots = self.mesh.draw_probes(round, rng);
            for shot in &mut shots {
                shot.stalled = stalls[shot.client];
                let base = self.base(shot.stalled);
                let hit = now.and_then(|tilt| {
                    tilt.region
                        .filter(|region| region.holds(shot, self.mesh))
                        .map(|_| TILT_RATES[tilt.rate])
                });
                shot.failed = rng.chance(hit.map_or(base, |rate| 1.0 - (1.0 - rate) * (1.0 - base)));
            }
            drawn.rounds.push(shots);
            drawn.stalls.push(stalls);
        }
        drawn
    }

    /// Returns the ratio of the stretch's probability under the true law to that under the law it was drawn from: the
    /// mixture of all tilts and the true law.
    pub(super) fn weight(&self, drawn: &DrawnStretch) -> f64 {
        if self.quiet.untilted_share >= 1.0 {
            return 1.0;
        }
        let counted = &drawn.rounds[self.quiet.warm_up_rounds..];
        let mut tilted = 0.0;
        for members in &self.kinds {
            let mut sum = 0.0;
            for region in members {
                let mut rows = vec![[0.0; TILT_RATES.len()]; counted.len()];
                for (row, shots) in rows.iter_mut().zip(counted) {
                    for shot in shots.iter().filter(|shot| region.holds(shot, self.mesh)) {
                        let base = self.base(shot.stalled);
                        for (sum, rate) in row.iter_mut().zip(TILT_RATES) {
                            *sum += if shot.failed {
                                ((1.0 - (1.0 - rate) * (1.0 - base)) / base).ln()
                            } else {
                                (1.0 - rate).ln()
                            };
                        }
                    }
                }
                for rate in 0..TILT_RATES.len() {
                    let per_round: Vec<f64> = rows.iter().map(|row| row[rate]).collect();
                    sum += over_windows(&per_round);
                }
            }
            #[expect(clippy::cast_precision_loss, reason = "members of a kind of region are few")]
            let choices = (members.len() * TILT_RATES.len()) as f64;
            tilted += sum / choices;
        }
        if self.quiet.stalls > 0.0 {
            let (up, down) = (
                (SURGE_STALL_PROBABILITY / self.quiet.stalls).ln(),
                ((1.0 - SURGE_STALL_PROBABILITY) / (1.0 - self.quiet.stalls)).ln(),
            );
            let per_round: Vec<f64> = drawn.stalls[self.quiet.warm_up_rounds..]
                .iter()
                .map(|stalls| {
                    stalls
                        .iter()
                        .map(|stalled| if *stalled { up } else { down })
                        .sum()
                })
                .collect();
            tilted += over_windows(&per_round);
        }
        #[expect(clippy::cast_precision_loss, reason = "kinds of tilt are few")]
        let tilts = self.tilts() as f64;
        1.0 / (self.quiet.untilted_share + (1.0 - self.quiet.untilted_share) * tilted / tilts)
    }
}

/// Returns the mean likelihood ratio over all windows of a tilt, from the logarithms per round.
fn over_windows(per_round: &[f64]) -> f64 {
    let mut upto = vec![0.0];
    for ln in per_round {
        upto.push(upto[upto.len() - 1] + ln);
    }
    let mut sum = 0.0;
    for start in 0..=LATEST_TILT_START {
        for length in TILT_LENGTHS {
            sum += (upto[start + length] - upto[start]).exp();
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "windows are few")]
    let windows = ((LATEST_TILT_START + 1) * TILT_LENGTHS.len()) as f64;
    sum / windows
}
