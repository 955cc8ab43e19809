//! `parallax preflight`: will the certificate be issued? cert-manager's self check and the CA's validation, asked from every
//! node before there is an order.

mod allowed;
mod args;
mod cluster;
mod controller;
mod explain;
mod faithful;
mod leftovers;
mod names;
mod plan;
mod report;
mod runs;
mod seat;
mod trouble;

use jiff::Timestamp;
use parallax_aggregator::preflight::{
    Asked, Check, Judged, NodeAnswer, Owner, Standing, exit_code, judge, key_authorization, token,
};
use parallax_model::{ChallengeClient, HostName};
use serde_json::json;

pub(crate) use args::Args;
pub(crate) use explain::{challenge, is_challenge};

use tokio_util::sync::CancellationToken;

use self::{
    args::{Instead, Request},
    cluster::Cluster,
    names::Names,
    plan::Planned,
    runs::{Fetched, Wanted},
    seat::Seat,
    trouble::{Trouble, Why},
};
use super::ask::Client;
use crate::{
    commands::{print, stop_on_signal},
    exit::Failure,
};

/// One host, judged, with what cert-manager would do for it.
struct Case {
    planned: Planned,
    judged: Judged,
    answers: (Vec<NodeAnswer>, Vec<NodeAnswer>),
    names: Names,
    /// The runs that asked, by their ids.
    runs: Vec<String>,
}

/// Where a preflight is made, and for whom.
struct Place<'a> {
    client: &'a Client,
    cluster: Option<&'a Cluster>,
    /// The object that asks for it, to which everything that is made belongs.
    owner: Option<&'a Owner>,
    stop: &'a CancellationToken,
    /// Takes what is to be known meanwhile.
    tell: &'a dyn Fn(&str),
    /// Whether a person watches.
    progress: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(Instead::Controller(own)) = &args.instead {
        return super::ask::wait(controller::run(own, &args.way));
    }
    let namespace = args.asked.setting.parallax_namespace.as_deref();
    let client = Client::by(&args.way, namespace)?;
    super::ask::wait(preflight(args, client))
}

async fn preflight(args: &Args, client: Client) -> Result<(), Failure> {
    let cluster = match Cluster::find(&args.way).await {
        Ok(cluster) => Some(cluster),
        Err(missing) if args.asked.reads_the_cluster() => return Err(missing),
        Err(_) => None,
    };
    let stop = stop_on_signal()?;
    let place = Place {
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

/// Makes what is asked for: the one way of the command and of the controller.
async fn cases(asked: &Request, place: &Place<'_>) -> Result<(Seat, Vec<Case>), Trouble> {
    let planned = plan::of(asked, place.cluster).await?;
    let seat = match place.cluster {
        Some(cluster) => Seat::find(cluster, &asked.setting.cert_manager_namespace).await,
        None => Seat::nowhere("no cluster is known to this machine (KUBECONFIG)"),
    };
    let cases = match place.cluster {
        Some(cluster) if !asked.no_create => faithful::run(asked, place, cluster, &seat, planned).await?,
        _ => {
            let looking = look(asked, place, &seat, planned);
            let Some(looked) = place.stop.run_until_cancelled(looking).await else {
                return Err(faithful::interrupted());
            };
            looked?
        }
    };
    Ok((seat, cases))
}

/// Looks at the way that is there, and creates nothing.
async fn look(
    asked: &Request,
    place: &Place<'_>,
    seat: &Seat,
    planned: Vec<Planned>,
) -> Result<Vec<Case>, Trouble> {
    let mut cases = Vec::new();
    for planned in planned {
        let wanted = Wanted {
            token: fresh()?.0,
            key: None,
            ..Wanted::of(asked, &planned, seat)
        };
        let mut fetched = runs::both(place.client, &wanted, place.progress)
            .await
            .map_err(Trouble::of_the_aggregator)?;
        runs::deeper(place.client, &wanted, &mut fetched, place.progress)
            .await
            .map_err(Trouble::of_the_aggregator)?;
        runs::of_the_name(place.client, &wanted, &mut fetched, place.progress)
            .await
            .map_err(Trouble::of_the_aggregator)?;
        cases.push(Case::of(planned, &wanted, fetched, seat));
    }
    Ok(cases)
}

/// A token and its key, never used before.
fn fresh() -> Result<(String, String), Trouble> {
    let token = token(random()?);
    let key = key_authorization(&token, random()?);
    Ok((token, key))
}

/// Bytes that nobody can guess.
fn random<const N: usize>() -> Result<[u8; N], Trouble> {
    use ring::rand::{SecureRandom as _, SystemRandom};
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Why::NoRandomness.could_not("the system gives no random numbers".to_owned()))?;
    Ok(bytes)
}

impl Case {
    /// Judges what came back.
    fn of(planned: Planned, wanted: &Wanted, fetched: Fetched, seat: &Seat) -> Self {
        let judged = judged(&planned.host, wanted, &fetched, seat);
        Self {
            planned,
            judged,
            answers: (fetched.self_check.answers, fetched.ca.answers),
            runs: fetched.runs,
            names: fetched.names,
        }
    }
}

fn judged(host: &HostName, wanted: &Wanted, fetched: &Fetched, seat: &Seat) -> Judged {
    let differs = seat.differs(host.as_str(), fetched, wanted);
    let url = wanted.url();
    let one = |check: Check, part: &runs::Part, differs: &[String]| {
        judge(&Asked {
            check,
            url: &url,
            with_key: wanted.key.is_some(),
            public_names: part.public_names,
            answers: &part.answers,
            silent: &part.silent,
            diagnosed: part.diagnosed.as_ref().map(|incident| &incident.verdict),
            seat: seat.node(),
            seat_in_host_network: seat.in_host_network(),
            differs,
            // cert-manager's own check sees the cluster's answer alone, and made it itself.
            names: fetched
                .names
                .found()
                .map(|found| &found.judged)
                .filter(|_| check != Check::SelfCheck),
        })
    };
    Judged {
        host: host.to_string(),
        self_check: one(Check::SelfCheck, &fetched.self_check, &differs),
        ca: one(Check::Ca(wanted.authority), &fetched.ca, &[]),
        not_checked: not_checked(wanted, fetched),
    }
}

/// What nobody looked at, so that no verdict reads as more than it is.
fn not_checked(wanted: &Wanted, fetched: &Fetched) -> Vec<String> {
    let mut all = Vec::new();
    let outside = fetched.ca.answers.iter().any(|answer| {
        matches!(
            answer.vantage,
            parallax_model::Vantage::Outside {
                reach: parallax_model::Reach::Internet,
                ..
            }
        )
    });
    if !outside {
        all.push(
            "whether the internet reaches port 80: no vantage stands there (parallax vantage enroll, or parallax check --profile ca from a machine outside)"
                .to_owned(),
        );
    }
    all.push("the CA's secondary validation from several networks".to_owned());
    all.push("DNSSEC".to_owned());
    all.extend(fetched.names.not_checked());
    if wanted.authority == ChallengeClient::Pebble {
        all.push("CAA records, which Pebble does not look at".to_owned());
    }
    if !fetched.ca.public_names && wanted.authority == ChallengeClient::Boulder {
        all.push(
            "the name as public DNS has it: the cluster's own resolvers were asked (resolvers.public in the aggregator's configuration)"
                .to_owned(),
        );
    }
    if wanted.key.is_none() {
        all.push(
            "the solver's pod, its Service, its class or Gateway and the route to its token: nothing was created (--no-create)"
                .to_owned(),
        );
    }
    all
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
                "names": case.names.found(),
                "notChecked": case.judged.not_checked,
                "propagationMs": case.planned.propagation.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            })).collect::<Vec<_>>(),
        });
        let text = serde_json::to_string_pretty(&document).map_err(Failure::could_not)?;
        print(&format!("{text}\n"))?;
    } else {
        print(&report::text(seat, cases, super::style()))?;
    }
    outcome(cases.iter().map(|case| &case.judged), args.asked.strict)
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
