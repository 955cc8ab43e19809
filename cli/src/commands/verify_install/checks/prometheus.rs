//! Whether Prometheus scrapes the aggregator, if monitors are installed.

use parallax_api::installation::{InstallationFacts, MetricsScrape};
use parallax_model::Micros;

use super::{Answer, Finding};
use crate::commands::verify_install::facts::Facts;

/// Age at which the last scrape is too old, whatever the interval of the monitor is.
const MAX_SCRAPE_AGE: Micros = Micros::from_secs(5 * 60);

pub(super) fn check(facts: &Facts) -> Answer<Finding> {
    let answer = facts.aggregator()?;
    if let Some(scrape) = recent_scrape(answer) {
        let client = match scrape.client.as_str() {
            "" => String::new(),
            client => format!(" by {client}"),
        };
        return Ok(Finding::ok(format!(
            "the metrics were requested {} ago{client}",
            (answer.at - scrape.at).humanize()
        )));
    }
    if facts.is_standalone() {
        return Ok(Finding::not_installed("nothing scrapes the aggregator"));
    }
    let monitors = facts.cluster.monitors.clone()?;
    if monitors == 0 {
        return Ok(Finding::not_installed(format!(
            "no PodMonitor or ServiceMonitor in the namespace {}",
            facts.namespace
        )));
    }
    if answer.catching_up {
        return Err("not scraped since the aggregator started".to_owned());
    }
    let last = answer.last_scrape.as_ref().map_or_else(
        || "since the aggregator started".to_owned(),
        |scrape| format!("for {}", (answer.at - scrape.at).humanize()),
    );
    Ok(
        Finding::not_ok(format!("monitors are installed, and nothing has scraped the aggregator {last}"))
            .with_action(
                "name the namespace of Prometheus in pageNamespaces, so that the NetworkPolicy admits it, and check that its podMonitorSelector selects the labels in podMonitor.labels",
            ),
    )
}

fn recent_scrape(answer: &InstallationFacts) -> Option<&MetricsScrape> {
    let scrape = answer.last_scrape.as_ref()?;
    (answer.at - scrape.at <= MAX_SCRAPE_AGE).then_some(scrape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::verify_install::checks::{
        CheckState,
        fixtures::{ago, facts, installed, state},
    };

    fn scrape(seconds: u64) -> MetricsScrape {
        MetricsScrape {
            at: ago(seconds),
            client: "Prometheus/3.1.0".to_owned(),
        }
    }

    #[test]
    fn monitors_without_a_recent_scrape_are_not_ok() {
        let mut facts = facts();
        assert_eq!(
            check(&facts).unwrap(),
            Finding::ok("the metrics were requested 12 s ago by Prometheus/3.1.0")
        );
        installed(&mut facts).last_scrape = Some(scrape(301));
        assert_eq!(state(check, &facts), CheckState::NotOk);
        installed(&mut facts).last_scrape = None;
        assert_eq!(state(check, &facts), CheckState::NotOk);
        installed(&mut facts).catching_up = true;
        assert_eq!(state(check, &facts), CheckState::Unknown);
    }

    #[test]
    fn without_monitors_nothing_needs_to_scrape_and_a_scrape_needs_no_monitor() {
        let mut facts = facts();
        facts.cluster.monitors = Ok(0);
        assert_eq!(state(check, &facts), CheckState::Ok);
        installed(&mut facts).last_scrape = None;
        assert_eq!(state(check, &facts), CheckState::NotInstalled);
        facts.cluster.monitors = Err("forbidden".to_owned());
        assert_eq!(check(&facts), Err("forbidden".to_owned()));
        installed(&mut facts).in_cluster = false;
        assert_eq!(state(check, &facts), CheckState::NotInstalled);
        facts.aggregator = Err("gone".to_owned());
        assert_eq!(state(check, &facts), CheckState::Unknown);
    }
}
