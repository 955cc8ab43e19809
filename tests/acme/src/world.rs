//! Everything a scenario needs, shared by those of one test.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

use anyhow::Context as _;
use hickory_proto::op::ResponseCode;
use instant_acme::Account;
use parallax_prober::{
    ChallengeRequest, ClientProfile, ProbeContext, Profile, ResolverChoice, TlsConfigs, ValidationResult,
    validate,
};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    dns::{ADDRESS, NameServer, ZoneAnswer, ZoneAnswers, ZoneTable},
    order::PendingOrder,
    pebble::Pebble,
    scenario::{FamilyAnswers, LookupFailure, Scenario, ScenarioNames, ScriptedAnswer},
    verdict::ExplainedVerdict,
    web::{self, SharedCertificates},
};

/// Validations at a time. Each is eight fetches, and a name server that is asked too much at once would be a silent one.
const AT_ONCE: usize = 24;

/// A name server, a Pebble with an account, and a prober.
pub struct TestEnvironment {
    zones: ZoneTable,
    _names: NameServer,
    shown: SharedCertificates,
    account: Account,
    context: ProbeContext,
    cases: AtomicU16,
    turns: Semaphore,
    _pebble: Pebble,
}

/// A name, and an order whose challenge waits.
pub struct OrderedName {
    case: u16,
    name: String,
    pending: PendingOrder,
}

/// What everybody says of one scenario.
#[derive(Debug)]
pub struct ScenarioVerdicts {
    /// Pebble itself.
    pub pebble: ExplainedVerdict,
    /// The profile of that name.
    pub as_pebble: ExplainedVerdict,
    /// The other profile.
    pub as_boulder: ExplainedVerdict,
    /// What that one saw.
    pub by_boulder: ValidationResult,
    /// What the first one saw.
    pub by_pebble: ValidationResult,
}

impl TestEnvironment {
    /// Starts everything.
    ///
    /// # Errors
    /// What is missing or does not come up.
    pub async fn start() -> anyhow::Result<Self> {
        // The ACME client and the servers take the process's provider; the second of several has nothing to install.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let zones = ZoneTable::default();
        let names = NameServer::serve(zones.clone())?;
        let pebble = Pebble::start(ADDRESS).await?;
        let account = pebble.account().await?;
        Ok(Self {
            zones,
            _names: names,
            shown: SharedCertificates::make()?,
            account,
            context: ProbeContext::with_tls(
                PathBuf::from("/nonexistent/resolv.conf"),
                TlsConfigs::with_roots([]),
            ),
            cases: AtomicU16::new(1),
            turns: Semaphore::new(AT_ONCE),
            _pebble: pebble,
        })
    }

    /// Orders a certificate for a name that no other case has.
    ///
    /// One after the other, and none while an authorization is asked for: a new order of Pebble 2.4.0 holds its store and
    /// waits for an authorization, and a question for an authorization holds that one and waits for the store.
    ///
    /// # Errors
    /// What Pebble has against it.
    pub async fn order(&self) -> anyhow::Result<OrderedName> {
        let case = self.cases.fetch_add(1, Ordering::Relaxed);
        let name = format!("s{case}.acme.example.org");
        let pending = PendingOrder::of(&self.account, &name).await?;
        Ok(OrderedName { case, name, pending })
    }

    /// Puts a scenario on the stage and asks everybody at once.
    ///
    /// # Errors
    /// A scenario that cannot be staged, and a validation without a verdict.
    pub async fn judge(&self, scenario: &Scenario, ordered: OrderedName) -> anyhow::Result<ScenarioVerdicts> {
        let OrderedName { case, name, pending } = ordered;
        let turn = self.turns.acquire().await.context("a turn")?;
        let stage = ScenarioNames {
            case,
            name,
            token: pending.token.clone(),
            key: pending.key.clone(),
        };
        let own = FamilyAnswers {
            a: scenario.a.clone(),
            aaaa: scenario.aaaa.clone(),
        };
        self.zones.set(stage.name.clone(), zone(&own, &stage)?);
        for (label, family) in &scenario.names {
            self.zones
                .set(format!("{label}.{}", stage.name), zone(family, &stage)?);
        }
        let mut servers = JoinSet::new();
        for server in &scenario.web {
            web::start(server, &stage, &self.shown, &mut servers).await?;
        }
        let (pebble, by_pebble, by_boulder) = tokio::join!(
            Box::pin(pending.validated()),
            Box::pin(self.ask(ClientProfile::Pebble, &stage)),
            Box::pin(self.ask(ClientProfile::Boulder, &stage)),
        );
        drop(turn);
        Ok(ScenarioVerdicts {
            pebble: pebble.context("Pebble's validation")?,
            as_pebble: ExplainedVerdict::of(&by_pebble).context("the profile pebble")?,
            as_boulder: ExplainedVerdict::of(&by_boulder).context("the profile boulder")?,
            by_boulder,
            by_pebble,
        })
    }

    async fn ask(&self, client: ClientProfile, stage: &ScenarioNames) -> ValidationResult {
        let challenge = ChallengeRequest {
            host: stage.name.clone(),
            port: 80,
            path: stage.path(),
            expected: stage.key.clone(),
        };
        let resolver = ADDRESS.parse().into_iter().collect();
        validate(
            &Profile::of(client),
            &challenge,
            &ResolverChoice::Servers(resolver),
            &self.context,
        )
        .await
    }
}

fn zone(family: &FamilyAnswers, stage: &ScenarioNames) -> anyhow::Result<ZoneAnswers> {
    let say = |said: &ScriptedAnswer, v4: bool| {
        let addresses = |names: &[String]| {
            names
                .iter()
                .map(|name| stage.of_range(name, v4))
                .collect::<anyhow::Result<Vec<_>>>()
        };
        anyhow::Ok(match said {
            ScriptedAnswer::Addresses(names) => ZoneAnswer::Addresses(addresses(names)?),
            ScriptedAnswer::Late {
                late_ms,
                addresses: names,
            } => ZoneAnswer::Late(Duration::from_millis(*late_ms), addresses(names)?),
            ScriptedAnswer::Word(LookupFailure::None) => ZoneAnswer::Code(ResponseCode::NoError),
            ScriptedAnswer::Word(LookupFailure::Nxdomain) => ZoneAnswer::Code(ResponseCode::NXDomain),
            ScriptedAnswer::Word(LookupFailure::Servfail) => ZoneAnswer::Code(ResponseCode::ServFail),
            ScriptedAnswer::Word(LookupFailure::Refused) => ZoneAnswer::Code(ResponseCode::Refused),
            ScriptedAnswer::Word(LookupFailure::Silent) => ZoneAnswer::Nothing,
        })
    };
    Ok(ZoneAnswers {
        a: say(&family.a, true)?,
        aaaa: say(&family.aaaa, false)?,
    })
}
