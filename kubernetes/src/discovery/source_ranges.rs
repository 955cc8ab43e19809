//! Load balancers that admit clients from certain addresses only.

use std::net::IpAddr;

use parallax_model::AddressRange;

use crate::objects::Service;

/// Reports whether a Service admits clients from certain addresses only, to which none of `addresses` belongs.
pub(super) fn refuses_all<'a>(object: &Service, mut addresses: impl Iterator<Item = &'a IpAddr>) -> bool {
    let ranges = object.spec.load_balancer_source_ranges.iter();
    let ranges: Vec<AddressRange> = ranges.filter_map(|text| text.trim().parse().ok()).collect();
    !ranges.is_empty() && !addresses.any(|address| ranges.iter().any(|range| range.contains(*address)))
}

#[cfg(test)]
mod tests {
    use parallax_diagnosis::topology::Topology;

    use super::super::tests::{Discovered, discovered};
    use crate::watch::TargetDefaults;

    /// Nodes, an application behind an Ingress, and the Service of the ingress controller with `ranges`.
    fn behind_ranges(ranges: &str) -> Discovered {
        let yaml = format!(
            r"
    - kind: Node
      metadata: {{name: n1}}
      status: {{addresses: [{{type: InternalIP, address: 192.0.2.11}}]}}
    - kind: Service
      metadata: {{namespace: ingress, name: edge}}
      spec:
        type: LoadBalancer
        clusterIPs: [10.96.0.60]
        loadBalancerSourceRanges: {ranges}
        ports: [{{name: http, port: 80}}]
      status: {{loadBalancer: {{ingress: [{{ip: 203.0.113.10}}]}}}}
    - kind: Service
      metadata: {{namespace: ingress, name: other}}
      spec:
        type: LoadBalancer
        clusterIPs: [10.96.0.61]
        loadBalancerSourceRanges: {ranges}
        ports: [{{name: http, port: 80}}]
      status: {{loadBalancer: {{ingress: [{{ip: 203.0.113.11}}]}}}}
    - kind: Ingress
      metadata: {{namespace: shop, name: web}}
      spec: {{rules: [{{host: shop.example.test}}]}}
      status: {{loadBalancer: {{ingress: [{{ip: 203.0.113.10}}]}}}}
    "
        );
        discovered(&yaml, TargetDefaults::Published)
    }

    #[test]
    fn a_balancer_that_refuses_every_node_is_not_in_service_for_the_probers() {
        let pending = |ranges: &str| -> Vec<String> {
            let topology = Topology::try_from(behind_ranges(ranges).spec).unwrap();
            let pending = topology
                .targets()
                .iter()
                .filter(|(_, target)| target.target.pending);
            pending.map(|(id, _)| id.to_string()).collect()
        };
        let refused = ["http://203.0.113.11/", "http://shop.example.test/"];
        assert_eq!(pending("[198.51.100.0/24]"), refused);
        assert_eq!(pending("[198.51.100.0/24, 2001:db8::/32]"), refused);
        for admitting in [
            "[]",
            "[0.0.0.0/0]",
            "[198.51.100.0/24, 192.0.2.0/28]",
            "[nonsense]",
        ] {
            assert!(pending(admitting).is_empty(), "{admitting}");
        }
        let notes = behind_ranges("[198.51.100.0/24]").notes;
        let about_ranges = notes
            .iter()
            .filter(|note| note.text.contains("loadBalancerSourceRanges"));
        let objects: Vec<&str> = about_ranges.map(|note| note.object.as_str()).collect();
        assert_eq!(objects, ["Service ingress/edge", "Service ingress/other"]);
    }
}
