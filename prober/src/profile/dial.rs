//! Which of a host's addresses a client connects to, and in what order.

use std::{
    net::{IpAddr, SocketAddr},
    pin::pin,
    time::Duration,
};

use futures_util::future::{Either, select};
use parallax_model::{FailureKind, OwnFault, Phase, Scheme};
use tokio::time;

use super::{
    AddressRule,
    client::{DialOutcome, DialTried, Fetch},
};
use crate::{
    classify::{Fault, Stop},
    laps::Laps,
    probe::{
        leg::{Leg, Opening, Stream},
        place::Place,
    },
    tls::Handshake,
};

/// How long the one family has before the other one is tried beside it (Go's `FallbackDelay`).
const HEAD_START: Duration = Duration::from_millis(300);

type Dialled = (Vec<DialTried>, Result<Stream, Stop>);

impl Fetch<'_> {
    /// Connects as the profile says; every address that was tried is kept.
    pub(super) async fn dial(&mut self, at: &Place, addresses: &[IpAddr]) -> Result<Stream, Stop> {
        match self.profile.addresses {
            AddressRule::Raced => self.race(at, addresses).await,
            AddressRule::V6ThenV4OnDialError | AddressRule::FirstOnly => {
                let (tried, opened) = self
                    .one_after_the_other(at, &addresses[..addresses.len().min(1)])
                    .await;
                self.dials.extend(tried);
                opened
            }
        }
    }

    /// IPv6 first, IPv4 beside it after the head start or as soon as IPv6 has failed.
    async fn race(&mut self, at: &Place, addresses: &[IpAddr]) -> Result<Stream, Stop> {
        let (v6, v4): (Vec<IpAddr>, Vec<IpAddr>) = addresses.iter().partition(|address| address.is_ipv6());
        let (first, second) = if v6.is_empty() { (v4, v6) } else { (v6, v4) };
        let (tried, opened) = {
            let this = &*self;
            let mut lead = pin!(this.one_after_the_other(at, &first));
            match time::timeout(HEAD_START, &mut lead).await {
                Ok(ended) => or_else(ended, this.one_after_the_other(at, &second)).await,
                Err(_) if second.is_empty() => lead.await,
                Err(_) => match select(lead, pin!(this.one_after_the_other(at, &second))).await {
                    Either::Left((ended, other)) => or_else(ended, other).await,
                    Either::Right(((mut tried, Ok(stream)), _)) => {
                        tried.insert(0, overtaken(at, &first));
                        (tried, Ok(stream))
                    }
                    Either::Right((ended, lead)) => or_else(ended, lead).await,
                },
            }
        };
        self.dials.extend(tried);
        opened
    }

    async fn one_after_the_other(&self, at: &Place, addresses: &[IpAddr]) -> Dialled {
        let mut tried = Vec::new();
        let mut ended = Err(Stop::new(Phase::Resolve, FailureKind::NoAddress));
        for address in addresses {
            let address = SocketAddr::new(*address, at.port);
            // Boxed: two of these race, and a preflight is not counted in microseconds.
            ended = Box::pin(self.open(at, address)).await;
            let outcome = match &ended {
                // Nothing was connected to, so nothing is known of the address.
                Err(Stop {
                    fault: Fault::Own(_), ..
                }) => continue,
                Err(Stop {
                    phase: Phase::Connect,
                    fault: Fault::Target(kind),
                    ..
                }) => DialOutcome::Failed(kind.clone()),
                _ => DialOutcome::Connected,
            };
            let done = outcome == DialOutcome::Connected;
            tried.push(DialTried { address, outcome });
            if done {
                break;
            }
        }
        (tried, ended)
    }

    async fn open(&self, at: &Place, address: SocketAddr) -> Result<Stream, Stop> {
        if let Some(why) = self.scope.and_then(|scope| scope.refuses(address.ip())) {
            return Err(Stop::new(Phase::Connect, OwnFault::OutOfScope).because(format!(
                "{} is {}, which may not be asked for",
                address.ip(),
                why.words()
            )));
        }
        let deadline = match self.profile.dial_timeout {
            Some(timeout) => self.deadline.at_most(timeout),
            None => self.deadline,
        };
        let opening = Opening {
            // After a redirect nobody of them verifies the certificate.
            tls: (at.scheme == Scheme::Https).then_some(Handshake {
                host: &at.host,
                alpn: &[],
                verify: false,
            }),
            ..Opening::default()
        };
        Leg::default()
            .open(self.context, address, opening, deadline, &mut Laps::start())
            .await
    }
}

/// The other family's turn after a dial error. Once connected the race is over: a failed handshake has no second try.
async fn or_else((mut tried, opened): Dialled, rest: impl Future<Output = Dialled>) -> Dialled {
    if !matches!(&opened, Err(stop) if stop.phase == Phase::Connect) {
        return (tried, opened);
    }
    let (more, later) = rest.await;
    if more.is_empty() {
        return (tried, opened);
    }
    tried.extend(more);
    (tried, later)
}

/// The family that had not answered by then.
fn overtaken(at: &Place, first: &[IpAddr]) -> DialTried {
    DialTried {
        address: SocketAddr::new(first.first().copied().unwrap_or(IpAddr::from([0; 4])), at.port),
        outcome: DialOutcome::Overtaken,
    }
}
