//! The closed loop: the simulated world makes the probes that the engine requests in the next round.
//!
//! ```text
//! round of probes ─▶ engine ─▶ next_probe lines ─▶ probes in the next round ─▶ engine …
//! ```

use parallax_diagnosis::replay::Replay;

use super::{
    draw::Plan,
    next_probe::NextProbe,
    region::{ProbeApproach, ProbeClient},
    rng::Rng,
    sets::OutputForm,
    simulate::{INTERVAL_US, SimulatedProbe, SimulatedTrial, Simulation, TIMEOUT_US},
    stream,
    world::SimulatedCluster,
};

/// An engine that reads a recording line by line.
pub trait Reader {
    /// Processes a line and returns the resulting events.
    fn line(&mut self, number: usize, text: &str) -> Vec<String>;
    /// Advances the time to this second of the recording.
    fn advance_to(&mut self, seconds: f64) -> Vec<String>;
    /// Ends the recording.
    fn finish(&mut self) -> Vec<String>;
}

/// The engine of this build.
impl Reader for Replay {
    fn line(&mut self, number: usize, text: &str) -> Vec<String> {
        Self::read_line(self, number, text)
    }

    fn advance_to(&mut self, seconds: f64) -> Vec<String> {
        Self::advance_to(self, seconds)
    }

    fn finish(&mut self) -> Vec<String> {
        Self::finish(self)
    }
}

/// Returns all output of an engine for a complete recording.
pub fn run_recording(reader: &mut dyn Reader, lines: &[String]) -> Vec<String> {
    let mut output: Vec<String> = (1..)
        .zip(lines)
        .flat_map(|(number, line)| reader.line(number, line))
        .collect();
    output.extend(reader.finish());
    output
}

/// A probe requested by the engine.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestedProbe {
    pub(super) client: ProbeClient,
    pub(super) way: ProbeApproach,
    pub(super) pod: Option<usize>,
    pub(super) peer: Option<usize>,
    pub(super) name: Option<usize>,
    pub(super) assignment: String,
    /// A larger echo, or a name over TCP: its result is not evidence.
    pub(super) not_evidence: bool,
}

impl RequestedProbe {
    /// Parses a `next_probe` line; `None` for other lines and for what this world does not have.
    fn parse(line: &str, world: &SimulatedCluster) -> Option<Self> {
        let probe = NextProbe::parse(line)?;
        let node = |name: &str| (0..world.zones.len()).find(|node| world.node_name(*node) == name);
        let way = match probe.channel.as_str() {
            "dns" => ProbeApproach::Dns,
            "vip" => ProbeApproach::Vip,
            "direct" => ProbeApproach::Direct,
            "mesh" => ProbeApproach::Mesh,
            "proxied" => ProbeApproach::Proxied,
            _ => return None,
        };
        let not_evidence = !probe.is_evidence();
        let request = Self {
            client: ProbeClient::Node(node(&probe.node)?),
            way,
            pod: probe
                .backend
                .and_then(|name| world.pods.iter().position(|pod| pod.name == name)),
            peer: probe.dst_node.and_then(|name| node(&name)),
            name: probe
                .name
                .and_then(|queried| world.names.iter().position(|name| *name == queried)),
            not_evidence,
            assignment: probe.assignment,
        };
        let whole = match way {
            ProbeApproach::Dns => request.name.is_some(),
            ProbeApproach::Direct => request.pod.is_some(),
            ProbeApproach::Mesh => request.peer.is_some_and(|peer| world.probers[peer]),
            ProbeApproach::Vip | ProbeApproach::Proxied => true,
        };
        whole.then_some(request)
    }
}

/// Result of a trial in which requested probes were made.
#[derive(Debug)]
pub struct AnsweredTrial {
    /// The trial, including requested probes.
    pub run: SimulatedTrial,
    /// Output of the engine.
    pub output: Vec<String>,
    /// Maximum number of requested probes in one round, and the scheduled probes of that round.
    pub busiest_round: (usize, usize),
}

/// Runs a trial with an engine, round by round.
pub fn run(plan: Plan, trial: usize, rng: &mut Rng, reader: &mut dyn Reader) -> AnsweredTrial {
    let mut simulation = Simulation::new(plan, rng);
    let (mut output, mut asks, mut busiest) = (Vec::new(), Vec::new(), (0, 0));
    let (mut number, mut epoch) = (0, 0);
    let mut feed = |reader: &mut dyn Reader, line: &str| {
        number += 1;
        reader.line(number, line)
    };
    output.extend(feed(reader, &stream::first_line(&simulation.plan.world, trial)));
    for round in 0..simulation.plan.rounds {
        let mut shots: Vec<SimulatedProbe> = simulation.round(round);
        let base = shots.len();
        let requested = simulation.make_requested_probes(round, &asks);
        if requested.len() > busiest.0 {
            busiest = (requested.len(), base);
        }
        shots.extend(requested);
        shots.sort_by_key(|shot| (shot.at_us, shot.path.client));
        let mut answers = Vec::new();
        for line in stream::probe_lines(&simulation.plan.world, trial, &shots, &mut epoch) {
            answers.extend(feed(reader, &line));
        }
        answers.extend(reader.advance_to(judgement_time(round)));
        asks = answers
            .iter()
            .filter_map(|line| RequestedProbe::parse(line, &simulation.plan.world))
            .collect();
        output.extend(answers);
    }
    output.extend(feed(reader, &stream::last_line(trial)));
    output.extend(reader.finish());
    AnsweredTrial {
        run: simulation.into_trial(OutputForm::Stream),
        output,
        busiest_round: busiest,
    }
}

/// Returns the time in seconds when the last probe of a round has timed out and the round is judged.
fn judgement_time(round: usize) -> f64 {
    let end = (i64::try_from(round).unwrap_or(0) + 1) * INTERVAL_US / 1000;
    let patience = i64::try_from(TIMEOUT_US / 1000).unwrap_or(0) + 1000;
    f64::from(i32::try_from(end + patience).unwrap_or(i32::MAX)) / 1000.0
}
