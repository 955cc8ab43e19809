//! What a connection is evidence of: the front or the endpoints that it went to.

use parallax_model::Channel;

use super::{block::EvidenceKind, cells::Destination, routes::Routes, row::Row};

impl Row {
    /// What a connection is evidence of, and which endpoint it led to, where that is known.
    ///
    /// A headless Service has no address: its name leads to an endpoint, and connecting there is a direct connection. An
    /// address that is no endpoint of it (any more) is the name's affair, as is an address that a Service has lost: only
    /// a cache still knows it, and no front filters.
    pub(crate) fn connection(&self, routes: &Routes) -> Option<(EvidenceKind, Destination)> {
        if self.channel == Channel::Direct {
            return Some((self.direct(routes)?, self.endpoint()?));
        }
        // A node's own port is another way to the same entries: its cells belong beside those of the front.
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

    /// The endpoints that a direct probe is evidence of.
    ///
    /// A prober dials an endpoint that is gone until its plan catches up. Nobody is sent there any more, so what it finds
    /// is no evidence about those that are left.
    fn direct(&self, routes: &Routes) -> Option<EvidenceKind> {
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
