//! `parallax explain challenge/NAMESPACE/NAME`: explains a waiting Challenge. Read-only.

use std::fmt::Write as _;

use parallax_model::ChallengeClient;
use parallax_preflight::{
    CertManagerPlacement, Challenge, FetchRequest, NameQuery, SelfCheckFailure, caa_identities, meaning,
    read, reason, wait_instead,
};
use serde_json::json;

use super::{
    cluster::{ClusterClient, MissingReason, ObjectKind},
    report, runs,
};
use crate::{
    commands::{
        color, print,
        query::{ApiClient, ConnectionArgs, Output},
    },
    exit::Failure,
};

const PREFIX: &str = "challenge/";

/// Reports whether the id names a Challenge.
pub(crate) fn is_challenge(id: &str) -> bool {
    id.starts_with(PREFIX)
}

/// Reads a Challenge, replays its self check from every node, and prints the explanation.
pub(crate) async fn challenge(
    client: &ApiClient,
    way: &ConnectionArgs,
    id: &str,
    cert_manager: Option<&str>,
    output: Option<Output>,
) -> Result<(), Failure> {
    let place = id.strip_prefix(PREFIX).and_then(|place| place.split_once('/'));
    let Some((namespace, name)) =
        place.filter(|(ns, name)| !ns.is_empty() && !name.is_empty() && !name.contains('/'))
    else {
        return Err(Failure::Usage(format!(
            "expected challenge/NAMESPACE/NAME, got {id}"
        )));
    };
    let cluster = ClusterClient::find(way).await?;
    let object = cluster
        .get(ObjectKind::Challenge, namespace, name)
        .await
        .map_err(|missing| match missing {
            MissingReason::NotFound => Failure::CouldNot(format!(
                "there is no Challenge {namespace}/{name}: it may be over, or the CA may have reused an earlier validation; run kubectl -n {namespace} get challenges,orders"
            )),
            failed @ MissingReason::Failed(..) => failed.into(),
        })?;
    let challenge: Challenge = read(object)
        .map_err(|error| Failure::CouldNot(format!("cannot read Challenge {namespace}/{name}: {error}")))?;
    let waiting = reason(&challenge.status.reason);
    let mut text = head(&challenge, &waiting);
    if !challenge.spec.sort.eq_ignore_ascii_case("HTTP-01") {
        text.push_str("It uses DNS-01, which requires no reachable address; there is nothing to replay.\n");
        return print(&text);
    }
    let seat = CertManagerPlacement::find(&cluster, cert_manager).await;
    let host = challenge
        .spec
        .dns_name
        .parse()
        .map_err(|error| Failure::CouldNot(format!("spec.dnsName: {error}")))?;
    let wanted = FetchRequest {
        host,
        port: port(),
        token: challenge.spec.token.clone(),
        key: Some(challenge.spec.key.as_str().to_owned()).filter(|key| !key.is_empty()),
        passes: None,
        authority: ChallengeClient::Boulder,
        nameservers: seat.nameservers(),
        // The challenge's own URL identifies the CA.
        issues: NameQuery {
            identities: caa_identities(&challenge.spec.url),
            account_uri: None,
        },
    };
    let fetched = runs::whole(client, &wanted, false).await?;
    let judged = wanted.judged(&fetched, &seat);
    let document = json!({
        "challenge": format!("{namespace}/{name}"),
        "host": judged.host,
        "state": challenge.status.state,
        "reason": challenge.status.reason,
        "certManager": seat.document(),
        "selfCheck": judged.self_check,
        "ca": judged.ca,
        "notChecked": judged.not_checked,
    });
    if Output::document(output, &document)? {
        return Ok(());
    }
    text.push('\n');
    text.push_str("The same self check now, from every node:\n");
    report::verdict(&mut text, "self check", &judged.self_check, color());
    report::verdict(&mut text, "CA", &judged.ca, color());
    for line in seat.words().iter().chain(&seat.notes) {
        let _ = writeln!(text, "{line}");
    }
    if let Some(hint) = wait_instead(&judged, &challenge) {
        let _ = writeln!(text, "{}", hint.words());
    }
    print(&text)
}

/// Test environments use other ports than 80; real clients never do.
fn port() -> u16 {
    std::env::var("PARALLAX_CHALLENGE_PORT")
        .ok()
        .and_then(|port| port.parse().ok())
        .unwrap_or(80)
}

fn head(challenge: &Challenge, waiting: &SelfCheckFailure) -> String {
    let meta = &challenge.metadata;
    let status = &challenge.status;
    let state = if status.state.is_empty() {
        "no state yet"
    } else {
        &status.state
    };
    let mut text = format!(
        "Challenge {}/{} for {}: {state}\n",
        meta.namespace, meta.name, challenge.spec.dns_name
    );
    let _ = writeln!(text, "  {}", meaning(challenge, waiting));
    text
}
