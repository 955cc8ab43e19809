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
    Challenge, ClientProfile, Context, Profile, ResolverChoice, Tls, Validation, validate,
};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    dns::{ADDRESS, Names, Say, Zone, Zones},
    order::Pending,
    pebble::Pebble,
    scenario::{Family, Said, Scenario, Stage, Word},
    verdict::Told,
    web::{self, Shown},
};

/// Validations at a time. Each is eight fetches, and a name server that is asked too much at once would be a silent one.
const AT_ONCE: usize = 24;

/// A name server, a Pebble with an account, and a prober.
pub struct World {
    zones: Zones,
    _names: Names,
    shown: Shown,
    account: Account,
    context: Context,
    cases: AtomicU16,
    turns: Semaphore,
    _pebble: Pebble,
}

/// A name, and an order whose challenge waits.
pub struct Ordered {
    case: u16,
    name: String,
    pending: Pending,
}

/// What everybody says of one scenario.
#[derive(Debug)]
pub struct Judged {
    /// Pebble itself.
    pub pebble: Told,
    /// The profile of that name.
    pub as_pebble: Told,
    /// The other profile.
    pub as_boulder: Told,
    /// What that one saw.
    pub by_boulder: Validation,
    /// What the first one saw.
    pub by_pebble: Validation,
}

impl World {
    /// Starts everything.
    ///
    /// # Errors
    /// What is missing or does not come up.
    pub async fn start() -> anyhow::Result<Self> {
        // The ACME client and the servers take the process's provider; the second of several has nothing to install.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let zones = Zones::default();
        let names = Names::serve(zones.clone())?;
        let pebble = Pebble::start(ADDRESS).await?;
        let account = pebble.account().await?;
        Ok(Self {
            zones,
            _names: names,
            shown: Shown::make()?,
            account,
            context: Context::with_tls(PathBuf::from("/nonexistent/resolv.conf"), Tls::with_roots([])),
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
    pub async fn order(&self) -> anyhow::Result<Ordered> {
        let case = self.cases.fetch_add(1, Ordering::Relaxed);
        let name = format!("s{case}.acme.example.org");
        let pending = Pending::of(&self.account, &name).await?;
        Ok(Ordered { case, name, pending })
    }

    /// Puts a scenario on the stage and asks everybody at once.
    ///
    /// # Errors
    /// A scenario that cannot be staged, and a validation without a verdict.
    pub async fn judge(&self, scenario: &Scenario, ordered: Ordered) -> anyhow::Result<Judged> {
        let Ordered { case, name, pending } = ordered;
        let turn = self.turns.acquire().await.context("a turn")?;
        let stage = Stage {
            case,
            name,
            token: pending.token.clone(),
            key: pending.key.clone(),
        };
        let own = Family {
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
        Ok(Judged {
            pebble: pebble.context("Pebble's validation")?,
            as_pebble: Told::of(&by_pebble).context("the profile pebble")?,
            as_boulder: Told::of(&by_boulder).context("the profile boulder")?,
            by_boulder,
            by_pebble,
        })
    }

    async fn ask(&self, client: ClientProfile, stage: &Stage) -> Validation {
        let challenge = Challenge {
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

fn zone(family: &Family, stage: &Stage) -> anyhow::Result<Zone> {
    let say = |said: &Said, v4: bool| {
        let addresses = |names: &[String]| {
            names
                .iter()
                .map(|name| stage.of_range(name, v4))
                .collect::<anyhow::Result<Vec<_>>>()
        };
        anyhow::Ok(match said {
            Said::Addresses(names) => Say::Addresses(addresses(names)?),
            Said::Late {
                late_ms,
                addresses: names,
            } => Say::Late(Duration::from_millis(*late_ms), addresses(names)?),
            Said::Word(Word::None) => Say::Code(ResponseCode::NoError),
            Said::Word(Word::Nxdomain) => Say::Code(ResponseCode::NXDomain),
            Said::Word(Word::Servfail) => Say::Code(ResponseCode::ServFail),
            Said::Word(Word::Refused) => Say::Code(ResponseCode::Refused),
            Said::Word(Word::Silent) => Say::Nothing,
        })
    };
    Ok(Zone {
        a: say(&family.a, true)?,
        aaaa: say(&family.aaaa, false)?,
    })
}
