//! What the mesh knows of a host beside a challenge's own fetches.

use parallax_diagnosis::{
    topology::Topology,
    view::{CellState, View},
};
use parallax_model::{ChallengeClient, ChallengeProbe, TargetId};

use super::challenge_request::is_on_internet;

/// Maximum number of sentences.
const MAX_SENTENCES: usize = 4;

/// Phases in which a failure is one of the path to the host, not of the application behind it.
const PATH_PHASES: [&str; 3] = ["resolve", "connect", "first-byte"];

/// Returns the targets of a challenge's host that fail on the path for a share of the scheduled probes of a vantage on
/// the internet, as sentences. A CA takes the same path, and its few fetches can pass by luck. Nodes have paths of
/// their own, so their failures say nothing about a CA.
pub(super) fn known_failures(probe: &ChallengeProbe, topology: &Topology, view: &View) -> Vec<String> {
    if probe.client == ChallengeClient::CertManager {
        return Vec::new();
    }
    let of_host = |target: &TargetId| {
        topology
            .targets()
            .get(target)
            .and_then(|placed| placed.target.probe.host())
            .is_some_and(|host| *host == probe.host)
    };
    let rows = view.matrix.iter().filter(|row| of_host(&row.target));
    rows.flat_map(|row| row.cells.iter().map(move |cell| (&row.target, cell)))
        .filter(|(_, cell)| cell.state == CellState::Flaky)
        .filter_map(|(target, cell)| {
            let vantage = &view.vantages.get(cell.vantage)?.vantage;
            let failure = cell.last_failure.as_deref()?;
            let on_path = PATH_PHASES
                .iter()
                .any(|phase| failure.contains(&format!(" in {phase}")));
            (is_on_internet(vantage) && on_path).then(|| {
                format!(
                    "{} of {} probes of {target} from {vantage} failed ({failure})",
                    cell.failures, cell.probes
                )
            })
        })
        .take(MAX_SENTENCES)
        .collect()
}
