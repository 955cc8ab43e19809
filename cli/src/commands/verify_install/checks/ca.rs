//! Whether the probers have the CA of the aggregator.

use parallax_api::installation::CaPublication;

use super::{Answer, Finding, count};
use crate::commands::verify_install::facts::Facts;

pub(super) fn check(facts: &Facts) -> Answer<Finding> {
    let answer = facts.aggregator()?;
    Ok(match &answer.ca_publication {
        CaPublication::Disabled => {
            Finding::not_installed("the aggregator publishes no CA: tls.publish is not configured")
        }
        CaPublication::Pending => Finding::unknown("the CA is not published yet"),
        CaPublication::Failing { config_map, reason } => Finding::not_ok(format!(
            "cannot publish the CA in the ConfigMap {config_map}, so probers do not trust the aggregator"
        ))
        .with_details(vec![reason.clone()])
        .with_action("apply the ConfigMap and the Role parallax-aggregator of the manifests again"),
        CaPublication::Published { config_maps } => {
            let places = config_maps.join(", ");
            // Plans are served over TLS only, so a prober with a plan stream trusts the CA.
            let connected = answer.probers.iter().filter(|prober| prober.plan.is_some());
            let connected = connected.count();
            if connected == 0 {
                Finding::unknown(format!(
                    "published in {places}; no prober has connected with it yet"
                ))
            } else {
                Finding::ok(format!(
                    "published in {places}; {} connected with it",
                    count(connected, "prober")
                ))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::verify_install::checks::{
        CheckState,
        fixtures::{facts, installed, state},
    };

    #[test]
    fn a_published_ca_is_handed_over_once_a_prober_connects_with_it() {
        let mut facts = facts();
        assert_eq!(
            check(&facts).unwrap(),
            Finding::ok("published in parallax/parallax-ca; 3 probers connected with it")
        );
        for prober in &mut installed(&mut facts).probers {
            prober.plan = None;
        }
        assert_eq!(state(check, &facts), CheckState::Unknown);
    }

    #[test]
    fn what_is_not_published_is_not_handed_over() {
        let mut facts = facts();
        let failing = CaPublication::Failing {
            config_map: "parallax/parallax-ca".to_owned(),
            reason: "not found".to_owned(),
        };
        for (publication, expected) in [
            (failing, CheckState::NotOk),
            (CaPublication::Pending, CheckState::Unknown),
            (CaPublication::Disabled, CheckState::NotInstalled),
        ] {
            installed(&mut facts).ca_publication = publication;
            assert_eq!(state(check, &facts), expected);
        }
        facts.aggregator = Err("gone".to_owned());
        assert_eq!(state(check, &facts), CheckState::Unknown);
    }
}
