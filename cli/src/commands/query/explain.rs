//! `parallax explain`: shows everything known about an incident.

use std::fmt::Write as _;

use parallax_api::challenges::ChallengeList;
use parallax_diagnosis::{
    verdict::{Incident, IncidentState},
    view::View,
};
use serde_json::Value;

use super::{ApiClient, Output, ServerArgs, block_on, challenges};
use crate::{
    commands::{color, preflight, print},
    exit::Failure,
};

/// Show sentence, evidence, what was ruled out, and remedies.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Incident id, or challenge/NAMESPACE/NAME for a pending cert-manager Challenge [default: all open incidents and
    /// pending Challenges].
    #[arg(value_name = "INCIDENT")]
    id: Option<String>,
    /// Output format: json or yaml.
    #[arg(short, long, value_enum)]
    output: Option<Output>,
    /// Namespace of cert-manager, for a Challenge [default: found by the labels of its Deployment and its Lease].
    #[arg(long, value_name = "NAMESPACE")]
    cert_manager_namespace: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let client = ApiClient::new(&args.server)?;
    if let Some(id) = args.id.as_deref().filter(|id| preflight::is_challenge(id)) {
        let cert_manager = args.cert_manager_namespace.as_deref();
        return block_on(preflight::explain_challenge(
            &client,
            &args.server.connection,
            id,
            cert_manager,
            args.output,
        ));
    }
    let (view, found, waiting): (Value, Vec<Value>, ChallengeList) = block_on(async {
        let view: Value = client.get(&["v1", "state"], &[]).await?;
        let found = if let Some(id) = &args.id {
            vec![client.get(&["v1", "incidents", id], &[]).await?]
        } else {
            let all = view["incidents"].as_array().cloned().unwrap_or_default();
            all.into_iter()
                .filter(|incident| incident["state"] != "closed")
                .collect()
        };
        let waiting = if args.id.is_none() && args.output.is_none() {
            challenges::fetch(&client).await?
        } else {
            challenges::empty()
        };
        Ok((view, found, waiting))
    })?;
    if Output::print_document(args.output, &found)? {
        return Ok(());
    }
    let view: View = serde_json::from_value(view).map_err(Failure::indeterminate)?;
    let style = color();
    let mut out = String::new();
    for incident in found {
        let incident: Incident = serde_json::from_value(incident).map_err(|error| {
            Failure::Indeterminate(format!(
                "cannot parse this incident, which another version wrote ({error}); -o json shows it unparsed"
            ))
        })?;
        let until = match incident.state {
            IncidentState::Closed { closed } => closed,
            IncidentState::Open | IncidentState::Recovering => view.at,
        };
        let _ = writeln!(out, "{}", incident.id);
        out.push_str(&parallax_terminal::incident(&incident, until, style));
        out.push('\n');
    }
    if args.id.is_none() {
        if out.is_empty() {
            out.push_str("No incident is open.\n");
        }
        out.push_str(&challenges::render_pending(&waiting, style));
        out.push_str(&parallax_terminal::findings(&view, style));
    }
    print(&out)
}
