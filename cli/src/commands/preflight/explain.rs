//! `parallax explain challenge/NAMESPACE/NAME`: explains a waiting Challenge. Read-only.

use std::fmt::Write as _;

use parallax_model::ChallengeClient;
use parallax_preflight::{
    CertManagerPlacement, Challenge, ChallengeReason, FetchRequest, NameQuery, caa_identities,
    explain_reason, from_object, parse_reason, skip_self_check_advice,
};
use serde_json::json;

use super::{
    cluster::{ClusterClient, ClusterError, ObjectKind},
    report, runs,
};
use crate::{
    commands::{
        color, print,
        query::{ApiClient, ConnectionArgs, Output},
    },
    exit::Failure,
};

const ID_PREFIX: &str = "challenge/";

/// Reports whether the id names a Challenge.
pub(crate) fn is_challenge(id: &str) -> bool {
    id.starts_with(ID_PREFIX)
}

/// Reads a Challenge, replays its self check from every node, and prints the explanation.
pub(crate) async fn explain_challenge(
    client: &ApiClient,
    connection: &ConnectionArgs,
    id: &str,
    cert_manager: Option<&str>,
    output: Option<Output>,
) -> Result<(), Failure> {
    let place = id.strip_prefix(ID_PREFIX).and_then(|place| place.split_once('/'));
    let Some((namespace, name)) =
        place.filter(|(ns, name)| !ns.is_empty() && !name.is_empty() && !name.contains('/'))
    else {
        return Err(Failure::Usage(format!(
            "expected challenge/NAMESPACE/NAME, got {id}"
        )));
    };
    let cluster = ClusterClient::connect(connection).await?;
    let object = cluster
        .get(ObjectKind::Challenge, namespace, name)
        .await
        .map_err(|missing| match missing {
            ClusterError::NotFound => Failure::Indeterminate(format!(
                "there is no Challenge {namespace}/{name}: it may be over, or the CA may have reused an earlier validation; run kubectl -n {namespace} get challenges,orders"
            )),
            failed @ ClusterError::Failed(..) => failed.into(),
        })?;
    let challenge: Challenge = from_object(object).map_err(|error| {
        Failure::Indeterminate(format!("cannot read Challenge {namespace}/{name}: {error}"))
    })?;
    let waiting = parse_reason(&challenge.status.reason);
    let mut text = header(&challenge, &waiting);
    if !challenge.spec.challenge_type.eq_ignore_ascii_case("HTTP-01") {
        text.push_str("It uses DNS-01, which requires no reachable address; there is nothing to replay.\n");
        return print(&text);
    }
    let placement = CertManagerPlacement::locate(&cluster, cert_manager).await;
    let host = challenge
        .spec
        .dns_name
        .parse()
        .map_err(|error| Failure::Indeterminate(format!("spec.dnsName: {error}")))?;
    let wanted = FetchRequest {
        host,
        port: challenge_port(),
        token: challenge.spec.token.clone(),
        key: Some(challenge.spec.key.as_str().to_owned()).filter(|key| !key.is_empty()),
        passes: None,
        authority: ChallengeClient::Boulder,
        nameservers: placement.nameservers(),
        // The challenge's own URL identifies the CA.
        name_query: NameQuery {
            identities: caa_identities(&challenge.spec.url),
            account_uri: None,
        },
    };
    let fetched = runs::run_all(client, &wanted, false).await?;
    let judged = wanted.judge(&fetched, &placement);
    let document = json!({
        "challenge": format!("{namespace}/{name}"),
        "host": judged.host,
        "state": challenge.status.state,
        "reason": challenge.status.reason,
        "certManager": placement.to_json(),
        "selfCheck": judged.self_check,
        "ca": judged.ca,
        "notChecked": judged.not_checked,
    });
    if Output::print_document(output, &document)? {
        return Ok(());
    }
    text.push('\n');
    text.push_str("The same self check now, from every node:\n");
    report::write_verdict(&mut text, "self check", &judged.self_check, color());
    report::write_verdict(&mut text, "CA", &judged.ca, color());
    for line in placement.description().iter().chain(&placement.notes) {
        let _ = writeln!(text, "{line}");
    }
    if let Some(hint) = skip_self_check_advice(&judged, &challenge) {
        let _ = writeln!(text, "{}", hint.sentence());
    }
    print(&text)
}

/// Test environments use other ports than 80; real clients never do.
fn challenge_port() -> u16 {
    std::env::var("PARALLAX_CHALLENGE_PORT")
        .ok()
        .and_then(|port| port.parse().ok())
        .unwrap_or(80)
}

fn header(challenge: &Challenge, reason: &ChallengeReason) -> String {
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
    let _ = writeln!(text, "  {}", explain_reason(challenge, reason));
    text
}
