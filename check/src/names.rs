//! The addresses of a name from each source: the hosts file, the resolvers, this machine's name service.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use parallax_model::{FailureKind, Micros, SearchManner};
use parallax_prober::{
    FamilyAnswer, ProbeContext, Resolution, ResolverChoice, TriedName, libc_answers, resolve_all,
};
use tokio::time;

/// The sources to query.
#[derive(Debug, Clone)]
pub(super) enum NameSources {
    /// The sources that programs on this machine use: hosts file, then resolv.conf.
    Machine {
        hosts: PathBuf,
        /// Whether to fall back to the C library, which reads its own configuration files.
        name_service: bool,
    },
    /// The given resolvers, each queried separately.
    Resolvers(Vec<SocketAddr>),
}

/// The source of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AnswerSource {
    /// None: the name is an address, or `localhost`.
    Literal,
    /// `--connect-to`.
    Forced,
    /// The hosts file.
    Hosts,
    /// DNS, with the machine's resolv.conf.
    ResolvConf,
    /// DNS, with a resolver of `--resolver`.
    Resolver(SocketAddr),
    /// The C library of this machine, with nsswitch.conf.
    NameService,
}

/// The answer of one source.
#[derive(Debug, Clone)]
pub(super) struct NameAnswer {
    pub(super) source: AnswerSource,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) duration: Micros,
    /// The details of a DNS lookup.
    pub(super) dns: Option<Resolution>,
}

/// The answers of all sources for one name.
#[derive(Debug, Clone, Default)]
pub(super) struct NameLookup {
    pub(super) answers: Vec<NameAnswer>,
    /// The answer that musl gets, if it differs from that of glibc.
    pub(super) musl_answer: Option<Resolution>,
}

impl NameLookup {
    /// Returns a lookup with the addresses of `--connect-to`.
    pub(super) fn forced(addresses: impl Iterator<Item = IpAddr>) -> Self {
        Self {
            answers: vec![NameAnswer::without_dns(AnswerSource::Forced, addresses.collect())],
            musl_answer: None,
        }
    }

    /// Queries all sources, each within the deadline.
    pub(super) async fn query(
        host: &str,
        sources: &NameSources,
        context: &ProbeContext,
        deadline: Duration,
    ) -> Self {
        match sources {
            NameSources::Resolvers(resolvers) => Self {
                answers: join_all(
                    resolvers
                        .iter()
                        .map(|one| query_resolver(host, *one, context, deadline)),
                )
                .await,
                musl_answer: None,
            },
            NameSources::Machine { hosts, name_service } => {
                let text = fs::read_to_string(hosts).unwrap_or_default();
                let mut lookup =
                    Self::query_machine(host, hosts_file_addresses(&text, host), context, deadline).await;
                if *name_service && lookup.addresses().is_empty() {
                    lookup.answers.extend(query_name_service(host, deadline).await);
                }
                lookup
            }
        }
    }

    async fn query_machine(
        host: &str,
        hosts: Vec<IpAddr>,
        context: &ProbeContext,
        deadline: Duration,
    ) -> Self {
        let begun = Instant::now();
        let both = libc_answers(context, host, deadline).await;
        let took = begun.elapsed().into();
        let musl = both.differ().then(|| both.musl.clone());
        let literal = both.glibc.tried.is_empty() && !both.glibc.addresses.is_empty();
        let source = if literal {
            AnswerSource::Literal
        } else {
            AnswerSource::ResolvConf
        };
        let mut answers = Vec::new();
        if !literal && !hosts.is_empty() {
            answers.push(NameAnswer::without_dns(AnswerSource::Hosts, hosts));
        }
        answers.push(NameAnswer::from_dns(source, both.glibc, took));
        Self {
            answers,
            musl_answer: musl,
        }
    }

    /// All distinct addresses, in the order of the answers.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        let mut all = Vec::new();
        for address in self.answers.iter().flat_map(|answer| &answer.addresses) {
            if !all.contains(address) {
                all.push(*address);
            }
        }
        all
    }

    /// The addresses that programs on this machine get: those of the hosts file take precedence.
    pub(super) fn effective_addresses(&self) -> Vec<IpAddr> {
        match self
            .answers
            .iter()
            .find(|answer| answer.source == AnswerSource::Hosts)
        {
            Some(hosts) => hosts.addresses.clone(),
            None => self.addresses(),
        }
    }

    /// The reason why there is no address; `None` if there is one.
    pub(super) fn failure(&self) -> Option<FamilyAnswer> {
        if self.answers.iter().any(|answer| !answer.addresses.is_empty()) {
            return None;
        }
        let failure = self
            .answers
            .iter()
            .find_map(|answer| answer.dns.as_ref()?.failure().cloned());
        Some(failure.unwrap_or(FamilyAnswer::Failed {
            kind: FailureKind::NoAddress,
            detail: None,
        }))
    }

    /// The names tried along the search list, in order.
    pub(super) fn tried(&self) -> &[TriedName] {
        self.answers
            .iter()
            .find_map(|answer| answer.dns.as_ref())
            .map_or(&[], |resolution| &resolution.tried)
    }
}

impl NameAnswer {
    fn without_dns(source: AnswerSource, addresses: Vec<IpAddr>) -> Self {
        Self {
            source,
            addresses,
            duration: Micros::default(),
            dns: None,
        }
    }

    fn from_dns(source: AnswerSource, resolution: Resolution, took: Micros) -> Self {
        Self {
            source,
            addresses: resolution.addresses.iter().map(|found| found.address).collect(),
            duration: took,
            dns: Some(resolution),
        }
    }

    /// The distinct addresses in sorted order, for comparison.
    pub(super) fn sorted_addresses(&self) -> Vec<IpAddr> {
        let mut addresses = self.addresses.clone();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }
}

async fn query_resolver(
    host: &str,
    resolver: SocketAddr,
    context: &ProbeContext,
    deadline: Duration,
) -> NameAnswer {
    let begun = Instant::now();
    let choice = ResolverChoice::Servers(vec![resolver]);
    let answer = resolve_all(context, host, &choice, SearchManner::Glibc, deadline).await;
    let source = if answer.tried.is_empty() && !answer.addresses.is_empty() {
        AnswerSource::Literal
    } else {
        AnswerSource::Resolver(resolver)
    };
    NameAnswer::from_dns(source, answer, begun.elapsed().into())
}

/// Queries the C library, which also knows names that are not in DNS: mDNS, a directory, the machine's own name.
async fn query_name_service(host: &str, deadline: Duration) -> Option<NameAnswer> {
    let begun = Instant::now();
    let found = time::timeout(deadline, tokio::net::lookup_host((host, 0)))
        .await
        .ok()?
        .ok()?;
    let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    addresses.dedup();
    (!addresses.is_empty()).then(|| NameAnswer {
        duration: begun.elapsed().into(),
        ..NameAnswer::without_dns(AnswerSource::NameService, addresses)
    })
}

/// Returns the addresses of a name in the text of a hosts file (`hosts(5)`).
fn hosts_file_addresses(text: &str, host: &str) -> Vec<IpAddr> {
    let host = host.trim_end_matches('.');
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(address) = words.next().and_then(|word| word.parse().ok()) else {
            continue;
        };
        if words.any(|name| name.eq_ignore_ascii_case(host)) && !found.contains(&address) {
            found.push(address);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_file_names_addresses_case_and_comments_aside() {
        let text =
            "# 192.0.2.9 shop\n192.0.2.1\tshop.example.test SHOP # web\nnonsense shop\n2001:db8::1 shop\n";
        let found = hosts_file_addresses(text, "Shop");
        assert_eq!(
            found,
            [
                "192.0.2.1".parse::<IpAddr>().unwrap(),
                "2001:db8::1".parse().unwrap()
            ]
        );
        assert_eq!(hosts_file_addresses(text, "web"), Vec::<IpAddr>::new());
    }

    #[test]
    fn the_hosts_file_has_the_last_word_for_programs_but_dns_is_kept() {
        let [hosts, dns]: [IpAddr; 2] = ["192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()];
        let lookup = NameLookup {
            answers: vec![
                NameAnswer::without_dns(AnswerSource::Hosts, vec![hosts]),
                NameAnswer::without_dns(AnswerSource::ResolvConf, vec![dns, hosts]),
            ],
            musl_answer: None,
        };
        assert_eq!(lookup.addresses(), [hosts, dns]);
        assert_eq!(lookup.effective_addresses(), [hosts]);
    }
}
