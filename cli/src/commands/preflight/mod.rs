//! `parallax preflight`: tests cert-manager's self check and the CA's validation from every node before an order is
//! placed.

mod admission;
mod args;
mod cleanup;
mod cluster;
mod controller;
mod edit_in_place;
mod error;
mod explain;
mod names;
mod placement;
mod report;
mod route_plan;
mod runs;
mod solver_run;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use parallax_api::preflight::CheckState;
use parallax_preflight::{
    CertManagerPlacement, FetchRequest, FetchResult, HostVerdict, NameAnswer, PreflightOwner, VantageAnswer,
    encode_key_authorization, encode_token, exit_code,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

pub(crate) use args::Args;
pub(crate) use explain::{explain_challenge, is_challenge};

use self::{
    args::{PreflightAction, Request},
    cluster::ClusterClient,
    error::{NoVerdict, NoVerdictReason},
    route_plan::PlannedName,
};
use super::query::ApiClient;
use crate::{
    commands::{print, stop_on_signal},
    exit::Failure,
};

/// The maximum number of concurrent hosts, reported in their order. Each host takes three or four runs, and the
/// aggregator makes eight at once for all users.
const MAX_CONCURRENT_HOSTS: usize = 3;

/// A judged host, with the route that cert-manager would create.
struct JudgedHost {
    planned: PlannedName,
    verdict: HostVerdict,
    answers: (Vec<VantageAnswer>, Vec<VantageAnswer>),
    names: NameAnswer,
    /// The ids of the runs.
    runs: Vec<String>,
}

/// The environment of a preflight.
struct PreflightContext<'a> {
    client: &'a ApiClient,
    cluster: Option<&'a ClusterClient>,
    /// The Preflight object that requested it and owns all created objects.
    owner: Option<&'a PreflightOwner>,
    stop: &'a CancellationToken,
    /// Receives progress messages.
    notify: &'a dyn Fn(&str),
    /// Whether to show progress.
    progress: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(PreflightAction::Controller(own)) = &args.action {
        return super::query::block_on(controller::run(own, &args.connection));
    }
    let namespace = args.request.settings.parallax_namespace.as_deref();
    let client = ApiClient::connect(&args.connection, namespace)?;
    super::query::block_on(preflight(args, client))
}

async fn preflight(args: &Args, client: ApiClient) -> Result<(), Failure> {
    let cluster = match ClusterClient::connect(&args.connection).await {
        Ok(cluster) => Some(cluster),
        Err(missing) if args.request.requires_cluster() => return Err(missing),
        Err(_) => None,
    };
    let stop = stop_on_signal()?;
    let place = PreflightContext {
        client: &client,
        cluster: cluster.as_ref(),
        owner: None,
        stop: &stop,
        notify: &|message| eprintln!("{message}"),
        progress: args.shows_progress(),
    };
    let (placement, cases) = make_preflights(&args.request, &place).await?;
    print_report(args, &placement, &cases)
}

/// Makes the requested preflights; shared by the command and the controller.
async fn make_preflights(
    request: &Request,
    context: &PreflightContext<'_>,
) -> Result<(CertManagerPlacement, Vec<JudgedHost>), NoVerdict> {
    let planned = route_plan::plan_names(request, context.cluster).await?;
    let placement = match context.cluster {
        Some(cluster) => {
            CertManagerPlacement::locate(cluster, request.settings.cert_manager_namespace.as_deref()).await
        }
        None => CertManagerPlacement::unknown("no kubeconfig of a cluster was found (KUBECONFIG)"),
    };
    let cases = match context.cluster {
        Some(cluster) if !request.no_create => {
            solver_run::preflight_all(request, context, cluster, &placement, planned).await?
        }
        _ => {
            let looking = test_existing_path(request, context, &placement, planned);
            let Some(looked) = context.stop.run_until_cancelled(looking).await else {
                return Err(solver_run::interrupted());
            };
            looked?
        }
    };
    Ok((placement, cases))
}

/// Tests the existing path and creates nothing.
async fn test_existing_path(
    request: &Request,
    context: &PreflightContext<'_>,
    placement: &CertManagerPlacement,
    planned: Vec<PlannedName>,
) -> Result<Vec<JudgedHost>, NoVerdict> {
    let progress = context.progress && planned.len() == 1;
    let asking = stream::iter(planned).map(async |planned| {
        let wanted = FetchRequest {
            token: new_token()?.0,
            key: None,
            ..runs::fetch_request(request, &planned, placement)
        };
        let fetched = runs::run_all(context.client, &wanted, progress)
            .await
            .map_err(NoVerdict::from_aggregator)?;
        Ok::<_, NoVerdict>(JudgedHost::judge(planned, &wanted, fetched, placement))
    });
    asking.buffered(MAX_CONCURRENT_HOSTS).try_collect().await
}

/// Returns a new token and its key authorization.
fn new_token() -> Result<(String, String), NoVerdict> {
    let token = encode_token(random_bytes()?);
    let key = encode_key_authorization(&token, random_bytes()?);
    Ok((token, key))
}

/// Returns cryptographically secure random bytes.
fn random_bytes<const N: usize>() -> Result<[u8; N], NoVerdict> {
    use ring::rand::{SecureRandom as _, SystemRandom};
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| {
        NoVerdictReason::NoRandomness.indeterminate("the system supplies no random numbers".to_owned())
    })?;
    Ok(bytes)
}

impl JudgedHost {
    /// Judges the results.
    fn judge(
        planned: PlannedName,
        fetch_request: &FetchRequest,
        fetched: FetchResult,
        placement: &CertManagerPlacement,
    ) -> Self {
        let judged = fetch_request.judge(&fetched, placement);
        Self {
            planned,
            verdict: judged,
            answers: (fetched.self_check.answers, fetched.ca.answers),
            runs: fetched.runs,
            names: fetched.names,
        }
    }
}

fn print_report(args: &Args, placement: &CertManagerPlacement, cases: &[JudgedHost]) -> Result<(), Failure> {
    if args.json {
        let document = json!({
            "at": Timestamp::now().to_string(),
            "certManager": placement.to_json(),
            "hosts": cases.iter().map(|case| json!({
                "host": case.verdict.host,
                "solver": case.planned.description(),
                "selfCheck": case.verdict.self_check,
                "ca": case.verdict.ca,
                "selfCheckAnswers": case.answers.0,
                "caAnswers": case.answers.1,
                "names": case.names.facts(),
                "notChecked": case.verdict.not_checked,
                "propagationMs": case.planned.propagation.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            })).collect::<Vec<_>>(),
        });
        let text = serde_json::to_string_pretty(&document).map_err(Failure::indeterminate)?;
        print(&format!("{text}\n"))?;
    } else {
        print(&report::render(placement, cases, super::color()))?;
    }
    exit_result(cases.iter().map(|case| &case.verdict), args.request.strict)
}

/// Converts the exit code into a result.
fn exit_result<'a>(judged: impl IntoIterator<Item = &'a HostVerdict>, strict: bool) -> Result<(), Failure> {
    let judged: Vec<&HostVerdict> = judged.into_iter().collect();
    match exit_code(judged.iter().copied(), strict) {
        0 => Ok(()),
        1 => Err(Failure::Negative),
        _ => {
            let unknown = judged.iter().find(|judged| {
                [&judged.self_check, &judged.ca]
                    .iter()
                    .any(|v| v.state == CheckState::Unknown)
            });
            Err(Failure::Indeterminate(format!(
                "no result for {}: one of its two verdicts is unknown",
                unknown.map_or("any host", |judged| judged.host.as_str())
            )))
        }
    }
}
