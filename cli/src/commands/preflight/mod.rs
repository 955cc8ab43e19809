//! `parallax preflight`: tests cert-manager's self check and the CA's validation from every node before an order is
//! placed.

mod args;
mod cluster;
mod controller;
mod edit_in_place;
mod error;
mod explain;
mod leftovers;
mod names;
mod permission;
mod placement;
mod plan;
mod report;
mod runs;
mod solver_run;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use parallax_api::preflight::CheckState;
use parallax_preflight::{
    CertManagerPlacement, FetchRequest, FetchResult, HostVerdict, NameAnswer, PreflightOwner, VantageAnswer,
    exit_code, key_authorization, token,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

pub(crate) use args::Args;
pub(crate) use explain::{challenge, is_challenge};

use self::{
    args::{PreflightAction, Request},
    cluster::ClusterClient,
    error::{NoVerdict, NoVerdictReason},
    plan::PlannedName,
};
use super::query::ApiClient;
use crate::{
    commands::{print, stop_on_signal},
    exit::Failure,
};

/// The maximum number of concurrent hosts, reported in their order. Each host takes three or four runs, and the
/// aggregator makes eight at once for all users.
const AT_ONCE: usize = 3;

/// A judged host, with the route that cert-manager would create.
struct JudgedHost {
    planned: PlannedName,
    judged: HostVerdict,
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
    tell: &'a dyn Fn(&str),
    /// Whether to show progress.
    progress: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(PreflightAction::Controller(own)) = &args.instead {
        return super::query::wait(controller::run(own, &args.way));
    }
    let namespace = args.asked.setting.parallax_namespace.as_deref();
    let client = ApiClient::by(&args.way, namespace)?;
    super::query::wait(preflight(args, client))
}

async fn preflight(args: &Args, client: ApiClient) -> Result<(), Failure> {
    let cluster = match ClusterClient::find(&args.way).await {
        Ok(cluster) => Some(cluster),
        Err(missing) if args.asked.reads_the_cluster() => return Err(missing),
        Err(_) => None,
    };
    let stop = stop_on_signal()?;
    let place = PreflightContext {
        client: &client,
        cluster: cluster.as_ref(),
        owner: None,
        stop: &stop,
        tell: &|said| eprintln!("{said}"),
        progress: args.progress(),
    };
    let (seat, cases) = cases(&args.asked, &place).await?;
    finish(args, &seat, &cases)
}

/// Makes the requested preflights; shared by the command and the controller.
async fn cases(
    asked: &Request,
    place: &PreflightContext<'_>,
) -> Result<(CertManagerPlacement, Vec<JudgedHost>), NoVerdict> {
    let planned = plan::of(asked, place.cluster).await?;
    let seat = match place.cluster {
        Some(cluster) => {
            CertManagerPlacement::find(cluster, asked.setting.cert_manager_namespace.as_deref()).await
        }
        None => CertManagerPlacement::nowhere("no kubeconfig of a cluster was found (KUBECONFIG)"),
    };
    let cases = match place.cluster {
        Some(cluster) if !asked.no_create => solver_run::run(asked, place, cluster, &seat, planned).await?,
        _ => {
            let looking = look(asked, place, &seat, planned);
            let Some(looked) = place.stop.run_until_cancelled(looking).await else {
                return Err(solver_run::interrupted());
            };
            looked?
        }
    };
    Ok((seat, cases))
}

/// Tests the existing path and creates nothing.
async fn look(
    asked: &Request,
    place: &PreflightContext<'_>,
    seat: &CertManagerPlacement,
    planned: Vec<PlannedName>,
) -> Result<Vec<JudgedHost>, NoVerdict> {
    let progress = place.progress && planned.len() == 1;
    let asking = stream::iter(planned).map(async |planned| {
        let wanted = FetchRequest {
            token: fresh()?.0,
            key: None,
            ..runs::wanted(asked, &planned, seat)
        };
        let fetched = runs::whole(place.client, &wanted, progress)
            .await
            .map_err(NoVerdict::of_the_aggregator)?;
        Ok::<_, NoVerdict>(JudgedHost::of(planned, &wanted, fetched, seat))
    });
    asking.buffered(AT_ONCE).try_collect().await
}

/// Returns a new token and its key authorization.
fn fresh() -> Result<(String, String), NoVerdict> {
    let token = token(random()?);
    let key = key_authorization(&token, random()?);
    Ok((token, key))
}

/// Returns cryptographically secure random bytes.
fn random<const N: usize>() -> Result<[u8; N], NoVerdict> {
    use ring::rand::{SecureRandom as _, SystemRandom};
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| {
        NoVerdictReason::NoRandomness.could_not("the system supplies no random numbers".to_owned())
    })?;
    Ok(bytes)
}

impl JudgedHost {
    /// Judges the results.
    fn of(
        planned: PlannedName,
        wanted: &FetchRequest,
        fetched: FetchResult,
        seat: &CertManagerPlacement,
    ) -> Self {
        let judged = wanted.judged(&fetched, seat);
        Self {
            planned,
            judged,
            answers: (fetched.self_check.answers, fetched.ca.answers),
            runs: fetched.runs,
            names: fetched.names,
        }
    }
}

fn finish(args: &Args, seat: &CertManagerPlacement, cases: &[JudgedHost]) -> Result<(), Failure> {
    if args.json {
        let document = json!({
            "at": Timestamp::now().to_string(),
            "certManager": seat.document(),
            "hosts": cases.iter().map(|case| json!({
                "host": case.judged.host,
                "solver": case.planned.words(),
                "selfCheck": case.judged.self_check,
                "ca": case.judged.ca,
                "selfCheckAnswers": case.answers.0,
                "caAnswers": case.answers.1,
                "names": case.names.found(),
                "notChecked": case.judged.not_checked,
                "propagationMs": case.planned.propagation.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            })).collect::<Vec<_>>(),
        });
        let text = serde_json::to_string_pretty(&document).map_err(Failure::could_not)?;
        print(&format!("{text}\n"))?;
    } else {
        print(&report::text(seat, cases, super::color()))?;
    }
    outcome(cases.iter().map(|case| &case.judged), args.asked.strict)
}

/// Converts the exit code into a result.
fn outcome<'a>(judged: impl IntoIterator<Item = &'a HostVerdict>, strict: bool) -> Result<(), Failure> {
    let judged: Vec<&HostVerdict> = judged.into_iter().collect();
    match exit_code(judged.iter().copied(), strict) {
        0 => Ok(()),
        1 => Err(Failure::No),
        _ => {
            let unknown = judged.iter().find(|judged| {
                [&judged.self_check, &judged.ca]
                    .iter()
                    .any(|v| v.standing == CheckState::Unknown)
            });
            Err(Failure::CouldNot(format!(
                "no result for {}: one of its two verdicts is unknown",
                unknown.map_or("any host", |judged| judged.host.as_str())
            )))
        }
    }
}
