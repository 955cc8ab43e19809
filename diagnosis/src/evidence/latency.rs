//! Latency as evidence: a step in latency is judged over the same regions as failures, as separate blocks.
//!
//! An outcome is slow if its phase took more than three times the median, more than the 99th percentile, and at least
//! half a second longer than the median. The relevant delays start at one second (a lost SYN); a busy machine adds
//! less. The usual latency is learned per subject and client. Without a learned baseline, 900 ms for a handshake or a
//! lookup is slow on any path: a lost SYN is retransmitted after one second (RFC 6298 §2.1), a DNS query after five
//! (`resolv.conf`).
//!
//! Only successes are judged, so a probe never counts as both failed and slow. A client is not judged in a round in
//! which it started its own probes late: a machine that waits for CPU measures that wait.

use std::collections::BTreeMap;

use parallax_model::{Channel, FailureKind, Micros};

use super::{
    attribution::{RestartTimes, name_of},
    block::{CellBlock, EvidenceKind},
    cells::{Destination, OpenCells},
    ledger::{Ledger, OutcomeSplit},
    routes::Routes,
    row::{ProbeEnd, Row},
};
use crate::ids::{NameRegistry, VantageIx};

/// Minimum excess over the median. The shortest wait that a network fault causes is the first retransmission of a
/// SYN, one second (RFC 6298 §2.1); a machine without idle time adds some hundred milliseconds of its own.
const MIN_EXCESS: Micros = Micros::from_millis(500);
/// Slow without a learned baseline: just below the first retransmission of a SYN.
const SLOW_WITHOUT_BASELINE: Micros = Micros::from_millis(900);
/// If a client starts the probes of a round later than this on average, its times are not usable.
const MAX_MEAN_LATENESS: Micros = Micros::from_millis(20);
/// Outcomes needed before the baseline is used.
const MIN_SAMPLES: u32 = 20;
/// Outcomes in a baseline: an hour of probes every 5 s. A new one then replaces it, so a latency that lasts this long
/// becomes usual.
const BASELINE_SAMPLES: u32 = 720;

/// Half octaves from 1 µs to beyond an hour.
const BUCKETS: usize = 64;

/// Histogram of the durations of a phase.
#[derive(Debug, Clone)]
struct LatencyHistogram {
    counts: [u16; BUCKETS],
    total: u32,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self {
            counts: [0; BUCKETS],
            total: 0,
        }
    }
}

/// Returns the half octave of a time.
fn bucket(time: Micros) -> usize {
    let us = time.0.max(1);
    let octave = us.ilog2();
    // √2 · 2^n to within a thousandth, without floats.
    let upper = u128::from(us) * 1000 >= (1_u128 << octave) * 1414;
    (2 * octave as usize + usize::from(upper)).min(BUCKETS - 1)
}

/// Returns the upper bound of a bucket.
const fn bucket_end(bucket: usize) -> Micros {
    let octave = 1_u64 << (bucket / 2);
    Micros(if bucket.is_multiple_of(2) {
        octave * 1414 / 1000
    } else {
        octave * 2
    })
}

impl LatencyHistogram {
    fn add(&mut self, time: Micros) {
        let count = &mut self.counts[bucket(time)];
        *count = count.saturating_add(1);
        self.total += 1;
    }

    /// Returns an upper bound of the given percentile.
    fn quantile(&self, percent: u32) -> Micros {
        let wanted = u64::from(self.total) * u64::from(percent);
        let mut seen = 0;
        for (i, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count) * 100;
            if seen >= wanted {
                return bucket_end(i);
            }
        }
        bucket_end(BUCKETS - 1)
    }
}

/// Usual latency of one client on one subject.
#[derive(Debug, Clone, Default)]
struct UsualLatency {
    previous: Option<Box<LatencyHistogram>>,
    current: Box<LatencyHistogram>,
}

impl UsualLatency {
    fn baseline(&self) -> Option<&LatencyHistogram> {
        self.previous
            .as_deref()
            .or_else(|| (self.current.total >= MIN_SAMPLES).then_some(&*self.current))
    }

    fn is_slow(&self, time: Micros, guess: bool) -> bool {
        // Fast path for nearly all outcomes.
        if time < MIN_EXCESS {
            return false;
        }
        self.baseline()
            .map_or(guess && time >= SLOW_WITHOUT_BASELINE, |known| {
                let median = known.quantile(50);
                time > Micros(median.0.saturating_mul(3))
                    && time > known.quantile(99)
                    && time >= Micros(median.0.saturating_add(MIN_EXCESS.0))
            })
    }

    fn learn(&mut self, time: Micros, slow: bool) {
        // Before the first baseline is complete, slow outcomes must not become usual.
        if slow && self.previous.is_none() {
            return;
        }
        self.current.add(time);
        if self.current.total >= BASELINE_SAMPLES {
            self.previous = Some(std::mem::take(&mut self.current));
        }
    }
}

/// A slow outcome and the usual latency.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LatencyStep {
    pub(crate) duration: Micros,
    /// `None` without a learned baseline.
    pub(crate) median: Option<Micros>,
}

/// Latency baselines of one client, and the last slow outcome of each of its subjects.
#[derive(Debug, Default)]
struct ClientLatency {
    usual: BTreeMap<EvidenceKind, UsualLatency>,
    steps: BTreeMap<EvidenceKind, LatencyStep>,
}

/// Latency baselines of all clients.
#[derive(Debug, Default)]
pub(crate) struct LatencyBaseline {
    clients: BTreeMap<VantageIx, ClientLatency>,
}

impl LatencyBaseline {
    /// Counts the successes of a round as fast or slow in separate blocks; rows of one client must be adjacent.
    pub(crate) fn count_slow(
        &mut self,
        rows: &[Row],
        routes: &Routes,
        world: &mut NameRegistry,
        restarted: &RestartTimes,
        into: &mut BTreeMap<CellBlock, OpenCells>,
    ) {
        let kind = world.kinds.intern(&FailureKind::Other("slow".into()));
        let mut ledger = Ledger::default();
        let mut phases = Vec::new();
        for rows in rows.chunk_by(|a, b| a.client == b.client) {
            if is_stalled(rows) {
                continue;
            }
            let client = rows[0].client;
            let pace = self.clients.entry(client).or_default();
            for row in rows.iter().filter(|row| row.outcome == ProbeEnd::Ok) {
                timed_phases(row, routes, world, &mut phases);
                for timed in phases.drain(..) {
                    let fresh = restarted.get(&timed.kind);
                    if fresh.is_some_and(|at| row.at < *at) {
                        continue;
                    }
                    let slow = pace.record(&timed);
                    let failure = slow.then_some((kind, None));
                    // Hosts of one front share its handshake.
                    let group = (!matches!(timed.kind, EvidenceKind::Vip(_))).then_some(timed.dest);
                    ledger.record_in_group(
                        CellBlock::slowness(timed.kind),
                        timed.channel,
                        timed.dest,
                        failure,
                        group,
                    );
                }
            }
            ledger.flush(client, OutcomeSplit::PerPhase, into);
        }
    }

    /// Returns the slowest of the last slow outcomes of these clients on a subject.
    pub(crate) fn step(
        &self,
        of: EvidenceKind,
        clients: impl IntoIterator<Item = VantageIx>,
    ) -> Option<LatencyStep> {
        clients
            .into_iter()
            .filter_map(|client| self.clients.get(&client)?.steps.get(&of))
            .max_by_key(|step| step.duration)
            .copied()
    }

    /// Forgets removed subjects.
    pub(crate) fn retain(&mut self, keep: impl Fn(EvidenceKind) -> bool) {
        for pace in self.clients.values_mut() {
            pace.usual.retain(|of, _| keep(*of));
            pace.steps.retain(|of, _| keep(*of));
        }
    }
}

impl ClientLatency {
    /// Reports whether an outcome is slow, and learns from it.
    fn record(&mut self, timed: &TimedPhase) -> bool {
        let usual = self.usual.entry(timed.kind).or_default();
        let slow = usual.is_slow(timed.time, timed.fixed_threshold);
        if slow {
            let step = LatencyStep {
                duration: timed.time,
                median: usual.baseline().map(|known| known.quantile(50)),
            };
            self.steps.insert(timed.kind, step);
        }
        usual.learn(timed.time, slow);
        slow
    }
}

/// Reports whether a client started its probes of a round late.
fn is_stalled(rows: &[Row]) -> bool {
    let (mut sum, mut probes) = (0_u64, 0);
    for late in rows.iter().filter_map(|row| row.times.late) {
        sum = sum.saturating_add(late.0);
        probes += 1;
    }
    sum > MAX_MEAN_LATENESS.0.saturating_mul(probes)
}

/// One timed phase of a probe.
struct TimedPhase {
    kind: EvidenceKind,
    dest: Destination,
    channel: Channel,
    time: Micros,
    /// Whether the fixed threshold applies without a learned baseline.
    fixed_threshold: bool,
}

/// Collects the timed phases of a successful probe, each with its subject.
fn timed_phases(row: &Row, routes: &Routes, world: &mut NameRegistry, all: &mut Vec<TimedPhase>) {
    let times = row.times;
    let mut add = |of, dest, channel, time: Option<Micros>, guess| {
        if let Some(time) = time {
            all.push(TimedPhase {
                kind: of,
                dest,
                channel,
                time,
                fixed_threshold: guess,
            });
        }
    };
    match row.channel {
        Channel::Mesh => {
            if let Some(peer) = row.peer {
                let time = times.connect.or(times.total);
                add(
                    EvidenceKind::Mesh,
                    Destination::Peer(peer),
                    Channel::Mesh,
                    time,
                    true,
                );
            }
        }
        Channel::Dns | Channel::Vip => {
            let is_dns = row.channel == Channel::Dns;
            let resolve = times.resolve.or(times.total.filter(|_| is_dns));
            if resolve.is_some() {
                let name = name_of(row, routes, world);
                add(EvidenceKind::Dns, name, Channel::Dns, resolve, true);
            }
            if !is_dns {
                connection_phases(row, routes, &mut add);
            }
        }
        Channel::Direct => connection_phases(row, routes, &mut add),
        // Probed only on request, so there is no usual latency.
        Channel::Proxied | Channel::NodePort => {}
    }
}

/// Collects the phases from the connection on.
fn connection_phases(
    row: &Row,
    routes: &Routes,
    add: &mut impl FnMut(EvidenceKind, Destination, Channel, Option<Micros>, bool),
) {
    let Some((of, dest)) = row.connection_evidence(routes) else {
        return;
    };
    let channel = if matches!(of, EvidenceKind::Direct(..)) {
        Channel::Direct
    } else {
        row.channel
    };
    add(of, dest, channel, row.times.connect, true);
    add(
        EvidenceKind::Target(row.target),
        dest,
        channel,
        row.times.first_byte,
        false,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(times: impl IntoIterator<Item = u64>) -> UsualLatency {
        let mut usual = UsualLatency::default();
        for ms in times {
            usual.learn(Micros::from_millis(ms), false);
        }
        usual
    }

    #[test]
    fn a_bucket_holds_its_times_and_no_others() {
        for us in (0..40).map(|i| 3_u64.pow(i % 13) + u64::from(i)) {
            let at = bucket(Micros(us));
            assert!(Micros(us) <= Micros(bucket_end(at).0 + 1), "{us}");
            assert!(at == 0 || Micros(us) >= bucket_end(at - 1), "{us}");
        }
    }

    #[test]
    fn a_second_for_a_handshake_is_slow_even_where_nothing_is_known() {
        let unknown = UsualLatency::default();
        assert!(unknown.is_slow(Micros::from_millis(1_003), true));
        assert!(!unknown.is_slow(Micros::from_millis(300), true));
        assert!(!unknown.is_slow(Micros::from_millis(1_003), false));
    }

    #[test]
    fn slow_is_three_times_the_usual_beyond_99_of_100_and_half_a_second_more() {
        let steady = usual([2; 100]);
        assert!(
            !steady.is_slow(Micros::from_millis(400), true),
            "a busy machine adds this much"
        );
        assert!(steady.is_slow(Micros::from_millis(600), true));
        let far = usual([800; 100]);
        assert!(
            !far.is_slow(Micros::from_millis(2_000), true),
            "less than three times the median"
        );
        assert!(far.is_slow(Micros::from_millis(4_000), true));
        let ragged = usual((0..100).map(|i| if i % 20 == 0 { 900 } else { 2 }));
        assert!(
            !ragged.is_slow(Micros::from_millis(700), true),
            "one in twenty took longer"
        );
    }

    #[test]
    fn what_stays_slow_for_an_experience_becomes_usual() {
        let mut usual = usual([2; 720]);
        let slow = Micros::from_millis(1_002);
        assert!(usual.is_slow(slow, true));
        for _ in 0..720 {
            usual.learn(slow, true);
        }
        assert!(!usual.is_slow(slow, true));
    }
}
