//! TLS termination in front of a Service's endpoints.

use super::{PlacedTarget, Topology};

/// The port of plain HTTP.
const HTTP_PORT: u16 = 80;

impl Topology {
    /// Reports whether TLS of a target ends at the balancer, so that the endpoints do not speak it: the Service
    /// maps its port 80 to the same endpoint port as the target's port.
    #[must_use]
    pub fn terminates_tls_before(&self, placed: &PlacedTarget) -> bool {
        let tls = placed.target.probe.is_tls();
        let plain = |(service, target_port): &(_, u16)| {
            self.service(service).is_some_and(|service| {
                let mut ports = service.ports.iter();
                ports.any(|port| port.port == HTTP_PORT && port.target_port == *target_port)
            })
        };
        tls && placed.entry.as_ref().is_some_and(plain)
    }
}
