//! `parallax vantage`: manages vantages outside the cluster. Each has its own ServiceAccount, whose labels determine
//! the vantage that it may report for.

mod account;
mod enroll;
mod external_access;
mod ttl;

use std::fmt::Write as _;

use clap::Subcommand;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams},
};
use parallax_aggregator::VANTAGE_LABEL;
use tokio::time::timeout;

use crate::exit::Failure;
use account::EnrolledVantage;

/// Manage vantages outside the cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: VantageCommand,
}

#[derive(Debug, Subcommand)]
enum VantageCommand {
    /// Create an account and a token for a machine outside the cluster, and print the commands to run there.
    Enroll(enroll::Args),
    /// Delete the account of a vantage; its token stops working within a minute.
    Revoke(VantageArgs),
    /// List the enrolled vantages and when their tokens expire.
    List(VantagesArgs),
}

#[derive(Debug, clap::Args)]
struct VantageArgs {
    /// Name of the enrolled vantage.
    name: String,
    #[command(flatten)]
    common: VantagesArgs,
}

#[derive(Debug, clap::Args)]
struct VantagesArgs {
    /// Namespace of Parallax.
    #[arg(long, default_value = "parallax")]
    namespace: String,
}

/// Timeout of requests to the API server.
const API_SERVER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(15);

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::indeterminate)?;
    runtime.block_on(async {
        let client = Client::try_default().await.map_err(|error| {
            Failure::Indeterminate(format!(
                "cannot find the cluster: {error}; set KUBECONFIG, or run `kubectl config use-context`"
            ))
        })?;
        match args.command {
            VantageCommand::Enroll(args) => enroll::run(client, args).await,
            VantageCommand::Revoke(args) => revoke(client, &args).await,
            VantageCommand::List(args) => list(client, &args).await,
        }
    })
}

async fn revoke(client: Client, args: &VantageArgs) -> Result<(), Failure> {
    let accounts = Api::<ServiceAccount>::namespaced(client, &args.common.namespace);
    let name = account::account_name(&args.name)?;
    let action = format!("delete the ServiceAccount {}/{name}", args.common.namespace);
    // Delete only enrolled vantages: an account of that name may belong to something else.
    let found = call_api(&action, accounts.get_opt(&name)).await?;
    if found.as_ref().and_then(EnrolledVantage::from_account).is_none() {
        return Err(Failure::Indeterminate(format!(
            "no vantage {} is enrolled in the namespace {}; see `parallax vantage list`",
            args.name, args.common.namespace
        )));
    }
    call_api(&action, accounts.delete(&name, &DeleteParams::default())).await?;
    super::print(&format!(
        "{} is revoked; its token stops working within a minute\n",
        args.name
    ))
}

async fn list(client: Client, args: &VantagesArgs) -> Result<(), Failure> {
    let accounts = Api::<ServiceAccount>::namespaced(client, &args.namespace);
    let labelled = ListParams::default().labels(VANTAGE_LABEL);
    let action = format!("list the ServiceAccounts in {}", args.namespace);
    let found = call_api(&action, accounts.list(&labelled)).await?;
    let mut rows: Vec<_> = found
        .items
        .iter()
        .filter_map(EnrolledVantage::from_account)
        .collect();
    rows.sort_by_key(|enrolled| enrolled.vantage.to_string());
    if rows.is_empty() {
        return super::print("no vantage is enrolled\n");
    }
    let now = Timestamp::now();
    let mut text = format!("{:<40} UNTIL\n", "VANTAGE");
    for enrolled in rows {
        let until = match enrolled.expires {
            Some(until) if until <= now => format!("{until} (expired)"),
            Some(until) => until.to_string(),
            None => "unknown".to_owned(),
        };
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{:<40} {until}", enrolled.vantage.to_string());
    }
    super::print(&text)
}

/// Calls the API server, with a timeout and errors that name the operation.
async fn call_api<T>(action: &str, call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Failure> {
    match timeout(API_SERVER_TIMEOUT, call).await {
        Err(_) => Err(Failure::Indeterminate(format!(
            "cannot {action}: no response from the API server"
        ))),
        Ok(done) => done.map_err(|error| {
            Failure::Indeterminate(match error {
                kube::Error::Api(status) => format!("cannot {action}: {}", status.message),
                other => format!("cannot {action}: {other}"),
            })
        }),
    }
}
