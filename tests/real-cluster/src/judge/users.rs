//! Experience of the cluster's users, according to the control clients.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::observe::Request;

/// Window in which requests are counted, in seconds.
const WINDOW_S: f64 = 10.0;
/// Clients with requests this recent are expected to continue, in seconds.
const RECENT_CLIENT_S: f64 = 120.0;
/// Minimum number of failures within a window; fewer are ignored.
const MIN_FAILURES: usize = 3;

/// Requests of all control clients.
#[derive(Debug)]
pub struct UserRequests<'a> {
    requests: &'a [Request],
}

/// Failures of one client at one destination.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UserFailures {
    /// The client's node.
    pub node: String,
    /// The destination.
    pub to: String,
    /// Start of the first one.
    pub from: f64,
    /// Start of the last one.
    pub until: f64,
    /// Number of failures.
    pub failures: usize,
    /// Number of requests in that time.
    pub requests: usize,
    /// The last error.
    pub error: String,
}

impl<'a> UserRequests<'a> {
    /// Wraps these requests.
    #[must_use]
    pub const fn new(requests: &'a [Request]) -> Self {
        Self { requests }
    }

    /// Reports whether some client's requests to a destination fail around a time: at least three in the last ten
    /// seconds, and a fifth of them.
    #[must_use]
    pub fn fail_at(&self, to: &str, time: f64) -> bool {
        let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        let recent = self
            .requests
            .iter()
            .filter(|request| request.to == to && request.at > time - WINDOW_S && request.at <= time);
        for request in recent {
            let (all, failed) = counts.entry(&request.node).or_default();
            *all += 1;
            *failed += usize::from(request.error.is_some());
        }
        counts
            .values()
            .any(|(all, failed)| *failed >= MIN_FAILURES && failed * 5 >= *all)
    }

    /// Reports whether they fail, and have failed for ten seconds.
    #[must_use]
    pub fn have_failed_at(&self, to: &str, time: f64) -> bool {
        self.fail_at(to, time) && self.fail_at(to, time - WINDOW_S)
    }

    /// Reports whether any request to one of several destinations failed between two times, from a given node or any.
    #[must_use]
    pub fn any_failed(&self, to: &[&str], node: Option<&str>, from: f64, until: f64) -> bool {
        self.failed(from, until)
            .any(|request| to.contains(&request.to.as_str()) && node.is_none_or(|node| node == request.node))
    }

    /// Reports whether every client that used a destination in the two minutes before a time has the result of a later
    /// request to it: requests that hang in name resolution are not in the log yet.
    #[must_use]
    pub fn have_reported_since(&self, time: f64) -> bool {
        let recent = self.within(time - RECENT_CLIENT_S, f64::INFINITY);
        let mut newest: BTreeMap<(&str, &str), f64> = BTreeMap::new();
        for request in recent {
            let at = newest.entry((&request.node, &request.to)).or_insert(request.at);
            *at = at.max(request.at);
        }
        newest.values().all(|at| *at >= time)
    }

    /// Returns failed requests between two times.
    pub fn failed(&self, from: f64, until: f64) -> impl Iterator<Item = &'a Request> + use<'a> {
        self.within(from, until).filter(|request| request.error.is_some())
    }

    fn within(&self, from: f64, until: f64) -> impl Iterator<Item = &'a Request> + use<'a> {
        let requests = self.requests.iter();
        requests.filter(move |request| request.at >= from && request.at <= until)
    }

    /// Returns destinations at which some client had an outage between two times.
    #[must_use]
    pub fn outages(&self, from: f64, until: f64) -> Vec<&'a str> {
        let mut found: Vec<&str> = Vec::new();
        for request in self.failed(from, until) {
            let new = !found.contains(&request.to.as_str());
            if new && self.fail_at(&request.to, request.at) {
                found.push(&request.to);
            }
        }
        found
    }

    /// Returns the number of requests between two times.
    #[must_use]
    pub fn count(&self, from: f64, until: f64) -> usize {
        self.within(from, until).count()
    }

    /// Returns all failures between two times, by client and destination.
    #[must_use]
    pub fn failures_by_client(&self, from: f64, until: f64) -> Vec<UserFailures> {
        let mut felt: BTreeMap<(&str, &str), UserFailures> = BTreeMap::new();
        for request in self.within(from, until) {
            let Some(error) = &request.error else { continue };
            let entry = felt
                .entry((&request.node, &request.to))
                .or_insert_with(|| UserFailures {
                    node: request.node.clone(),
                    to: request.to.clone(),
                    from: request.at,
                    until: request.at,
                    failures: 0,
                    requests: 0,
                    error: String::new(),
                });
            entry.until = entry.until.max(request.at);
            entry.from = entry.from.min(request.at);
            entry.failures += 1;
            entry.error.clone_from(error);
        }
        for felt in felt.values_mut() {
            felt.requests = self
                .within(from, until)
                .filter(|request| request.node == felt.node && request.to == felt.to)
                .filter(|request| request.at >= felt.from && request.at <= felt.until)
                .count();
        }
        felt.into_values().collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::judge) fn request(at: f64, to: &str, fails: bool) -> Request {
        Request {
            at,
            ms: 1,
            node: "n1".to_owned(),
            to: to.to_owned(),
            error: fails.then(|| "refused".to_owned()),
        }
    }

    #[test]
    fn an_outage_is_three_failures_and_a_fifth_of_the_requests_of_ten_seconds() {
        let requests: Vec<Request> = (0..30)
            .map(|second| request(f64::from(second), "host", (10..13).contains(&second)))
            .collect();
        let users = UserRequests::new(&requests);
        assert!(!users.fail_at("host", 11.0));
        assert!(users.fail_at("host", 12.0));
        assert!(!users.fail_at("service", 12.0));
        assert!(!users.fail_at("host", 25.0));
        assert!(!users.have_failed_at("host", 12.0));
        assert_eq!(users.outages(0.0, 30.0), ["host"]);
        let felt = users.failures_by_client(0.0, 30.0);
        assert_eq!((felt[0].failures, felt[0].requests), (3, 3));
        assert!(users.any_failed(&["host"], Some("n1"), 9.0, 11.0));
        assert!(!users.any_failed(&["host"], Some("n2"), 9.0, 11.0));
    }

    #[test]
    fn a_request_that_hangs_is_waited_for() {
        let mut requests = vec![
            request(10.0, "host", false),
            request(10.0, "ledger", false),
            request(21.0, "host", false),
        ];
        assert!(!UserRequests::new(&requests).have_reported_since(20.0));
        requests.push(request(20.5, "ledger", true));
        assert!(UserRequests::new(&requests).have_reported_since(20.0));
        // A client that is gone is not waited for.
        assert!(UserRequests::new(&requests[..1]).have_reported_since(200.0));
    }
}
