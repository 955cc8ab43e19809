//! Targets for the cluster addresses of Services.

use std::net::SocketAddr;

use parallax_model::{HostName, HttpProbe, Micros, ProbeSpec, Scheme, Target, TargetId, TcpProbe};

use super::{PortSpec, ServiceSpec};

/// Returns the target for one cluster address of a Service, or `None` if it is not probed.
pub(super) fn cluster_ip_target(
    spec: &ServiceSpec,
    port: &PortSpec,
    front: SocketAddr,
) -> Result<Option<Target>, String> {
    let host = HostName::new(format!("{}.{}.svc", spec.name, spec.namespace))
        .map_err(|_| "the Service's name is too long for a host name".to_owned())?;
    let scheme = match (spec.probe.enabled, scheme_of(port)) {
        (Some(true) | None, Some(Scheme::Http)) => Some(Scheme::Http),
        // It is unknown which certificate name would be valid for a cluster address, so TLS is not attempted.
        (Some(true), Some(Scheme::Https) | None) => None,
        (Some(false), _) | (None, Some(Scheme::Https) | None) => return Ok(None),
    };
    let (id, probe) = match scheme {
        Some(scheme) => {
            let path = spec.probe.path.clone().unwrap_or_else(|| "/".to_owned());
            let mut probe = HttpProbe::get(scheme, host, port.port, path.clone());
            if let Some(expected) = &spec.probe.expect_status {
                probe.expect_status = expected.clone();
            }
            (format!("http://{front}{path}"), ProbeSpec::Http(probe))
        }
        None => (
            format!("tcp://{front}"),
            ProbeSpec::Tcp(TcpProbe::connect(host, port.port)),
        ),
    };
    let id = TargetId::new(id).map_err(|error| error.to_string())?;
    Ok(Some(Target {
        id,
        probe,
        interval: spec.probe.interval_ms.map(Micros::from_millis),
        timeout: None,
        forbidden_probes: Vec::new(),
        pending: spec.probe.pending,
    }))
}

/// Returns the HTTP scheme of a port by its `appProtocol` or name. The port number is not used: to a database, a
/// bare TCP connect from every node looks like an attack.
fn scheme_of(port: &PortSpec) -> Option<Scheme> {
    let word = port.app_protocol.as_ref().or(port.name.as_ref())?.as_str();
    match word {
        "http" => Some(Scheme::Http),
        "https" => Some(Scheme::Https),
        _ if word.starts_with("http-") => Some(Scheme::Http),
        _ if word.starts_with("https-") => Some(Scheme::Https),
        _ => None,
    }
}
