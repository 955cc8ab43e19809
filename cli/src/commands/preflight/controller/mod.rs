//! `parallax preflight controller`: makes the preflights that Preflight objects request.
//!
//! ```text
//! Preflight objects ─▶ work queue (what each needs, pure) ─▶ attempts, a few at once ─▶ status
//!                          ▲                                    └ the same code as the command
//!                          └─ backoff, new generations, deletions, TTLs
//! ```
//!
//! One controller runs per cluster. Two at once would disturb each other but never cause a wrong verdict: the
//! objects of a Preflight have a fixed name, and a result counts only while the responder that was created for it
//! still exists.

mod attempt;
mod request;
mod status;
mod work_queue;

use std::{rc::Rc, time::Duration};

use futures_util::{
    StreamExt as _,
    future::{FutureExt as _, LocalBoxFuture},
    stream::{FuturesUnordered, select_all},
};
use jiff::Timestamp;
use parallax_aggregator::crd::{
    CustomResourceKind,
    objects::{Key, KnownObjects, ObjectClient},
};
use tokio::time::sleep;

use self::{
    attempt::{AttemptContext, AttemptResult},
    work_queue::{WorkItem, WorkQueue},
};
use super::{args::PreflightSettings, cluster::ClusterClient};
use crate::{
    commands::{query::ConnectionArgs, stop_on_signal},
    exit::Failure,
};

/// The account named in messages about missing permissions.
const ACCOUNT_DESCRIPTION: &str = "the account of parallax preflight controller";

/// Options of the controller.
#[derive(Debug, clap::Args)]
pub(in crate::commands) struct Args {
    /// Watch Preflights in this namespace only; repeatable [default: all namespaces].
    #[arg(long = "watch", value_name = "NAMESPACE")]
    namespaces: Vec<String>,
    /// The maximum number of concurrent preflights.
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=8))]
    parallel: u8,
    /// The delay before the first retry; each later retry waits twice as long.
    #[arg(long, hide = true, value_name = "MILLISECONDS", default_value_t = 5_000)]
    backoff_ms: u32,
    #[command(flatten)]
    settings: PreflightSettings,
}

/// Finished work.
enum FinishedWork {
    Attempt(Key, AttemptResult),
    Removed,
}

pub(super) async fn run(args: &Args, connection: &ConnectionArgs) -> Result<(), Failure> {
    let stop = stop_on_signal()?;
    let cluster = ClusterClient::connect(connection).await?;
    let objects = |namespace| {
        ObjectClient::for_account(
            cluster.client().clone(),
            CustomResourceKind::Preflight,
            ACCOUNT_DESCRIPTION,
            namespace,
        )
    };
    let followed: Vec<ObjectClient> = if args.namespaces.is_empty() {
        vec![objects(None)]
    } else {
        let named = args.namespaces.iter().cloned();
        named.map(|namespace| objects(Some(namespace))).collect()
    };
    let mut known: Vec<KnownObjects> = followed.iter().map(|_| KnownObjects::default()).collect();
    let mut updates = select_all(
        followed
            .iter()
            .enumerate()
            .map(|(index, objects)| objects.watch().map(move |update| (index, update)).boxed_local()),
    );
    let attempts = Rc::new(AttemptContext {
        objects: objects(None),
        cluster: cluster.clone(),
        connection: connection.clone(),
        settings: args.settings.clone(),
        backoff: Duration::from_millis(args.backoff_ms.into()),
    });
    let mut queue = WorkQueue::new(usize::from(args.parallel), &stop);
    let mut work: FuturesUnordered<LocalBoxFuture<'_, FinishedWork>> = FuturesUnordered::new();
    tracing::info!(
        namespaces = if args.namespaces.is_empty() {
            "all".to_owned()
        } else {
            args.namespaces.join(", ")
        },
        "watching preflights.parallax.dev"
    );
    loop {
        let all = known.iter().flat_map(KnownObjects::objects);
        let (steps, wake) = queue.poll(all, Timestamp::now());
        for step in steps {
            work.push(match step {
                WorkItem::Start(key, object, stop) => {
                    let attempts = Rc::clone(&attempts);
                    async move {
                        let ended = attempts.run(&key, *object, stop).await;
                        FinishedWork::Attempt(key, ended)
                    }
                    .boxed_local()
                }
                WorkItem::Delete(key) => {
                    let attempts = Rc::clone(&attempts);
                    async move {
                        attempts.objects.delete(&key).await;
                        FinishedWork::Removed
                    }
                    .boxed_local()
                }
            });
        }
        if stop.is_cancelled() && work.is_empty() {
            return Ok(());
        }
        tokio::select! {
            () = stop.cancelled(), if !stop.is_cancelled() => {}
            Some(done) = work.next() => {
                if let FinishedWork::Attempt(key, ended) = done {
                    queue.finish(&key, ended, Timestamp::now());
                }
            }
            update = updates.next(), if !stop.is_cancelled() => match update {
                Some((index, update)) => {
                    known[index].apply(update);
                }
                None => return Err(Failure::Indeterminate("the watch of preflights.parallax.dev has ended".to_owned())),
            },
            () = sleep(wake.unwrap_or(Duration::MAX)), if wake.is_some() => {}
        }
    }
}
