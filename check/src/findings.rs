//! Findings in addition to failed addresses: answers that differ, certificates that expire soon, lost packets.

mod addresses;
mod names;

use std::net::{IpAddr, SocketAddr};

use parallax_model::Outcome;

use super::{
    explanation::Explanation,
    facts::FailureFacts,
    finding::{Finding, FindingLevel},
    outcome::in_words,
};
pub(super) use addresses::{check_addresses, check_dials};
pub(super) use names::{check_names, failure_text};

/// One address fails while another one works.
pub(super) const DEAD_ADDRESS: &str = "dead_address";
/// Two of the given resolvers return different addresses.
pub(super) const RESOLVERS_DIFFER: &str = "resolvers_differ";
/// One of the given resolvers returns no address, another one does.
pub(super) const RESOLVER_FAILS: &str = "resolver_fails";
/// The query for one address family fails although the other family has addresses.
pub(super) const FAMILY_FAILS: &str = "family_fails";
/// The addresses of one name respond with different statuses.
pub(super) const ANSWERS_DIFFER: &str = "answers_differ";
const HOSTS_FILE_DIFFERS: &str = "hosts_file_differs";
const NOT_IN_DNS: &str = "not_in_dns";
const LIBC_DIFFER: &str = "libc_differ";
const EXPIRES_SOON: &str = "expires_soon";
const NOT_VERIFIED: &str = "not_verified";
const PACKETS_LOST: &str = "packets_lost";
const STATUS: &str = "status";
const ADDRESSES_LEFT_OUT: &str = "addresses_left_out";

/// The findings of one pass.
#[derive(Debug, Default)]
pub(super) struct PassFindings(Vec<Finding>);

impl PassFindings {
    /// Adds a finding, merged with an equal one about other addresses.
    pub(super) fn add(
        &mut self,
        level: FindingLevel,
        id: &str,
        addresses: Vec<SocketAddr>,
        explanation: Explanation,
    ) {
        let same = self
            .0
            .iter_mut()
            .find(|known| known.level == level && known.id == id && known.said == explanation);
        match same {
            Some(known) => known.addresses.extend(addresses),
            None => self.0.push(Finding {
                level,
                id: id.to_owned(),
                addresses,
                said: explanation,
                times: 1,
            }),
        }
    }

    /// Adds an unsuccessful outcome as a finding whose id is the failure kind.
    pub(super) fn add_outcome(
        &mut self,
        outcome: &Outcome,
        facts: FailureFacts<'_>,
        addresses: Vec<SocketAddr>,
        level: FindingLevel,
    ) {
        let (level, id) = match outcome {
            Outcome::Ok { .. } => return,
            Outcome::Failed { kind, .. } => (level, kind.label().to_owned()),
            // A fault of this machine is at most `Unknown`.
            Outcome::NotProbed { fault: own } => (level.min(FindingLevel::Unknown), own.label().to_owned()),
        };
        self.add(level, &id, addresses, in_words(outcome, facts));
    }

    fn add_about_name(&mut self, level: FindingLevel, id: &str, summary: String, likely: &[&str]) {
        let likely = likely.iter().map(|reason| (*reason).to_owned()).collect();
        self.add(
            level,
            id,
            Vec::new(),
            Explanation {
                summary,
                likely_reasons: likely,
            },
        );
    }

    pub(super) fn into_findings(self) -> Vec<Finding> {
        self.0
    }
}

fn join_addresses(addresses: &[IpAddr]) -> String {
    addresses
        .iter()
        .map(IpAddr::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}
