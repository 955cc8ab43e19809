//! `parallax preflight`: will the certificate be issued? cert-manager's self check and the CA's validation, asked from every
//! node before there is an order.

mod args;
mod beforehand;
mod cluster;
mod edited;
mod explain;
mod faithful;
mod plan;
mod report;
mod runs;
mod seat;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use parallax_aggregator::preflight::{
    Fetched, Judged, NodeAnswer, Seat, Standing, Wanted, exit_code, key_authorization, token,
};
use serde_json::json;

pub(crate) use args::Args;
pub(crate) use explain::{challenge, is_challenge};

use self::{cluster::Cluster, plan::Planned};
use super::ask::Client;
use crate::{commands::print, exit::Failure};

/// Hosts that are asked for at one time, in the order of the report: each takes two or three runs, and the aggregator makes
/// eight at once for everybody.
const AT_ONCE: usize = 3;

/// One host, judged, with what cert-manager would do for it.
struct Case {
    planned: Planned,
    judged: Judged,
    answers: (Vec<NodeAnswer>, Vec<NodeAnswer>),
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let client = Client::by(&args.way, args.parallax_namespace.as_deref())?;
    super::ask::wait(preflight(args, client))
}

async fn preflight(args: &Args, client: Client) -> Result<(), Failure> {
    let cluster = match Cluster::find(&args.way).await {
        Ok(cluster) => Some(cluster),
        Err(missing) if args.reads_the_cluster() => return Err(missing),
        Err(_) => None,
    };
    let planned = plan::of(args, cluster.as_ref()).await?;
    let seat = match &cluster {
        Some(cluster) => Seat::find(cluster, args.cert_manager_namespace.as_deref()).await,
        None => Seat::nowhere("no cluster is known to this machine (KUBECONFIG)"),
    };
    let mut cases = Vec::new();
    match &cluster {
        Some(cluster) if !args.no_create => {
            faithful::run(args, &client, cluster, &seat, planned, &mut cases).await?;
        }
        _ => {
            let progress = args.progress() && planned.len() == 1;
            let asked = stream::iter(planned).map(async |planned| {
                let wanted = Wanted {
                    token: fresh()?.0,
                    key: None,
                    ..runs::wanted(args, &planned.host, &seat)
                };
                let mut fetched = runs::both(&client, &wanted, progress).await?;
                runs::deeper(&client, &wanted, &mut fetched, progress).await?;
                Ok::<_, Failure>(Case::of(planned, &wanted, fetched, &seat))
            });
            cases = asked.buffered(AT_ONCE).try_collect().await?;
        }
    }
    finish(args, &seat, &cases)
}

/// A token and its key, never used before.
fn fresh() -> Result<(String, String), Failure> {
    let token = token(random()?);
    let key = key_authorization(&token, random()?);
    Ok((token, key))
}

/// Bytes that nobody can guess.
fn random<const N: usize>() -> Result<[u8; N], Failure> {
    use ring::rand::{SecureRandom as _, SystemRandom};
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Failure::CouldNot("the system gives no random numbers".to_owned()))?;
    Ok(bytes)
}

impl Case {
    /// Judges what came back.
    fn of(planned: Planned, wanted: &Wanted, fetched: Fetched, seat: &Seat) -> Self {
        let judged = wanted.judged(&fetched, seat);
        Self {
            planned,
            judged,
            answers: (fetched.self_check.answers, fetched.ca.answers),
        }
    }
}

fn finish(args: &Args, seat: &Seat, cases: &[Case]) -> Result<(), Failure> {
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
                "notChecked": case.judged.not_checked,
                "propagationMs": case.planned.propagation.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            })).collect::<Vec<_>>(),
        });
        let text = serde_json::to_string_pretty(&document).map_err(Failure::could_not)?;
        print(&format!("{text}\n"))?;
    } else {
        print(&report::text(seat, cases, super::style()))?;
    }
    outcome(cases.iter().map(|case| &case.judged), args.strict)
}

/// The exit code, as a result.
fn outcome<'a>(judged: impl IntoIterator<Item = &'a Judged>, strict: bool) -> Result<(), Failure> {
    let judged: Vec<&Judged> = judged.into_iter().collect();
    match exit_code(judged.iter().copied(), strict) {
        0 => Ok(()),
        1 => Err(Failure::No),
        _ => {
            let unknown = judged.iter().find(|judged| {
                [&judged.self_check, &judged.ca]
                    .iter()
                    .any(|v| v.standing == Standing::Unknown)
            });
            Err(Failure::CouldNot(format!(
                "nothing is proved for {}: one of its two verdicts cannot be told",
                unknown.map_or("any host", |judged| judged.host.as_str())
            )))
        }
    }
}
