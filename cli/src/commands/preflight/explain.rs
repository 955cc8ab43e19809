//! `parallax explain challenge/NAMESPACE/NAME`: why a Challenge waits. Reads, and creates nothing.

use std::fmt::Write as _;

use parallax_aggregator::preflight::{Challenge, Standing, Waiting, caa_identities, read, reason};
use parallax_model::{ChallengeClient, Reach, Vantage};
use serde_json::json;

use super::{
    cluster::{Cluster, Missing, Sort},
    judged,
    names::For,
    report,
    runs::{self, Wanted},
    seat::Seat,
};
use crate::{
    commands::{
        ask::{Client, Output, Way},
        print, style,
    },
    exit::Failure,
};

const PREFIX: &str = "challenge/";

/// Whether what is to be explained is a Challenge.
pub(crate) fn is_challenge(id: &str) -> bool {
    id.starts_with(PREFIX)
}

/// Reads a Challenge, replays its self check from every node, and says what keeps it.
pub(crate) async fn challenge(
    client: &Client,
    way: &Way,
    id: &str,
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
    let cluster = Cluster::find(way).await?;
    let object = cluster
        .get(Sort::Challenge, namespace, name)
        .await
        .map_err(|missing| match missing {
            Missing::NotFound => Failure::CouldNot(format!(
                "there is no Challenge {namespace}/{name}: it may be over, or the CA may have reused an earlier validation; kubectl -n {namespace} get challenges,orders"
            )),
            failed @ Missing::Failed(..) => failed.into(),
        })?;
    let challenge: Challenge = read(object)
        .map_err(|error| Failure::CouldNot(format!("cannot read Challenge {namespace}/{name}: {error}")))?;
    let waiting = reason(&challenge.status.reason);
    let mut text = head(&challenge, &waiting);
    if !challenge.spec.sort.eq_ignore_ascii_case("HTTP-01") {
        text.push_str(
            "It is answered by DNS-01: nothing needs to be reachable, and there is nothing to replay.\n",
        );
        return print(&text);
    }
    let seat = Seat::find(&cluster, "cert-manager").await;
    let host = challenge
        .spec
        .dns_name
        .parse()
        .map_err(|error| Failure::CouldNot(format!("spec.dnsName: {error}")))?;
    let wanted = Wanted {
        host,
        port: port(),
        token: challenge.spec.token.clone(),
        key: Some(challenge.spec.key.as_str().to_owned()).filter(|key| !key.is_empty()),
        passes: None,
        authority: ChallengeClient::Boulder,
        nameservers: seat.nameservers(),
        // The challenge's own URL is at the authority.
        issues: For {
            identities: caa_identities(&challenge.spec.url),
            account_uri: None,
        },
    };
    let mut fetched = runs::both(client, &wanted, false).await?;
    runs::deeper(client, &wanted, &mut fetched, false).await?;
    runs::of_the_name(client, &wanted, &mut fetched, false).await?;
    let judged = judged(&wanted.host, &wanted, &fetched, &seat);
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
    report::verdict(&mut text, "self check", &judged.self_check, style());
    report::verdict(&mut text, "CA", &judged.ca, style());
    for line in seat.words().iter().chain(&seat.notes) {
        let _ = writeln!(text, "{line}");
    }
    if let Some(hint) = hint(&judged, &challenge) {
        let _ = writeln!(text, "{hint}");
    }
    print(&text)
}

/// Laboratories have other ports than 80; no real client asks there.
fn port() -> u16 {
    std::env::var("PARALLAX_CHALLENGE_PORT")
        .ok()
        .and_then(|port| port.parse().ok())
        .unwrap_or(80)
}

fn head(challenge: &Challenge, waiting: &Waiting) -> String {
    let meta = &challenge.metadata;
    let status = &challenge.status;
    let state = if status.state.is_empty() {
        "without a state yet"
    } else {
        &status.state
    };
    let mut text = format!(
        "Challenge {}/{} for {}: {state}\n",
        meta.namespace, meta.name, challenge.spec.dns_name
    );
    let said = match waiting {
        Waiting::Nothing if !status.processing => {
            "cert-manager has not started it: it is queued (at most 60 at once, and one for each name), not failing"
                .to_owned()
        }
        Waiting::Nothing if !status.presented => "its solver is not there yet".to_owned(),
        Waiting::Nothing => "cert-manager says nothing of it yet".to_owned(),
        Waiting::SelfCheck(failure) => {
            let mut said = format!("cert-manager's self check: {}", failure.kind.words());
            if let Some(status) = failure.status {
                let _ = write!(said, " ({status})");
            }
            if let Some(address) = failure.address {
                let _ = write!(said, " at {address}");
            }
            if let Some(resolver) = failure.resolver {
                let _ = write!(said, ", as {resolver} says");
            }
            format!("{said}; it repeats that for ever, often {}", failure.usual.join(", "))
        }
        Waiting::Delay(time) => {
            format!("the self check is skipped: it waits {time} and then asks the CA (waitInsteadOfSelfCheck)")
        }
        Waiting::Refused(said) => format!("the CA has refused it, and the order is over: {said}"),
        Waiting::NotPresented(said) => format!("its solver could not be made: {said}"),
        Waiting::Other(said) => format!("cert-manager says: {said}"),
    };
    let _ = writeln!(text, "  {}", said.replace(char::is_control, " "));
    text
}

/// Skipping the self check is right precisely where nodes fail and the internet does not; elsewhere it burns orders.
fn hint(judged: &parallax_aggregator::preflight::Judged, challenge: &Challenge) -> Option<String> {
    let outside = judged.ca.passed.iter().any(|vantage| {
        matches!(
            vantage,
            Vantage::Outside {
                reach: Reach::Internet,
                ..
            }
        )
    });
    let failing = matches!(judged.self_check.standing, Standing::Failed | Standing::AtRisk);
    if !failing || challenge.spec.solver.wait_instead_of_self_check.is_some() {
        return None;
    }
    Some(if judged.ca.standing == Standing::Passed && outside {
        "Way out: the internet gets through and nodes do not, so waitInsteadOfSelfCheck: 60s in the issuer's solver (cert-manager 1.21) skips the one check that fails.".to_owned()
    } else {
        "waitInsteadOfSelfCheck would skip the self check, but nothing shows that the CA gets through: a failed validation ends the order, and five an hour end all. Ask from outside first.".to_owned()
    })
}
