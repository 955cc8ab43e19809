//! Destinations of the control client, and the corresponding targets of Parallax.

use url::Url;

use crate::cluster::Hosts;

/// Names and URLs of the control client's destinations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destinations(pub Vec<(String, String)>);

impl Destinations {
    /// Returns those of the test application, whose Service has this address.
    #[must_use]
    pub fn new(hosts: &Hosts, address: &str) -> Self {
        let all = [
            ("host", format!("http://{}/", hosts.http)),
            ("secure", format!("https://{}/", hosts.https)),
            ("service", "http://shop.shop.svc/".to_owned()),
            ("address", format!("http://{address}/")),
            ("headless", "http://shop-headless.shop.svc:8088/".to_owned()),
            ("ledger", "http://ledger.shop.svc:8088/".to_owned()),
        ];
        Self(all.map(|(name, url)| (name.to_owned(), url)).to_vec())
    }

    /// Returns the destinations that correspond to a target; empty if users do not use it.
    #[must_use]
    pub fn of_target(&self, target: &str) -> Vec<&str> {
        let Some(wanted) = host_of(target) else {
            return Vec::new();
        };
        let found = self
            .0
            .iter()
            .filter(|(_, url)| host_of(url).as_ref() == Some(&wanted));
        let mut names: Vec<&str> = found.map(|(name, _)| name.as_str()).collect();
        // The same Service by name and by address.
        if names == ["address"] || names == ["service"] {
            names = vec!["service", "address"];
        }
        names
    }
}

fn host_of(url: &str) -> Option<String> {
    Url::parse(url).ok()?.host_str().map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_the_destination_with_its_host_and_a_service_has_a_name_and_an_address() {
        let destinations = Destinations::new(&Hosts::default(), "10.96.7.7");
        let of = |target| destinations.of_target(target);
        assert_eq!(of("http://shop.example.com:80/"), ["host"]);
        assert_eq!(of("http://10.96.7.7:80/"), ["service", "address"]);
        assert_eq!(of("http://shop-headless.shop.svc:8088/"), ["headless"]);
        assert!(of("http://10.96.7.8:9095/healthz").is_empty());
        assert!(of("tcp://kubernetes.default.svc:443").is_empty());
    }
}
