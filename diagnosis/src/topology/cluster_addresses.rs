//! The cluster addresses of Services as targets of their own.

use std::net::SocketAddr;

use parallax_model::{HostName, HttpProbe, Micros, ProbeSpec, Scheme, Target, TargetId, TcpProbe};

use super::{PortSpec, ServiceSpec};

/// How one cluster address of a Service is asked, where it is asked at all.
pub(super) fn cluster_ip_target(
    spec: &ServiceSpec,
    port: &PortSpec,
    front: SocketAddr,
) -> Result<Option<Target>, String> {
    let host = HostName::new(format!("{}.{}.svc", spec.name, spec.namespace))
        .map_err(|_| "the Service's name is too long for a host name".to_owned())?;
    let scheme = match (spec.probe.wanted, speaks(port)) {
        (Some(true) | None, Some(Scheme::Http)) => Some(Scheme::Http),
        // Whose certificate would verify for a cluster address is anybody's guess.
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
        forbidden: Vec::new(),
        pending: spec.probe.pending,
    }))
}

/// What a port speaks, as its `appProtocol` or its name says. A bare TCP connect to a database from every node is an
/// attack in its eyes, so nothing is guessed from the number.
fn speaks(port: &PortSpec) -> Option<Scheme> {
    let word = port.app_protocol.as_ref().or(port.name.as_ref())?.as_str();
    match word {
        "http" => Some(Scheme::Http),
        "https" => Some(Scheme::Https),
        _ if word.starts_with("http-") => Some(Scheme::Http),
        _ if word.starts_with("https-") => Some(Scheme::Https),
        _ => None,
    }
}
