//! A question to a resolver, or a walk of the search list as a client of a C library makes it.

use parallax_model::{DnsAnswer, DnsProbe, DnsTransport, OwnFault, Phase};

use super::{Ended, Probe};
use crate::{
    classify::Stop,
    dns::Transport,
    resolve::{self, Unresolved},
};

impl Probe<'_> {
    pub(super) async fn dns(&mut self, spec: &DnsProbe) -> Result<(), Ended> {
        let answer = self.asked(spec).await;
        self.laps.book(Phase::Resolve);
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

    async fn asked(&self, spec: &DnsProbe) -> Result<Option<DnsAnswer>, Unresolved> {
        let resolver = &self.context.resolver;
        if let Some(manner) = spec.search {
            let found = resolver.lookup(spec.name.as_str(), manner, self.deadline).await?;
            return Ok(found.answer);
        }
        let Some(server) = spec.resolver.or_else(|| resolver.first()) else {
            let stop = Stop::new(Phase::Resolve, OwnFault::NoResolver);
            return Err(stop.because("resolv.conf names no nameserver").into());
        };
        let transport = match spec.transport {
            DnsTransport::Udp => Transport::Udp,
            DnsTransport::Tcp => Transport::Tcp,
        };
        resolve::question(server, spec.name.as_str(), spec.record, transport, self.deadline)
            .await
            .map(Some)
    }
}
