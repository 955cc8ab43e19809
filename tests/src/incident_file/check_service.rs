//! Checks of an incident's Services and their servers.

use super::check::{CheckResult, invalid};
use crate::{
    cluster::addresses,
    incident::{BalancingMode, IpMode, ServerSoftware, ServerSpec, Service, ServiceType},
};

pub(super) fn check_service(field: &str, service: &Service) -> CheckResult {
    if let Some(ip) = service.cluster_ip
        && !addresses::is_service_address(ip)
    {
        return invalid(
            format!("{field}.clusterIP"),
            format!(
                "expected an address of {} other than {}, got {ip}",
                addresses::SERVICE_CIDR,
                addresses::DNS_SERVICE,
            ),
        );
    }
    if service.cluster_ip.is_none() && service.kind == ServiceType::LoadBalancer {
        return invalid(
            format!("{field}.clusterIP"),
            "expected an address for type LoadBalancer",
        );
    }
    if service.absent
        && (service.kind == ServiceType::LoadBalancer
            || !service.endpoints.is_empty()
            || service.behind.is_some())
    {
        return invalid(
            format!("{field}.absent"),
            "expected only with type ClusterIP and without Pods, which are added by `start-pod`",
        );
    }
    if (service.kind == ServiceType::LoadBalancer) != service.load_balancer_ip.is_some() {
        return invalid(
            format!("{field}.loadBalancerIP"),
            "expected exactly with type LoadBalancer",
        );
    }
    if service
        .load_balancer_ip
        .is_some_and(addresses::belongs_to_the_lab)
    {
        return invalid(
            format!("{field}.loadBalancerIP"),
            "expected an address outside 10.0.0.0/8 and 192.168.0.0/16, which the lab uses",
        );
    }
    if service.load_balancer_ip.is_none() && service.ip_mode == IpMode::Proxy {
        return invalid(format!("{field}.ipMode"), "expected only with type LoadBalancer");
    }
    check_server(&format!("{field}.server"), service, &service.server)?;
    if service.ports.is_empty() {
        return invalid(format!("{field}.ports"), "expected at least one port");
    }
    for (i, port) in service.ports.iter().enumerate() {
        if (service.kind == ServiceType::LoadBalancer) != port.node_port.is_some() {
            return invalid(
                format!("{field}.ports[{i}].nodePort"),
                "expected exactly with type LoadBalancer",
            );
        }
    }
    Ok(())
}

/// Checks features that the lab has for IPv4 only.
pub(super) fn check_dual_stack(field: &str, service: &Service) -> CheckResult {
    if service.server.software != ServerSoftware::Lab {
        return invalid(
            format!("{field}.server.software"),
            "expected lab in a dual-stack cluster: the others listen only on IPv4",
        );
    }
    if service.balancing != BalancingMode::KeepsClient {
        return invalid(
            format!("{field}.balancing"),
            "expected keeps-client in a dual-stack cluster: HAProxy listens only on IPv4",
        );
    }
    Ok(())
}

/// Checks for features that the server software does not have.
pub(super) fn check_server(field: &str, service: &Service, server: &ServerSpec) -> CheckResult {
    if server.redirect.is_some() && server.software != ServerSoftware::Nginx {
        return invalid(format!("{field}.redirect"), "expected only with software nginx");
    }
    if server.software == ServerSoftware::Lab {
        if server.proxy_protocol {
            return invalid(
                format!("{field}.proxyProtocol"),
                "expected only with software nginx or haproxy",
            );
        }
        if let Some(port) = service
            .ports
            .iter()
            .find(|port| port.is_tls() && service.behind.is_none())
        {
            return invalid(
                format!("{field}.software"),
                format!("expected nginx or haproxy: the port {} uses TLS", port.name),
            );
        }
    } else if server.delay_ms.is_some() || server.body_bytes.is_some() {
        return invalid(field, "expected delayMs and bodyBytes only with software lab");
    }
    Ok(())
}
