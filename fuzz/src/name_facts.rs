//! DNS facts that several probers report of a name: answers of resolvers and authoritative servers, and CAA records. Each line is
//! one vantage's report.

use parallax_api::names::CaaState;
use parallax_model::{Vantage, dns::NameSight};
use parallax_preflight::{QueriedResolvers, judge_names, name_facts};

use crate::work::bounded;

/// Bytes allocated for each byte of a report.
const FACTOR: u64 = 1_024;

/// Reads the bytes as lines of JSON, and judges them for a CA.
pub fn check(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n');
    let sights: Vec<(Vantage, NameSight)> = lines
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    let queried = QueriedResolvers {
        public: true,
        authoritative: false,
    };
    let identities = ["letsencrypt.org".to_owned()];
    let (facts, verdict) = bounded(bytes, FACTOR, |_| {
        let facts = name_facts("shop.example.com", &sights, queried);
        let verdict = judge_names(&facts, &identities, None);
        (facts, verdict)
    });
    let chains = sights.iter().filter(|(_, sight)| !sight.caa.is_empty()).count();
    assert_eq!(facts.caa.len(), chains, "a chain is lost or invented");
    // Without a record of a public server, nothing is known of what a CA would see: it is never allowed or forbidden.
    if facts.caa.iter().all(|chain| !chain.public) {
        assert!(matches!(verdict.caa, CaaState::NotQueried | CaaState::Unknown));
    }
    // The order in which vantages report changes no verdict on who may issue.
    let mut reversed = sights;
    reversed.reverse();
    let again = judge_names(
        &name_facts("shop.example.com", &reversed, queried),
        &identities,
        None,
    );
    assert_eq!(again.caa, verdict.caa);
}
