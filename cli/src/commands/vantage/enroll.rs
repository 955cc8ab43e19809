//! Creates an account and a token for a vantage outside the cluster, and prints the commands to start it.

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
    account::{self, EnrolledVantage},
    call_api, external_access,
    ttl::BoundedTtl,
};
use crate::exit::Failure;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the vantage.
    name: String,
    /// Location of the machine: vpc (in the cluster's own network) or internet.
    #[arg(long, value_parser = parse_reach)]
    network: Reach,
    /// Validity of its token: 90m, 12h, 30d. The cluster may enforce a shorter one.
    #[arg(long, default_value = "30d")]
    ttl: BoundedTtl,
    /// Namespace of Parallax.
    #[arg(long, default_value = "parallax")]
    namespace: String,
    /// Audience of the token; the aggregator accepts no other.
    #[arg(long, default_value = "parallax")]
    audience: String,
    /// URL of the aggregator as seen from the machine [default: the first of `externalHosts`].
    #[arg(long, value_name = "URL")]
    aggregator: Option<Url>,
}

fn parse_reach(text: &str) -> Result<Reach, String> {
    Reach::ALL
        .iter()
        .find(|reach| reach.label() == text)
        .copied()
        .ok_or_else(|| "expected vpc or internet".to_owned())
}

pub(super) async fn run(client: Client, args: Args) -> Result<(), Failure> {
    let name = account::account_name(&args.name)?;
    let vantage = Vantage::Outside {
        reach: args.network,
        name: args.name.parse().map_err(Failure::usage)?,
    };
    // Check for what may be missing before anything is created.
    let aggregator = match &args.aggregator {
        Some(url) => url.to_string().trim_end_matches('/').to_owned(),
        None => outside_url(&client, &args.namespace).await?,
    };
    let authority = fetch_ca(&client, &args.namespace).await?;
    ensure_account(&client, &args, &name, &vantage).await?;
    let (token, until) = request_token(&client, &args, &name).await?;
    eprintln!(
        "{vantage} is enrolled until {until}. Run these commands on that machine. They contain the token: keep them secret."
    );
    super::super::print(&render_script(
        &vantage,
        &args.name,
        &aggregator,
        &authority,
        &token,
    ))
}

/// Creates the account, or reuses an existing one: enrolling again issues another token.
async fn ensure_account(client: &Client, args: &Args, name: &str, vantage: &Vantage) -> Result<(), Failure> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), &args.namespace);
    let action = format!("create the ServiceAccount {}/{name}", args.namespace);
    if let Some(existing) = call_api(&action, accounts.get_opt(name)).await? {
        return match EnrolledVantage::from_account(&existing) {
            Some(enrolled) if enrolled.vantage == *vantage => Ok(()),
            Some(enrolled) => Err(Failure::Indeterminate(format!(
                "{} is enrolled as {}; revoke it first",
                args.name, enrolled.vantage
            ))),
            None => Err(Failure::Indeterminate(format!(
                "the ServiceAccount {}/{name} exists and is not a vantage's; choose another name",
                args.namespace
            ))),
        };
    }
    let account = account::new_account(name.to_owned(), args.network, &args.name);
    call_api(&action, accounts.create(&PostParams::default(), &account)).await?;
    Ok(())
}

/// Requests a token for the aggregator's audience; returns it with the expiry set by the API server.
async fn request_token(client: &Client, args: &Args, name: &str) -> Result<(String, Timestamp), Failure> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), &args.namespace);
    let action = format!("get a token for the ServiceAccount {}/{name}", args.namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: Some(vec![args.audience.clone()]),
            expiration_seconds: Some(args.ttl.seconds()),
            bound_object_ref: None,
        }),
        ..TokenRequest::default()
    };
    let answered = call_api(
        &action,
        accounts.create_token_request(name, &PostParams::default(), &request),
    )
    .await?;
    let given = answered
        .status
        .and_then(|status| Some((status.token?, status.expiration_timestamp?.0)));
    let Some((token, until)) = given else {
        return Err(Failure::Indeterminate(format!(
            "cannot {action}: the API server returned none"
        )));
    };
    let patch = account::expiry_patch(until);
    let patch_action = format!(
        "record the token's expiry on the ServiceAccount {}/{name}",
        args.namespace
    );
    call_api(
        &patch_action,
        accounts.patch(name, &PatchParams::default(), &Patch::Merge(&patch)),
    )
    .await?;
    Ok((token, until))
}

/// Returns the URL for machines outside, as configured in the installation.
async fn outside_url(client: &Client, namespace: &str) -> Result<String, Failure> {
    let services = Api::<Service>::namespaced(client.clone(), namespace);
    let action = format!("read the Service {namespace}/{}", external_access::SERVICE);
    let found = call_api(&action, services.get_opt(external_access::SERVICE)).await?;
    found
        .as_ref()
        .and_then(|service| service.metadata.annotations.as_ref()?.get(external_access::HOST_ANNOTATION))
        .map(|host| external_access::url(host))
        .ok_or_else(|| {
            Failure::Indeterminate(
                "the installation does not expose the aggregator outside the cluster: set externalHosts in the values, or give --aggregator URL"
                    .to_owned(),
            )
        })
}

/// Returns the CA that the machine must trust.
async fn fetch_ca(client: &Client, namespace: &str) -> Result<String, Failure> {
    let maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let action = format!("read the ConfigMap {namespace}/{}", external_access::CA_MAP);
    let found = call_api(&action, maps.get(external_access::CA_MAP)).await?;
    found
        .data
        .and_then(|mut data| data.remove(external_access::CA_KEY))
        .filter(|pem| pem.contains("BEGIN CERTIFICATE"))
        .ok_or_else(|| {
            Failure::Indeterminate(format!(
                "the aggregator has not published its CA in {namespace}/{} yet; check that it is running",
                external_access::CA_MAP
            ))
        })
}

/// Renders the commands. All values are quoted by heredocs, or are names without special characters.
fn render_script(vantage: &Vantage, name: &str, aggregator: &str, authority: &str, token: &str) -> String {
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
