//! A query to a resolver, or a lookup through the search list as a C library makes it.

use parallax_model::{DnsAnswer, DnsProbe, DnsTransport, OwnFault, Phase};

use super::{EndedProbe, Probe};
use crate::{
    dns::DnsTransportKind,
    failure::EarlyEnd,
    resolve::{self, UnresolvedName},
};

impl Probe<'_> {
    pub(super) async fn dns(&mut self, spec: &DnsProbe) -> Result<(), EndedProbe> {
        let answer = self.query_or_look_up(spec).await;
        self.timer.record(Phase::Resolve);
        match answer {
            Ok(answer) => {
                self.result.dns = answer;
                Ok(())
            }
            Err(unresolved) => {
                self.result.dns = unresolved.answer.map(|answer| *answer);
                Err(unresolved.stop.into())
            }
        }
    }

    async fn query_or_look_up(&self, spec: &DnsProbe) -> Result<Option<DnsAnswer>, UnresolvedName> {
        let resolver = &self.context.resolver;
        if let Some(manner) = spec.search {
            let found = resolver
                .lookup(spec.name.as_str(), manner, None, self.deadline)
                .await?;
            return Ok(found.answer);
        }
        let Some(server) = spec.resolver.or_else(|| resolver.first_server()) else {
            let stop = EarlyEnd::new(Phase::Resolve, OwnFault::NoResolver);
            return Err(stop.with_detail("resolv.conf contains no nameserver").into());
        };
        let transport = match spec.transport {
            DnsTransport::Udp => DnsTransportKind::Udp,
            DnsTransport::Tcp => DnsTransportKind::Tcp,
        };
        resolve::query(server, spec.name.as_str(), spec.record, transport, self.deadline)
            .await
            .map(Some)
    }
}
