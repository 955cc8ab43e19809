//! Where TLS ends before it reaches a Service's endpoints.

use super::{PlacedTarget, Topology};

/// The port of plain HTTP.
const HTTP: u16 = 80;

impl Topology {
    /// Whether the endpoints of a target with TLS do not speak it, because the balancer in front of them does: the Service
    /// leads its port 80 to the very port of the endpoints that the target's leads to.
    #[must_use]
    pub fn ends_tls_before(&self, placed: &PlacedTarget) -> bool {
        let tls = placed.target.probe.is_tls();
        let plain = |(service, target_port): &(_, u16)| {
            self.service(service).is_some_and(|service| {
                let mut ports = service.ports.iter();
                ports.any(|port| port.port == HTTP && port.target_port == *target_port)
            })
        };
        tls && placed.entry.as_ref().is_some_and(plain)
    }
}
