//! Delivers the probes of each vantage to the aggregator: the lines of the recording.
//!
//! A prober reports once a second what has finished. A report that is lost is sent again; a vantage whose way to the
//! aggregator is cut keeps its observations until the cure or loses them; a dead node loses them always.

use parallax_diagnosis::replay::{ENGINE_VERSION, RecordClock, RecordLine, RecordProgress, RecordSettings};
use parallax_model::{EventTime, Micros};

use super::{
    super::rng::Rng,
    draw::WholePlan,
    fault::SECOND_US,
    hops::Hop,
    layout::NodeIx,
    record,
    simulate::{Conditions, ROUND_US, SeenProbe, TIMEOUT_US},
    topology,
};

/// Time between two ticks of the aggregator, which close rounds.
const TICK_US: i64 = 500_000;

/// The reports of one prober.
#[derive(Debug)]
struct Spool {
    /// Its probes by the time they finish.
    order: Vec<usize>,
    /// For each place of `order`, the earliest round of the probes from there on.
    earliest_round: Vec<i64>,
    /// Place of the first probe that has not finished.
    next: usize,
    /// Finished and not yet reported, with their numbers.
    waiting: Vec<(usize, u64)>,
    /// Number of restarts.
    life: usize,
    alive: bool,
    seq: u64,
    /// Up to which round boundary everything is reported.
    complete: i64,
}

impl Spool {
    fn new(node: NodeIx, seen: &[SeenProbe]) -> Self {
        let mut order: Vec<usize> = (0..seen.len()).filter(|i| seen[*i].client == node).collect();
        order.sort_by_key(|i| (seen[*i].started + seen[*i].took, *i));
        let mut earliest_round = vec![i64::MAX; order.len() + 1];
        for place in (0..order.len()).rev() {
            earliest_round[place] = earliest_round[place + 1].min(seen[order[place]].round);
        }
        Self {
            order,
            earliest_round,
            next: 0,
            waiting: Vec::new(),
            life: 0,
            alive: true,
            seq: 0,
            complete: 0,
        }
    }

    /// Adds a probe that has not finished yet.
    fn add(&mut self, index: usize, seen: &[SeenProbe]) {
        let end = |i: usize| seen[i].started + seen[i].took;
        let later = self.order[self.next..].iter().position(|i| end(*i) > end(index));
        let place = later.map_or(self.order.len(), |later| self.next + later);
        self.order.insert(place, index);
        let round = seen[index].round;
        self.earliest_round
            .insert(place, self.earliest_round[place].min(round));
        for earliest in &mut self.earliest_round[self.next..place] {
            *earliest = (*earliest).min(round);
        }
    }

    /// Moves what has finished to the reports.
    fn collect(&mut self, now: i64, seen: &[SeenProbe]) {
        while let Some(probe) = self.order.get(self.next).map(|i| &seen[*i]) {
            if probe.started + probe.took > now {
                break;
            }
            self.waiting.push((self.order[self.next], self.seq));
            self.seq += 1;
            self.next += 1;
        }
    }

    /// The node has died: what was not reported is lost, and the next prober counts from 0.
    fn die(&mut self) {
        self.waiting.clear();
        if self.alive {
            self.alive = false;
            self.life += 1;
            self.seq = 0;
        }
    }

    /// Returns the end of the last round of which every probe has finished, if it is a new one.
    fn progress(&mut self, now: i64) -> Option<i64> {
        let round = (now / ROUND_US).min(self.earliest_round[self.next]);
        let complete = round * ROUND_US;
        let advanced = complete > self.complete;
        self.complete = self.complete.max(complete);
        advanced.then_some(complete)
    }
}

/// The reports of all probers, tick by tick.
#[derive(Debug)]
pub struct Delivery<'a> {
    plan: &'a WholePlan,
    seen: &'a mut Vec<SeenProbe>,
    spools: Vec<Spool>,
    now: i64,
}

impl<'a> Delivery<'a> {
    /// Prepares the delivery of probes.
    pub fn new(plan: &'a WholePlan, seen: &'a mut Vec<SeenProbe>) -> Self {
        let nodes = 0..plan.cluster.nodes();
        Self {
            spools: nodes.map(|node| Spool::new(node, seen)).collect(),
            plan,
            seen,
            now: 0,
        }
    }

    /// Returns the lines before the first tick.
    #[must_use]
    pub fn first_lines(&self) -> Vec<String> {
        let mut lines = vec![settings(), topology::line(&self.plan.cluster)];
        lines.extend(advance(self.now));
        lines
    }

    /// Time of the last tick, in microseconds.
    #[must_use]
    pub const fn now(&self) -> i64 {
        self.now
    }

    /// Adds a probe that ends after the last tick.
    pub fn add(&mut self, probe: SeenProbe) {
        let client = probe.client;
        self.seen.push(probe);
        self.spools[client].add(self.seen.len() - 1, self.seen);
    }

    /// Returns the lines of the next tick, and marks what was delivered and when; `None` after the last one.
    pub fn tick(&mut self, rng: &mut Rng) -> Option<Vec<String>> {
        if self.now >= self.plan.rounds * ROUND_US {
            return None;
        }
        self.now += TICK_US;
        let mut lines = Vec::new();
        if self.now % SECOND_US == 0 {
            for node in 0..self.spools.len() {
                self.report(node, &mut lines, rng);
            }
        }
        lines.extend(advance(self.now));
        Some(lines)
    }

    fn report(&mut self, node: NodeIx, lines: &mut Vec<String>, rng: &mut Rng) {
        let (plan, now, spool) = (self.plan, self.now, &mut self.spools[node]);
        spool.collect(now, self.seen);
        if (Conditions { plan }).is_silent(node, now) {
            spool.die();
            return;
        }
        spool.alive = true;
        match way_to_aggregator(plan, node, now, rng) {
            Way::Open => {
                for (index, seq) in std::mem::take(&mut spool.waiting) {
                    self.seen[index].delivered = Some(now);
                    lines.extend(record::line(&plan.cluster, &self.seen[index], spool.life, seq));
                }
                if let Some(complete) = spool.progress(now) {
                    lines.extend(progress(plan, node, complete));
                }
            }
            Way::Cut if !plan.late_delivery => spool.waiting.clear(),
            Way::Cut | Way::Lossy => {}
        }
    }
}

/// Returns the lines of a trial, and marks what was delivered and when.
pub fn lines(plan: &WholePlan, seen: &mut Vec<SeenProbe>, rng: &mut Rng) -> Vec<String> {
    let mut delivery = Delivery::new(plan, seen);
    let mut lines = delivery.first_lines();
    while let Some(new) = delivery.tick(rng) {
        lines.extend(new);
    }
    lines
}

/// The way between a node and the aggregator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Open,
    /// This message is lost; the next one may arrive.
    Lossy,
    Cut,
}

/// Returns what becomes of a message between a node and the aggregator at a time.
pub(super) fn way_to_aggregator(plan: &WholePlan, node: NodeIx, now: i64, rng: &mut Rng) -> Way {
    let hop = Hop::report(&plan.cluster, node);
    let cut = plan
        .faults
        .iter()
        .any(|fault| fault.cuts_reports(&hop, now, &plan.cluster));
    if cut {
        return Way::Cut;
    }
    let conditions = Conditions { plan };
    match conditions.broken(&hop, now, rng) {
        Some(_) => Way::Lossy,
        None => Way::Open,
    }
}

fn settings() -> String {
    let settings = RecordSettings {
        interval: Micros(ROUND_US.unsigned_abs()),
        timeout: Micros(TIMEOUT_US.unsigned_abs()),
        clock: RecordClock::Advance,
        version: None,
        engine: Some(ENGINE_VERSION),
        recording: None,
        segment: 0,
        pseudonyms: false,
    };
    serde_json::to_string(&RecordLine::Settings(&settings)).unwrap_or_default()
}

fn advance(at: i64) -> Option<String> {
    serde_json::to_string(&RecordLine::Advance { at: EventTime(at) }).ok()
}

fn progress(plan: &WholePlan, node: NodeIx, complete: i64) -> Option<String> {
    let progress = RecordProgress {
        vantage: record::vantage(&plan.cluster, node).parse().ok()?,
        complete: EventTime(complete),
    };
    serde_json::to_string(&RecordLine::Progress(&progress)).ok()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            draw,
            fault::{BrokenPart, FailureMode, Fault},
            sets::WholeSet,
            simulate,
        },
        *,
    };

    /// A trial with one fault of a node that is not the aggregator's, from 60 s to 90 s.
    fn trial(late: bool, part: impl Fn(NodeIx, NodeIx) -> BrokenPart) -> (NodeIx, WholePlan, Vec<SeenProbe>) {
        let rng = &mut Rng::from_words(&[6]);
        let mut plan = draw::plan(WholeSet::named("healthy-whole").unwrap(), 0, rng);
        plan.rounds = 30;
        plan.late_delivery = late;
        let hub = plan.cluster.node_of(plan.cluster.aggregator);
        let node = (hub + 1) % 12;
        plan.faults.push(Fault {
            part: part(node, hub),
            theta: 1.0,
            mode: FailureMode::Loss,
            active: vec![(60 * SECOND_US, 90 * SECOND_US)],
        });
        let mut seen = simulate::run(&plan, rng);
        lines(&plan, &mut seen, rng);
        (node, plan, seen)
    }

    fn during(node: NodeIx, seen: &[SeenProbe]) -> Vec<&SeenProbe> {
        // The last of them time out before the cure.
        let inside = 62 * SECOND_US..86 * SECOND_US;
        seen.iter()
            .filter(|probe| probe.client == node && inside.contains(&probe.started))
            .collect()
    }

    #[test]
    fn a_vantage_that_is_cut_off_reports_after_the_cure_or_never() {
        let (node, _, seen) = trial(true, BrokenPart::Pair);
        let held = during(node, &seen);
        assert!(!held.is_empty());
        assert!(held.iter().all(|p| p.delivered >= Some(90 * SECOND_US)));
        let (node, _, seen) = trial(false, BrokenPart::Pair);
        assert!(during(node, &seen).iter().all(|p| p.delivered.is_none()));
        let others = seen.iter().filter(|p| p.client != node);
        assert!(
            others
                .filter(|p| p.started < 140 * SECOND_US)
                .all(|p| p.delivered.is_some())
        );
    }

    #[test]
    fn a_dead_node_does_not_probe_and_comes_back_as_another_prober() {
        let (node, plan, mut seen) = trial(true, |node, _| BrokenPart::Node(node));
        assert!(during(node, &seen).is_empty());
        let lines = lines(&plan, &mut seen, &mut Rng::from_words(&[6]));
        let second = format!("\"prober-{node}.1\",\"seq\":0");
        assert!(lines.iter().any(|line| line.contains(&second)));
    }
}
