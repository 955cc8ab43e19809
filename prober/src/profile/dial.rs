//! Connects to the addresses of a host in the order of a client profile.

use std::{
    net::{IpAddr, SocketAddr},
    pin::pin,
    time::Duration,
};

use futures_util::future::{Either, select};
use parallax_model::{FailureKind, OwnFault, Phase, Scheme, Scope};
use tokio::{net::TcpStream, time};

use super::{
    AddressRule,
    client::{ChallengeFetch, DialAttempt, DialOutcome},
};
use crate::{
    clock::Deadline,
    connect::{self, Stream},
    failure::{EarlyEnd, FailureOrigin},
    redirect::RequestDestination,
    tls::HandshakeOptions,
};

/// Head start of the first family before the other one is tried concurrently (Go's `FallbackDelay`).
const HEAD_START: Duration = Duration::from_millis(300);

/// Minimum share of the remaining time for each address, as long as there is that much (Go's `partialDeadline`).
const MIN_SHARE: Duration = Duration::from_secs(2);

/// The parameters that all attempts of one dial share.
#[derive(Debug, Clone, Copy)]
struct DialContext<'a> {
    port: u16,
    deadline: Deadline,
    scope: Option<&'a Scope>,
}

type DialResult = (Vec<DialAttempt>, Result<TcpStream, EarlyEnd>);

impl ChallengeFetch<'_> {
    /// Connects by the rules of the profile and records every attempt.
    pub(super) async fn dial(
        &mut self,
        at: &RequestDestination,
        addresses: &[IpAddr],
        deadline: Deadline,
    ) -> Result<TcpStream, EarlyEnd> {
        let deadline = match self.profile.dial_timeout {
            Some(timeout) => deadline.at_most(timeout),
            None => deadline,
        };
        let dialling = DialContext {
            port: at.port,
            deadline,
            scope: self.scope,
        };
        let (tried, opened) = match self.profile.addresses {
            AddressRule::Raced => race(dialling, addresses).await,
            AddressRule::V6ThenV4OnDialError | AddressRule::FirstOnly => {
                let first = &addresses[..addresses.len().min(1)];
                dial_sequentially(dialling, first).await
            }
        };
        self.dials.extend(tried);
        opened
    }

    /// Performs the TLS handshake for `https`, which occurs only after a redirect. None of the clients verifies the
    /// certificate there.
    pub(super) async fn with_tls(&self, at: &RequestDestination, tcp: TcpStream) -> Result<Stream, EarlyEnd> {
        if at.scheme == Scheme::Http {
            return Ok(Stream::Left(tcp));
        }
        let deadline = match self.profile.handshake_timeout {
            Some(timeout) => self.deadline.at_most(timeout),
            None => self.deadline,
        };
        let handshake = HandshakeOptions {
            client_certificate: None,
            host: &at.host,
            alpn: &[],
            verify: false,
            extra_roots: &[],
        };
        let tls_result = self.context.tls.connect(handshake, tcp, deadline).await;
        Ok(Stream::Right(tls_result.result?))
    }
}

/// Tries IPv6 first, and IPv4 concurrently after the head start or as soon as IPv6 has failed.
async fn race(dialling: DialContext<'_>, addresses: &[IpAddr]) -> DialResult {
    let (v6, v4): (Vec<IpAddr>, Vec<IpAddr>) = addresses.iter().partition(|address| address.is_ipv6());
    let (first, second) = if v6.is_empty() { (v4, v6) } else { (v6, v4) };
    let mut lead = pin!(dial_sequentially(dialling, &first));
    match time::timeout(HEAD_START, &mut lead).await {
        Ok(ended) => then_other_family(ended, dial_sequentially(dialling, &second)).await,
        Err(_) if second.is_empty() => lead.await,
        Err(_) => match select(lead, pin!(dial_sequentially(dialling, &second))).await {
            Either::Left((ended, other)) => then_other_family(ended, other).await,
            Either::Right(((mut tried, Ok(stream)), _)) => {
                tried.insert(0, overtaken(dialling.port, &first));
                (tried, Ok(stream))
            }
            Either::Right((ended, lead)) => then_other_family(ended, lead).await,
        },
    }
}

/// Tries the addresses in turn, each with its share of the remaining time.
async fn dial_sequentially(dialling: DialContext<'_>, addresses: &[IpAddr]) -> DialResult {
    let deadline = dialling.deadline;
    let mut tried = Vec::new();
    let mut ended = Err(EarlyEnd::new(Phase::Resolve, FailureKind::NoAddress));
    for (n, address) in addresses.iter().enumerate() {
        let address = SocketAddr::new(*address, dialling.port);
        if deadline.remaining().is_zero() {
            // Even an immediate connection would be too late.
            ended = Err(EarlyEnd::timeout(Phase::Connect));
            break;
        }
        let share = share(deadline.remaining(), addresses.len() - n);
        ended = match out_of_scope(address.ip(), dialling.scope) {
            Some(stop) => Err(stop),
            None => connect::connect(address, deadline.at_most(share)).await.result,
        };
        let outcome = match &ended {
            Ok(_) => DialOutcome::Connected,
            Err(EarlyEnd {
                origin: FailureOrigin::Target(kind),
                ..
            }) => DialOutcome::Failed(kind.clone()),
            // No connection was attempted, so nothing is known about the address.
            Err(EarlyEnd {
                origin: FailureOrigin::Own(_),
                ..
            }) => continue,
        };
        tried.push(DialAttempt { address, outcome });
        if ended.is_ok() {
            break;
        }
    }
    (tried, ended)
}

/// Returns the fault for an address outside the scope, whatever name or redirect led to it.
fn out_of_scope(address: IpAddr, scope: Option<&Scope>) -> Option<EarlyEnd> {
    let range = scope?.refusal(address)?;
    Some(
        EarlyEnd::new(Phase::Connect, OwnFault::OutOfScope).with_detail(format!(
            "{address} is {}, which must not be probed",
            range.description()
        )),
    )
}

/// Returns the share of the remaining time for the next of `addresses` addresses.
fn share(left: Duration, addresses: usize) -> Duration {
    let equal = left / u32::try_from(addresses).unwrap_or(u32::MAX).max(1);
    if equal < MIN_SHARE {
        left.min(MIN_SHARE)
    } else {
        equal
    }
}

/// Continues with the other family after a dial error.
async fn then_other_family(
    (mut tried, opened): DialResult,
    rest: impl Future<Output = DialResult>,
) -> DialResult {
    if opened.is_ok() {
        return (tried, opened);
    }
    let (more, later) = rest.await;
    if more.is_empty() {
        return (tried, opened);
    }
    tried.extend(more);
    (tried, later)
}

/// The entry for the family that had not connected by then.
fn overtaken(port: u16, first: &[IpAddr]) -> DialAttempt {
    DialAttempt {
        address: SocketAddr::new(first.first().copied().unwrap_or(IpAddr::from([0; 4])), port),
        outcome: DialOutcome::Overtaken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_several_addresses_has_its_share_of_the_time_but_never_less_than_two_seconds() {
        for (left, addresses, expected) in [
            (10_000, 1, 10_000),
            (10_000, 2, 5_000),
            (10_000, 5, 2_000),
            (10_000, 8, 2_000),
            (1_500, 3, 1_500),
            (0, 2, 0),
        ] {
            let share = share(Duration::from_millis(left), addresses);
            assert_eq!(
                share,
                Duration::from_millis(expected),
                "{left} ms for {addresses}"
            );
        }
    }
}
