//! The result that decided a verdict. Reported only if the cause would not have been named without the requested
//! probes.

use crate::{
    evidence::{
        cells::{CellCounts, CellKey, Destination, RoundCells},
        weights::{to_probes, to_whole_probes},
    },
    ids::NameRegistry,
    inference::{
        judgement::{ExplainedRegion, Judgement},
        likelihood::failure_probability,
    },
    regions::{Region, share::alpha},
};

/// Rates of a hard fault with a quiet background. Used to compare results, not to judge.
const BROKEN_RATE: f64 = 0.9;
const BACKGROUND_RATE: f64 = 0.005;

/// Describes the result with the highest likelihood ratio between the named region and its rival. `without` is the
/// judgement of the same window without the requested probes.
pub(crate) fn deciding_result(
    judgement: &Judgement,
    finding: &ExplainedRegion,
    without: Option<&Judgement>,
    requested_cells: &RoundCells,
    world: &NameRegistry,
) -> Option<String> {
    let matching = without.and_then(|w| {
        w.findings
            .iter()
            .find(|f| f.class.contains(&finding.region) || finding.class.contains(&f.region))
    });
    if matching.is_some_and(|f| f.is_verdict && f.class.len() <= finding.class.len()) {
        return None;
    }
    let rival = leading_alternative(finding, without);
    let paths = &judgement.input.paths;
    let others: Vec<Region> = judgement
        .findings
        .iter()
        .map(|f| f.region)
        .filter(|r| *r != finding.region)
        .collect();
    let fails = |region: Region, key: &CellKey| {
        let mut regions = others.clone();
        regions.push(region);
        failure_probability(alpha(&regions, key, paths).as_f64(), BROKEN_RATE, BACKGROUND_RATE)
    };
    let weight = |key: &CellKey, counts: &CellCounts| {
        let (named, other) = (fails(finding.region, key), fails(rival, key));
        let (f, s) = (
            to_probes(counts.failures),
            to_probes(counts.probes - counts.failures),
        );
        f * libm::log(named / other) + s * libm::log((1.0 - named) / (1.0 - other))
    };
    let strongest = requested_cells
        .iter()
        .map(|(key, counts)| (weight(key, counts), key, counts))
        .filter(|(weight, ..)| *weight > 0.0)
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(a.1)))?;
    let (_, key, counts) = strongest;
    let conclusion = if rival == Region::Healthy {
        "chance ruled out".to_owned()
    } else {
        format!("{} ruled out", rival.describe(world).description())
    };
    Some(format!(
        "follow-up probe {}: {} → {conclusion}",
        path_text(key, world),
        result_text(counts)
    ))
}

/// Returns the leading alternative to the named region in the judgement without the requested probes.
fn leading_alternative(finding: &ExplainedRegion, without: Option<&Judgement>) -> Region {
    let Some(without) = without else {
        return Region::Healthy;
    };
    let tied = without
        .findings
        .iter()
        .find(|f| f.class.contains(&finding.region))
        .and_then(|f| f.class.iter().find(|r| !finding.class.contains(r)));
    if let Some(region) = tied {
        return *region;
    }
    let posterior = &without.posterior;
    posterior
        .classes
        .iter()
        .filter_map(|class| class.members.first())
        .map(|i| posterior.scored[*i].region)
        .find(|region| {
            !finding.class.contains(region)
                && !without
                    .findings
                    .iter()
                    .any(|f| f.is_verdict && f.region == *region)
        })
        .unwrap_or(Region::Healthy)
}

fn path_text(key: &CellKey, world: &NameRegistry) -> String {
    let from = world.vantages.name(key.client);
    let from = from.node().map_or_else(|| from.to_string(), ToString::to_string);
    let to = match key.dest {
        Destination::Unknown => String::new(),
        Destination::Entry(pod) => format!(" to {}", world.pods.name(pod)),
        Destination::Peer(node) => format!(" to {}", world.nodes.name(node)),
        Destination::Name(name) | Destination::Lookup(name) => format!(" for {}", world.names.name(name)),
    };
    format!("{} from {from}{to}", key.channel)
}

fn result_text(counts: &CellCounts) -> String {
    let (all, failed) = (
        to_whole_probes(counts.unweighted_probes),
        to_whole_probes(counts.unweighted_failures),
    );
    match (all, failed) {
        (0 | 1, 0) => "passes".to_owned(),
        (0 | 1, _) => "fails".to_owned(),
        (n, 0) => format!("passes {n} of {n}"),
        (n, f) => format!("fails {f} of {n}"),
    }
}
