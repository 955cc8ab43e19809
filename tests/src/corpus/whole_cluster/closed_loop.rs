//! The closed loop: the probers of the trial make the probes that the engine requests.
//!
//! ```text
//! tick of reports ─▶ engine ─▶ next_probe lines ─▶ probes ─▶ later reports ─▶ engine …
//! ```

use super::{
    super::{closed_loop::Reader, rng::Rng},
    WholeTrial,
    delivery::{Delivery, Way, way_to_aggregator},
    draw::WholePlan,
    requested_probe::RequestedProbe,
    simulate::{self, Conditions, ROUND_US},
};

/// Time from a request to its probe: the prober polls for requests.
const REQUEST_DELAY_US: i64 = 300_000;
/// Time between two requested probes of the same tick.
const REQUEST_SPACING_US: i64 = 10_000;

/// Runs a trial with an engine; returns it with the requested probes, and the output of the engine.
pub fn run(plan: WholePlan, rng: &mut Rng, reader: &mut dyn Reader) -> (WholeTrial, Vec<String>) {
    let mut seen = simulate::run(&plan, rng);
    // The scheduled probes and their reports are the same with and without the requested ones.
    let mut requested_rng = rng.clone();
    let mut delivery = Delivery::new(&plan, &mut seen);
    let (mut lines, mut output) = (Vec::new(), Vec::new());
    let mut new = delivery.first_lines();
    loop {
        let mut answers = Vec::new();
        for line in &new {
            answers.extend(reader.line(lines.len() + 1, line));
            lines.push(line.clone());
        }
        let requests = answers
            .iter()
            .filter_map(|line| RequestedProbe::parse(line, &plan.cluster));
        for (place, request) in (0..).zip(requests) {
            let started = delivery.now() + REQUEST_DELAY_US + place * REQUEST_SPACING_US;
            answer(&plan, &mut delivery, request, started, &mut requested_rng);
        }
        output.extend(answers);
        match delivery.tick(rng) {
            Some(next) => new = next,
            None => break,
        }
    }
    output.extend(reader.finish());
    let failures = simulate::delivered_failures(&plan, &seen);
    (
        WholeTrial {
            plan,
            lines,
            failures,
        },
        output,
    )
}

/// Makes a requested probe, unless its prober does not run or does not receive the request.
fn answer(
    plan: &WholePlan,
    delivery: &mut Delivery<'_>,
    request: RequestedProbe,
    started: i64,
    rng: &mut Rng,
) {
    let conditions = Conditions { plan };
    let client = request.client;
    if conditions.is_silent(client, started) || way_to_aggregator(plan, client, started, rng) != Way::Open {
        return;
    }
    let round = started / ROUND_US;
    let mut probe = simulate::make(conditions, client, request.probe, round, started, rng);
    probe.requested = Some(request.assignment);
    delivery.add(probe);
}

#[cfg(test)]
mod tests {
    use parallax_diagnosis::replay::Replay;

    use super::super::{answered_trial, sets::WholeSet, trial};

    #[test]
    fn requested_probes_are_made_and_the_scheduled_ones_stay_the_same() {
        let set = WholeSet::named("shadow").unwrap();
        let open = trial(set, 1, 0);
        let (closed, output) = answered_trial(set, 1, 0, &mut Replay::default());
        let made = |line: &&String| line.contains("\"assignment\":\"ask|");
        let requested = closed.lines.iter().filter(made).count();
        assert!(
            requested > 0 && output.iter().filter(|line| line.contains("next_probe")).count() >= requested
        );
        let started = |lines: &[String]| {
            let scheduled = lines
                .iter()
                .filter(|line| line.contains("observation") && !made(line));
            let mut started: Vec<(String, i64)> = scheduled
                .map(|line| {
                    let line: serde_json::Value = serde_json::from_str(line).unwrap();
                    (line["vantage"].to_string(), line["t_us"].as_i64().unwrap())
                })
                .collect();
            started.sort();
            started
        };
        assert_eq!(started(&closed.lines), started(&open.lines));
    }
}
