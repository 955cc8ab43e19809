//! One fetch as another client makes it.

use std::net::IpAddr;

use parallax_model::{FailureKind, HttpProbe, Outcome, Phase, Scheme, proxied_by};
use parallax_prober::{
    AddressRule, ChallengeRequest, ClientProfile, ProbeContext, Profile, ResolverChoice, ValidationResult,
    validate,
};

use super::{args::CheckOptions, caa::CaaRecords};

/// Who fetches, and what must come.
#[derive(Debug, Clone)]
pub(super) struct ChallengeFetcher {
    pub(super) profile: Profile,
    choice: ResolverChoice,
    expected: Option<String>,
    issuer: String,
    account_uri: Option<String>,
}

impl ChallengeFetcher {
    /// As the command line says; absent where every address is looked at instead.
    pub(super) fn of(args: &CheckOptions) -> Option<Self> {
        let own = Profile::of(args.profile.client()?);
        let timeout = args.timeout.unwrap_or(own.timeout);
        let resolvers: Vec<_> = args
            .resolver
            .iter()
            .map(|resolver| resolver.or_port(53))
            .collect();
        Some(Self {
            profile: Profile {
                timeout,
                // One look is one fetch; `--repeat` makes more of them.
                passes: 1,
                ..own
            },
            choice: if resolvers.is_empty() {
                ResolverChoice::Machine
            } else {
                ResolverChoice::Servers(resolvers)
            },
            expected: args.expect_body.clone(),
            issuer: args.caa_issuer.clone(),
            account_uri: args.account_uri.clone(),
        })
    }

    pub(super) async fn fetch(&self, probe: &HttpProbe, context: &ProbeContext) -> ValidationResult {
        let challenge = ChallengeRequest {
            host: probe.host.to_string(),
            port: probe.port,
            path: probe.path.clone(),
            expected: self.expected.clone().unwrap_or_default(),
        };
        let mut fetched = validate(&self.profile, &challenge, &self.choice, context).await;
        // Nobody said what the content should be, so it cannot be wrong; everything before it held.
        if self.expected.is_none()
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

    /// The CAA records of the name, for an authority that looks at them. An address has none.
    pub(super) async fn caa(&self, host: &str, context: &ProbeContext) -> Option<CaaRecords> {
        if self.profile.client != ClientProfile::Boulder || host.parse::<IpAddr>().is_ok() {
            return None;
        }
        let account = self.account_uri.as_deref();
        Some(CaaRecords::of(host, &self.issuer, account, &self.choice, context).await)
    }

    /// What this client does otherwise than a careful one.
    pub(super) fn manners(&self, host: &str) -> Vec<String> {
        let profile = &self.profile;
        let who = match profile.client {
            ClientProfile::Generic => "a careful client",
            ClientProfile::CertManager => "cert-manager's self check",
            ClientProfile::Boulder => "Let's Encrypt's server",
            ClientProfile::Pebble => "Pebble, Let's Encrypt's test server",
        };
        let addresses = match profile.addresses {
            AddressRule::Raced => "races IPv6 and IPv4, so that one dead family stays unseen",
            AddressRule::V6ThenV4OnDialError => {
                "takes IPv6 first, and IPv4 only where that cannot be connected to"
            }
            AddressRule::FirstOnly => "takes the first address and no other",
        };
        let ports = match profile.redirects.ports {
            [] => "any port".to_owned(),
            some => format!(
                "the ports {}",
                some.iter().map(u16::to_string).collect::<Vec<_>>().join(" and ")
            ),
        };
        let hosts = if profile.redirects.public_hosts_only {
            "public hosts"
        } else {
            "any host"
        };
        let mut said = vec![
            format!("as {who}: {addresses}"),
            format!(
                "follows {} redirects to {hosts} and {ports}; certificates behind them are not verified; {} s for all of it",
                profile.redirects.most,
                profile.timeout.as_secs_f64(),
            ),
            format!("asks as {:?} and wants status 200", profile.user_agent),
        ];
        if !profile.reserved_allowed {
            said.push("private and reserved addresses are not connected to".to_owned());
        }
        let body = match (&self.expected, profile.body.most) {
            (Some(_), _) => None,
            (None, Some(most)) => Some(format!(
                "what the answer says is not compared, only that it has at most {most} bytes; see --expect-body"
            )),
            (None, None) => Some("what the answer says is not compared; see --expect-body".to_owned()),
        };
        said.extend(body);
        if profile.client == ClientProfile::CertManager {
            said.push("it asks five times, two seconds apart: --repeat 5 --interval 2s".to_owned());
        }
        let environment = |name: &str| std::env::var(name).ok();
        if profile.honours_proxy_environment
            && let Some(proxy) = proxied_by(environment, Scheme::Http, host, 80)
        {
            said.push(format!(
                "with this environment it would go through the proxy {proxy:?}; this look does not"
            ));
        }
        said
    }
}
