//! From verdicts to incidents: grouping, suppression, recovery and recurrence.

mod consequences;
mod endpoints;
mod fronts;
mod lasting;
mod lifecycle;
mod nodes;
mod rounds;

use crate::{
    scripted_mesh::{ScriptedMesh, open_sentences, with_outcome},
    simulated_mesh::{INTERVAL, Probe, SimulatedMesh, cluster, refused_without_local},
};
use parallax_diagnosis::{
    ObservationResult,
    verdict::{Incident, IncidentState},
    view::{VantageState, View},
};
use parallax_model::{EventTime, Micros};
use serde_json::json;

type Outcome = Option<(&'static str, &'static str)>;

fn only_incident(view: &View) -> &Incident {
    let [incident] = view.incidents.as_slice() else {
        panic!("one incident, got {:#?}", view.incidents);
    };
    incident
}

fn healthy(_: &Probe) -> Outcome {
    None
}
