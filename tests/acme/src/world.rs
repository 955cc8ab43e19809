//! Everything that scenarios need, shared by all scenarios of a test.

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

/// Concurrent validations. Each makes eight fetches, and an overloaded name server would appear silent.
const MAX_CONCURRENT_VALIDATIONS: usize = 24;

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

/// A name with an order whose challenge has not been accepted.
pub struct OrderedName {
    case: u16,
    name: String,
    pending: PendingOrder,
}

/// All verdicts on one scenario.
#[derive(Debug)]
pub struct ScenarioVerdicts {
    /// Pebble's verdict.
    pub pebble: ExplainedVerdict,
    /// Verdict of the profile `pebble`.
    pub as_pebble: ExplainedVerdict,
    /// Verdict of the profile `boulder`.
    pub as_boulder: ExplainedVerdict,
    /// Result of the profile `boulder`.
    pub boulder_result: ValidationResult,
    /// Result of the profile `pebble`.
    pub pebble_result: ValidationResult,
}

impl TestEnvironment {
    /// Starts everything.
    ///
    /// # Errors
    /// A missing program, or one that does not start.
    pub async fn start() -> anyhow::Result<Self> {
        // The ACME client and the servers use the process's provider; only the first of several is installed.
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
            turns: Semaphore::new(MAX_CONCURRENT_VALIDATIONS),
            _pebble: pebble,
        })
    }

    /// Orders a certificate for a unique name.
    ///
    /// Sequentially, and never while an authorization is fetched: in Pebble 2.4.0 a new order locks its store and
    /// waits for an authorization, and a request for an authorization locks that and waits for the store.
    ///
    /// # Errors
    /// Pebble's error.
    pub async fn order(&self) -> anyhow::Result<OrderedName> {
        let case = self.cases.fetch_add(1, Ordering::Relaxed);
        let name = format!("s{case}.acme.example.org");
        let pending = PendingOrder::new(&self.account, &name).await?;
        Ok(OrderedName { case, name, pending })
    }

    /// Sets up a scenario and runs all validations concurrently.
    ///
    /// # Errors
    /// A scenario that cannot be set up, or a validation without a verdict.
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
            Box::pin(pending.validate()),
            Box::pin(self.ask(ClientProfile::Pebble, &stage)),
            Box::pin(self.ask(ClientProfile::Boulder, &stage)),
        );
        drop(turn);
        Ok(ScenarioVerdicts {
            pebble: pebble.context("Pebble's validation")?,
            as_pebble: ExplainedVerdict::from_validation(&by_pebble).context("the profile pebble")?,
            as_boulder: ExplainedVerdict::from_validation(&by_boulder).context("the profile boulder")?,
            boulder_result: by_boulder,
            pebble_result: by_pebble,
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
            &Profile::for_client(client),
            &challenge,
            &ResolverChoice::Servers(resolver),
            &self.context,
        )
        .await
    }
}

fn zone(family: &FamilyAnswers, stage: &ScenarioNames) -> anyhow::Result<ZoneAnswers> {
    let zone_answer = |script: &ScriptedAnswer, v4: bool| {
        let addresses = |names: &[String]| {
            names
                .iter()
                .map(|name| stage.of_range(name, v4))
                .collect::<anyhow::Result<Vec<_>>>()
        };
        anyhow::Ok(match script {
            ScriptedAnswer::Addresses(names) => ZoneAnswer::Addresses(addresses(names)?),
            ScriptedAnswer::Late {
                late_ms,
                addresses: names,
            } => ZoneAnswer::Late(Duration::from_millis(*late_ms), addresses(names)?),
            ScriptedAnswer::Failure(LookupFailure::None) => ZoneAnswer::Code(ResponseCode::NoError),
            ScriptedAnswer::Failure(LookupFailure::Nxdomain) => ZoneAnswer::Code(ResponseCode::NXDomain),
            ScriptedAnswer::Failure(LookupFailure::Servfail) => ZoneAnswer::Code(ResponseCode::ServFail),
            ScriptedAnswer::Failure(LookupFailure::Refused) => ZoneAnswer::Code(ResponseCode::Refused),
            ScriptedAnswer::Failure(LookupFailure::Silent) => ZoneAnswer::Nothing,
        })
    };
    Ok(ZoneAnswers {
        a: zone_answer(&family.a, true)?,
        aaaa: zone_answer(&family.aaaa, false)?,
    })
}
