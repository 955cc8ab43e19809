//! Links from an incident to Grafana dashboards and to the aggregator's page.

use parallax_diagnosis::verdict::{Incident, IncidentState, Subject};
use parallax_model::{EventTime, Micros};
use url::Url;

/// Time before and after an incident that a dashboard shows.
const MARGIN: Micros = Micros::from_secs(15 * 60);

/// Addresses of the systems that belong to this installation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExternalLinks {
    /// Grafana, with the dashboards of this repository.
    pub grafana: Option<Url>,
    /// The page of this aggregator as users reach it; dashboards link back to it.
    pub page: Option<Url>,
}

/// A link to a dashboard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DashboardLink {
    /// The text of the link.
    pub title: String,
    /// The address.
    pub url: String,
}

/// Parses the base address of links. The error names what was expected.
pub fn parse_base_url(text: &str) -> Result<Url, String> {
    Url::parse(text)
        .ok()
        .filter(|url| {
            matches!(url.scheme(), "http" | "https")
                && url.has_host()
                && url.query().is_none()
                && url.fragment().is_none()
        })
        .ok_or_else(|| {
            format!("expected an address like https://grafana.example.com/, without a query, found {text:?}")
        })
}

impl ExternalLinks {
    /// The external address of an incident's page.
    #[must_use]
    pub fn incident_url(&self, id: &str) -> Option<String> {
        let mut url = self.page.clone()?;
        url.path_segments_mut()
            .ok()?
            .pop_if_empty()
            .extend(["incident", id]);
        Some(url.into())
    }

    /// Returns the dashboards that show an incident, with its time range and subject preselected. Empty if
    /// Grafana is not configured.
    #[must_use]
    pub fn dashboards(&self, incident: &Incident) -> Vec<DashboardLink> {
        let verdict = &incident.verdict;
        let mut links = Vec::new();
        match &verdict.subject {
            // The installation's name for the vantage in the node's Pod network.
            Subject::Node(node) => links.extend(self.dashboard_link(
                "mesh",
                incident,
                &format!("Dashboard of {node}"),
                Some(("vantage", &format!("{node}/pod"))),
            )),
            Subject::Network => {
                links.extend(self.dashboard_link("mesh", incident, "Dashboard of the mesh", None));
            }
            Subject::Front(_) | Subject::Service(_) | Subject::Target(_) | Subject::Name(_) => {}
        }
        if let Some(target) = verdict.targets.first() {
            let title = format!("Dashboard of {target}");
            links.extend(self.dashboard_link("target", incident, &title, Some(("target", target.as_str()))));
        }
        if links.is_empty() {
            links.extend(self.dashboard_link("overview", incident, "Dashboards", None));
        }
        links
    }

    fn dashboard_link(
        &self,
        dashboard: &str,
        incident: &Incident,
        title: &str,
        variable: Option<(&str, &str)>,
    ) -> Option<DashboardLink> {
        let mut url = self.grafana.clone()?;
        let name = format!("parallax-{dashboard}");
        url.path_segments_mut()
            .ok()?
            .pop_if_empty()
            .extend(["d", name.as_str()]);
        {
            let mut query = url.query_pairs_mut();
            query.append_pair("from", &grafana_time(incident.since.minus(MARGIN)));
            let until = match incident.state {
                IncidentState::Closed { closed } => grafana_time(closed.plus(MARGIN)),
                IncidentState::Open | IncidentState::Recovering => "now".to_owned(),
            };
            query.append_pair("to", &until);
            if let Some((variable, value)) = variable {
                query.append_pair(&format!("var-{variable}"), value);
            }
            if let Some(page) = &self.page {
                // The dashboards append `/incident/ID` to it.
                query.append_pair("var-page", page.as_str().trim_end_matches('/'));
            }
        }
        Some(DashboardLink {
            title: title.to_owned(),
            url: url.into(),
        })
    }
}

/// A time in Grafana's format.
fn grafana_time(at: EventTime) -> String {
    (at.0 / 1_000).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_fixtures as fixtures;

    fn read(grafana: &str, page: Option<&str>) -> ExternalLinks {
        let read = |text: &str| parse_base_url(text).unwrap();
        ExternalLinks {
            grafana: Some(read(grafana)),
            page: page.map(read),
        }
    }

    #[test]
    fn an_incident_leads_to_the_dashboard_of_its_target_at_its_time_and_back() {
        let links = read(
            "https://grafana.example.test/sub/",
            Some("https://parallax.example.test/"),
        );
        let incident = &fixtures::outage().incidents[0];
        let from = (fixtures::NOW.0 / 1_000_000 - 252 - 900) * 1_000;
        let url = format!(
            "https://grafana.example.test/sub/d/parallax-target?from={from}&to=now\
             &var-target=http%3A%2F%2Fshop-00.example.test%2F&var-page=https%3A%2F%2Fparallax.example.test"
        );
        let title = "Dashboard of http://shop-00.example.test/".to_owned();
        assert_eq!(links.dashboards(incident), [DashboardLink { title, url }]);
    }

    #[test]
    fn one_about_a_node_leads_to_the_mesh_and_one_that_is_over_ends_there() {
        let links = read("https://grafana.example.test", None);
        let view = fixtures::troubled();
        let urls: Vec<_> = links
            .dashboards(&view.incidents[0])
            .into_iter()
            .map(|link| link.url)
            .collect();
        assert!(
            urls[0].contains("/d/parallax-mesh?") && urls[0].ends_with("&var-vantage=n2%2Fpod"),
            "{urls:?}"
        );
        assert!(urls[1].contains("/d/parallax-target?"), "{urls:?}");
        let over = links.dashboards(&view.incidents[1]);
        let until = (fixtures::NOW.0 / 1_000_000 - 4_000 + 900) * 1_000;
        assert!(over[0].url.contains(&format!("&to={until}&")), "{over:?}");
    }

    #[test]
    fn without_a_grafana_there_are_no_links() {
        assert!(
            ExternalLinks::default()
                .dashboards(&fixtures::outage().incidents[0])
                .is_empty()
        );
    }
}
