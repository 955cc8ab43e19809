//! Judges the incidents of a trial over its whole time.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{
    WholeTrial,
    draw::WholePlan,
    fault::SECOND_US,
    named::{NamedRegion, names_fault},
};

/// A `verdict` line.
#[derive(Debug, Clone, Deserialize)]
struct VerdictLine {
    t: f64,
    id: String,
    subject: Value,
    region: String,
    members: Vec<String>,
    probability: f64,
    class: Vec<(String, Vec<String>)>,
    closed_t: Option<f64>,
}

/// One incident of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredIncident {
    /// The fault that it last named, if any.
    pub fault: Option<usize>,
    /// When it was named first, in seconds.
    pub first: f64,
    /// When it first named its fault.
    pub right_since: Option<f64>,
    /// Number of times that it was opened.
    pub openings: u32,
    /// Whether it was open at the end.
    pub open: bool,
    /// When it was closed last, in seconds.
    pub closed: Option<f64>,
    /// Probability of the last naming.
    pub probability: f64,
    /// The last naming, for a person.
    pub description: String,
}

/// The incidents of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialScore {
    /// Faults that were injected.
    pub faults: Vec<FaultScore>,
    /// All incidents, by first naming.
    pub incidents: Vec<ScoredIncident>,
}

/// What became of one fault.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultScore {
    /// Its region, for a person.
    pub description: String,
    /// Kind, for grouping.
    pub kind: &'static str,
    /// Its failures that were reported before it ended.
    pub failures: usize,
    /// Seconds from its start until it was named rightly.
    pub named_after: Option<f64>,
    /// Incidents that name it.
    pub incidents: usize,
    /// Times that these were opened.
    pub openings: u32,
}

/// Failures without which no fault is named.
const MIN_FAILURES: usize = 3;

impl FaultScore {
    /// Reports whether the reports show the fault at all: another one may hide it, such as a dead node its broken service rules.
    #[must_use]
    pub const fn is_observable(&self) -> bool {
        self.failures >= MIN_FAILURES || self.named_after.is_some()
    }
}

impl TrialScore {
    /// Returns the incidents that name no fault.
    pub fn foreign(&self) -> impl Iterator<Item = &ScoredIncident> {
        self.incidents.iter().filter(|incident| incident.fault.is_none())
    }
}

/// Judges the output of an engine for a trial.
#[must_use]
pub fn score(trial: &WholeTrial, output: &[String]) -> TrialScore {
    let plan = &trial.plan;
    let mut incidents: BTreeMap<String, ScoredIncident> = BTreeMap::new();
    for line in output {
        let Ok(verdict) = serde_json::from_str::<VerdictLine>(line) else {
            continue;
        };
        apply(plan, verdict, &mut incidents);
    }
    let mut incidents: Vec<ScoredIncident> = incidents.into_values().collect();
    incidents.sort_by(|a, b| {
        a.first
            .total_cmp(&b.first)
            .then_with(|| a.description.cmp(&b.description))
    });
    let faults = plan.faults.iter().enumerate().map(|(index, fault)| {
        let of_fault: Vec<&ScoredIncident> = incidents
            .iter()
            .filter(|incident| incident.fault == Some(index))
            .collect();
        let right = of_fault.iter().filter_map(|incident| incident.right_since);
        FaultScore {
            description: fault.part.describe(&plan.cluster),
            kind: fault.part.kind().word(),
            failures: trial.failures[index],
            named_after: right.map(|at| at - seconds(fault.start())).min_by(f64::total_cmp),
            incidents: of_fault.len(),
            openings: of_fault.iter().map(|incident| incident.openings).sum(),
        }
    });
    TrialScore {
        faults: faults.collect(),
        incidents,
    }
}

fn apply(plan: &WholePlan, verdict: VerdictLine, incidents: &mut BTreeMap<String, ScoredIncident>) {
    let subject = verdict.subject["name"].as_str().unwrap_or_default();
    let regions: Vec<NamedRegion> = std::iter::once((verdict.region.clone(), verdict.members.clone()))
        .chain(verdict.class)
        .map(|(region, members)| NamedRegion { region, members })
        .collect();
    // A fault that has not begun cannot be the cause.
    let fault = plan.faults.iter().position(|fault| {
        seconds(fault.start()) <= verdict.t && names_fault(&fault.part, &regions, subject, &plan.cluster)
    });
    let incident = incidents.entry(verdict.id).or_insert_with(|| ScoredIncident {
        fault: None,
        first: verdict.t,
        right_since: None,
        openings: 0,
        open: false,
        closed: None,
        probability: 0.0,
        description: String::new(),
    });
    if verdict.closed_t.is_some() {
        incident.open = false;
        incident.closed = verdict.closed_t;
        return;
    }
    incident.openings += u32::from(!incident.open);
    incident.open = true;
    incident.fault = fault;
    if fault.is_some() {
        incident.right_since = incident.right_since.or(Some(verdict.t));
    }
    incident.probability = verdict.probability;
    incident.description = format!("{} {} of {subject:?}", verdict.region, verdict.members.join(","));
}

/// Converts microseconds to seconds.
#[expect(clippy::cast_precision_loss, reason = "trials last minutes")]
fn seconds(us: i64) -> f64 {
    us as f64 / SECOND_US as f64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        super::{super::rng::Rng, draw, fault::BrokenPart, sets::WholeSet},
        *,
    };

    fn verdict(t: f64, id: &str, region: &str, members: &[&str], closed: Option<f64>) -> String {
        json!({"type": "verdict", "t": t, "id": id, "subject": {"type": "network"}, "region": region, "members": members,
            "probability": 0.99, "class": [[region, members]], "causes": [], "closed_t": closed})
        .to_string()
    }

    #[test]
    fn incidents_are_counted_by_fault_with_their_openings() {
        let rng = &mut Rng::from_words(&[6]);
        let mut plan = draw::plan(WholeSet::named("partition").unwrap(), 1, rng);
        plan.faults[0].part = BrokenPart::Pair(1, 2);
        let start = seconds(plan.faults[0].start());
        let output = [
            verdict(start - 5.0, "early", "pair", &["n01", "n02"], None),
            verdict(start + 10.0, "a", "bnode", &["n02"], None),
            verdict(start + 20.0, "a", "pair", &["n01", "n02"], None),
            verdict(start + 60.0, "a", "pair", &["n01", "n02"], Some(start + 60.0)),
            verdict(start + 70.0, "a", "pair", &["n01", "n02"], None),
            verdict(start + 70.0, "b", "bnode", &["n02"], None),
        ];
        let trial = WholeTrial {
            plan,
            lines: Vec::new(),
            failures: vec![2],
        };
        let score = score(&trial, &output);
        assert!(score.faults[0].is_observable(), "it was named");
        assert_eq!(score.faults[0].incidents, 1);
        assert_eq!(score.faults[0].openings, 2);
        assert_eq!(score.faults[0].named_after, Some(20.0));
        assert_eq!(score.foreign().count(), 2);
    }
}
