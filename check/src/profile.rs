//! Fetches a URL as the client of a profile does.

use std::net::IpAddr;

use parallax_model::{FailureKind, HttpProbe, Outcome, Phase, Scheme, proxy_for};
use parallax_prober::{
    AddressRule, ChallengeRequest, ClientProfile, ProbeContext, Profile, ResolverChoice, ValidationResult,
    validate,
};

use super::{args::CheckOptions, caa::CaaRecords};

/// The client to imitate, and the content it must receive.
#[derive(Debug, Clone)]
pub(super) struct ChallengeFetcher {
    pub(super) profile: Profile,
    resolvers: ResolverChoice,
    expected_body: Option<String>,
    issuer: String,
    account_uri: Option<String>,
}

impl ChallengeFetcher {
    /// Returns the fetcher for the options; `None` for the `generic` profile, which probes every address.
    pub(super) fn new(args: &CheckOptions) -> Option<Self> {
        let own = Profile::for_client(args.profile.client()?);
        let timeout = args.timeout.unwrap_or(own.timeout);
        let resolvers: Vec<_> = args
            .resolver
            .iter()
            .map(|resolver| resolver.with_default_port(53))
            .collect();
        Some(Self {
            profile: Profile {
                timeout,
                // One pass is one fetch; `--repeat` makes more of them.
                passes: 1,
                ..own
            },
            resolvers: if resolvers.is_empty() {
                ResolverChoice::Machine
            } else {
                ResolverChoice::Servers(resolvers)
            },
            expected_body: args.expect_body.clone(),
            issuer: args.caa_issuer.clone(),
            account_uri: args.account_uri.clone(),
        })
    }

    pub(super) async fn fetch(&self, probe: &HttpProbe, context: &ProbeContext) -> ValidationResult {
        let challenge = ChallengeRequest {
            host: probe.host.to_string(),
            port: probe.port,
            path: probe.path.clone(),
            expected: self.expected_body.clone().unwrap_or_default(),
        };
        let mut fetched = validate(&self.profile, &challenge, &self.resolvers, context).await;
        // Without `--expect-body` any content is right; all checks before that of the content have passed.
        if self.expected_body.is_none()
            && let Outcome::Failed {
                phase: Phase::Check,
                kind: FailureKind::WrongBody,
                status,
            } = fetched.outcome
        {
            fetched.outcome = Outcome::Ok { status };
            fetched.problem = None;
        }
        fetched
    }

    /// Looks up the CAA records of the name if the profile is a CA that checks them. Literal addresses have none.
    pub(super) async fn caa(&self, host: &str, context: &ProbeContext) -> Option<CaaRecords> {
        if self.profile.client != ClientProfile::Boulder || host.parse::<IpAddr>().is_ok() {
            return None;
        }
        let account = self.account_uri.as_deref();
        Some(CaaRecords::look_up(host, &self.issuer, account, &self.resolvers, context).await)
    }

    /// Describes how this client differs from the default of probing every address.
    pub(super) fn describe_rules(&self, host: &str) -> Vec<String> {
        let profile = &self.profile;
        let client = match profile.client {
            ClientProfile::Generic => "a careful client",
            ClientProfile::CertManager => "cert-manager's self check",
            ClientProfile::Boulder => "Let's Encrypt's server",
            ClientProfile::Pebble => "Pebble, Let's Encrypt's test server",
        };
        let addresses = match profile.addresses {
            AddressRule::Raced => "races IPv6 and IPv4, so a dead family goes unnoticed",
            AddressRule::V6ThenV4OnDialError => "uses IPv6 first, and IPv4 only after a failed connect",
            AddressRule::FirstOnly => "uses the first address only",
        };
        let ports = match profile.redirects.ports {
            [] => "any port".to_owned(),
            some => format!(
                "ports {}",
                some.iter().map(u16::to_string).collect::<Vec<_>>().join(" and ")
            ),
        };
        let hosts = if profile.redirects.public_hosts_only {
            "public hosts"
        } else {
            "any host"
        };
        let mut rules = vec![
            format!("as {client}: {addresses}"),
            format!(
                "follows up to {} redirects to {hosts} and {ports}; does not verify certificates there; total timeout {} s",
                profile.redirects.max,
                profile.timeout.as_secs_f64(),
            ),
            format!(
                "sends the user agent {:?} and expects status 200",
                profile.user_agent
            ),
        ];
        if !profile.reserved_allowed {
            rules.push("does not connect to private and reserved addresses".to_owned());
        }
        let body = match (&self.expected_body, profile.body.max) {
            (Some(_), _) => None,
            (None, Some(most)) => Some(format!(
                "does not compare the content, only checks that it has at most {most} bytes; see --expect-body"
            )),
            (None, None) => Some("does not compare the content; see --expect-body".to_owned()),
        };
        rules.extend(body);
        if profile.client == ClientProfile::CertManager {
            rules.push("fetches five times, two seconds apart: --repeat 5 --interval 2s".to_owned());
        }
        let environment = |name: &str| std::env::var(name).ok();
        if profile.uses_environment_proxy
            && let Some(proxy) = proxy_for(environment, Scheme::Http, host, 80)
        {
            rules.push(format!(
                "would use the proxy {proxy:?} of this environment; this check does not"
            ));
        }
        rules
    }
}
