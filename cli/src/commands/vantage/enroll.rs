//! An account, a token, and the commands that make a machine outside a vantage.

use jiff::Timestamp;
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{ConfigMap, Service, ServiceAccount},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use parallax_model::{Reach, Vantage};
use url::Url;

use super::{
    account::{self, EnrolledVantages},
    called,
    ttl::BoundedTtl,
};
use crate::{commands::manifests::outside, exit::Failure};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What the vantage is to be called.
    name: String,
    /// Where the machine is: vpc, in the cluster's own network, or internet.
    #[arg(long, value_parser = reach)]
    network: Reach,
    /// How long its token is good: 90m, 12h, 30d. The cluster may allow less.
    #[arg(long, default_value = "30d")]
    ttl: BoundedTtl,
    /// Where Parallax is installed.
    #[arg(long, default_value = "parallax")]
    namespace: String,
    /// What the aggregator takes tokens for.
    #[arg(long, default_value = "parallax")]
    audience: String,
    /// Where the machine reaches the aggregator; the first of `outsideHosts` where absent.
    #[arg(long, value_name = "URL")]
    aggregator: Option<Url>,
}

fn reach(text: &str) -> Result<Reach, String> {
    Reach::ALL
        .iter()
        .find(|reach| reach.label() == text)
        .copied()
        .ok_or_else(|| "expected vpc or internet".to_owned())
}

pub(super) async fn run(client: Client, args: Args) -> Result<(), Failure> {
    let name = account::name(&args.name)?;
    let vantage = Vantage::Outside {
        reach: args.network,
        name: args.name.parse().map_err(Failure::usage)?,
    };
    // What can be missing is looked for before anything is made.
    let aggregator = match &args.aggregator {
        Some(url) => url.to_string().trim_end_matches('/').to_owned(),
        None => reached(&client, &args.namespace).await?,
    };
    let authority = authority(&client, &args.namespace).await?;
    ensure(&client, &args, &name, &vantage).await?;
    let (token, until) = token(&client, &args, &name).await?;
    eprintln!(
        "{vantage} is enrolled until {until}. On that machine, run what follows; it holds the token, so keep it to yourself."
    );
    super::super::print(&script(&vantage, &args.name, &aggregator, &authority, &token))
}

/// Makes the account, or finds the one that is there: enrolling again gives another token.
async fn ensure(client: &Client, args: &Args, name: &str, vantage: &Vantage) -> Result<(), Failure> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), &args.namespace);
    let what = format!("make the account {}/{name}", args.namespace);
    if let Some(there) = called(&what, accounts.get_opt(name)).await? {
        return match EnrolledVantages::of(&there) {
            Some(enrolled) if enrolled.vantage == *vantage => Ok(()),
            Some(enrolled) => Err(Failure::CouldNot(format!(
                "{} is enrolled as {}; revoke it first",
                args.name, enrolled.vantage
            ))),
            None => Err(Failure::CouldNot(format!(
                "an account {}/{name} is there that was not enrolled; choose another name",
                args.namespace
            ))),
        };
    }
    let account = account::new(name.to_owned(), args.network, &args.name);
    called(&what, accounts.create(&PostParams::default(), &account)).await?;
    Ok(())
}

/// A token for the aggregator alone, and its end as the server set it.
async fn token(client: &Client, args: &Args, name: &str) -> Result<(String, Timestamp), Failure> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), &args.namespace);
    let what = format!("get a token for {}/{name}", args.namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: Some(vec![args.audience.clone()]),
            expiration_seconds: Some(args.ttl.seconds()),
            bound_object_ref: None,
        }),
        ..TokenRequest::default()
    };
    let answered = called(
        &what,
        accounts.create_token_request(name, &PostParams::default(), &request),
    )
    .await?;
    let given = answered
        .status
        .and_then(|status| Some((status.token?, status.expiration_timestamp?.0)));
    let Some((token, until)) = given else {
        return Err(Failure::CouldNot(format!(
            "cannot {what}: the API server gave none"
        )));
    };
    let patch = account::until(until);
    let said = format!("note on {}/{name} how long its token is good", args.namespace);
    called(
        &said,
        accounts.patch(name, &PatchParams::default(), &Patch::Merge(&patch)),
    )
    .await?;
    Ok((token, until))
}

/// Where machines outside reach the aggregator, as the installation says.
async fn reached(client: &Client, namespace: &str) -> Result<String, Failure> {
    let services = Api::<Service>::namespaced(client.clone(), namespace);
    let what = format!("read the Service {namespace}/{}", outside::SERVICE);
    let found = called(&what, services.get_opt(outside::SERVICE)).await?;
    found
        .as_ref()
        .and_then(|service| service.metadata.annotations.as_ref()?.get(outside::HOST))
        .map(|host| outside::url(host))
        .ok_or_else(|| {
            Failure::CouldNot(
                "the installation has no way in from outside: set outsideHosts in the values, or give --aggregator URL"
                    .to_owned(),
            )
        })
}

/// Whom the machine is to trust.
async fn authority(client: &Client, namespace: &str) -> Result<String, Failure> {
    let maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let what = format!("read the ConfigMap {namespace}/{}", outside::CA_MAP);
    let found = called(&what, maps.get(outside::CA_MAP)).await?;
    found
        .data
        .and_then(|mut data| data.remove(outside::CA_FILE))
        .filter(|pem| pem.contains("BEGIN CERTIFICATE"))
        .ok_or_else(|| {
            Failure::CouldNot(format!(
                "the aggregator has not published its CA in {namespace}/{} yet; is it running?",
                outside::CA_MAP
            ))
        })
}

/// What to run there. Everything in it is quoted by the heredocs, or is a name without a special character.
fn script(vantage: &Vantage, name: &str, aggregator: &str, authority: &str, token: &str) -> String {
    let authority = authority.trim();
    format!(
        "\
umask 077
cat > parallax-token <<'END'
{token}
END
cat > parallax-ca.crt <<'END'
{authority}
END
parallax prober --aggregator '{aggregator}' --vantage '{vantage}' --pod '{name}' \\
  --token-file parallax-token --aggregator-roots parallax-ca.crt
"
    )
}
