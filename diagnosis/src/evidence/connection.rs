//! Attributes a connection to the front or the endpoints that it went to.

use parallax_model::Channel;

use super::{block::EvidenceKind, cells::Destination, routes::Routes, row::Row};

impl Row {
    /// Returns what a connection is evidence about, and the endpoint it reached, if known.
    ///
    /// A headless Service has no address: its name resolves to an endpoint, and connecting there is a direct
    /// connection. If the address is not (or no longer) one of its endpoints, the fault lies with the name. The same
    /// holds for an address that a Service has lost: only caches still return it, and it is no evidence about a
    /// front.
    pub(crate) fn connection_evidence(&self, routes: &Routes) -> Option<(EvidenceKind, Destination)> {
        if self.channel == Channel::Direct {
            return Some((self.direct_evidence(routes)?, self.endpoint()?));
        }
        // A node port is another path to the same entries; its cells belong with those of the front.
        let front = match self.channel {
            Channel::NodePort => routes.of(self.target).front,
            _ => self.front(routes),
        }?;
        let unknown = !routes.fronts.contains_key(&front);
        if let Some((service, port)) = routes.of(self.target).entry
            && let Some(endpoints) = routes.headless.get(&service)
            && unknown
        {
            let pod = endpoints.get(&front.address.ip())?;
            return (front.address.port() == port)
                .then_some((EvidenceKind::Direct(service, port), Destination::Entry(*pod)));
        }
        if unknown && routes.former.contains_key(&front.address.ip()) {
            return None;
        }
        Some((
            EvidenceKind::Vip(front),
            self.endpoint().unwrap_or(Destination::Unknown),
        ))
    }

    /// Returns the endpoints that a direct probe is evidence about.
    ///
    /// A prober still probes a removed endpoint until it gets a new plan. Clients no longer connect there, so the
    /// result is no evidence about the remaining endpoints.
    fn direct_evidence(&self, routes: &Routes) -> Option<EvidenceKind> {
        let (service, port) = routes.of(self.target).entry?;
        let gone = self.entry.is_some_and(|pod| {
            !routes
                .usable
                .get(&service)
                .is_some_and(|pods| pods.contains(&pod))
        });
        (!gone).then_some(EvidenceKind::Direct(service, port))
    }
}
